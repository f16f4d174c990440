"""Makes the README's picture, `docs/demo.jpg`, from a finished demo: the unseen slide, its truth, and the mask.

ucc-path demo && python docs/picture.py demo
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ucc_path.formats import jpeg, label_raster, read_annotation, segmentation_json
from ucc_path.formats.atomic import replacing
from ucc_path.formats.segmentation_json import ENDINGS
from ucc_path.report.comparison import strip, tumour_view
from ucc_path.slide import Slide

SIDE_PX = 300


def main(demo: Path) -> None:
    (name, record), *_ = segmentation_json.all_in(demo / "segmented").items()
    path = demo / "slides" / f"{name}.tif"
    with Slide(path) as slide:
        thumbnail = slide.thumbnail(8.0)
        size_l0 = slide.size_l0
    rows, cols = thumbnail.shape[:2]
    truth = read_annotation(path.with_suffix(".xml")).tumour_mask((0, 0), size_l0, size_l0.width / cols)[:rows, :cols]
    grid = record["grid"]
    labels = label_raster.read(demo / "segmented" / f"{name}{ENDINGS['labels']}", rows=grid["rows"], cols=grid["cols"])
    cell_px = grid["cell_l0"] * cols / size_l0.width
    row, col = (
        np.minimum((np.arange(n) / cell_px).astype(int), k - 1)
        for n, k in ((rows, labels.shape[0]), (cols, labels.shape[1]))
    )
    found = labels[row[:, None], col] == 2
    pictures = [
        ("a slide never seen", thumbnail),
        ("its tumour", tumour_view(thumbnail, truth)),
        ("found, taught by tile labels alone", tumour_view(thumbnail, found)),
    ]
    with replacing(Path(__file__).parent / "demo.jpg") as partial:
        partial.write_bytes(jpeg.encode(strip(pictures, side_px=SIDE_PX)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

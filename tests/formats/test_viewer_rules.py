"""What the viewers make of a TIFF, held against what was measured with the viewers themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openslide
import pytest
import tifffile
from conftest import write_tiff
from numpy.typing import NDArray

from ucc_path.errors import OverlayError, SlideError
from ucc_path.formats import label_tiff
from ucc_path.formats.viewer_rules import Verdict, describe, examine, misfits
from ucc_path.slide import reader

LEVELS = 3


def labels(dtype: str = "uint8") -> NDArray[Any]:
    """Four fields with the values 0 to 3, 1536 x 1024 px."""
    return np.kron([[0, 1], [2, 3]], np.ones((512, 768), int)).astype(dtype)


def coloured() -> NDArray[Any]:
    return np.stack([40 * labels(), 200 - labels(), 60 + labels()], axis=-1)


def chained(path: Path, image: NDArray[Any], *, reduced: bool = True, **options: Any) -> Path:
    """A pyramid in a chain of directories; `options` as tifffile has them."""
    options = {"tile": (256, 256), "compression": 32946, "photometric": "minisblack"} | options
    options = {"resolution": (20_000, 20_000), "resolutionunit": "CENTIMETER", "metadata": None} | options
    with tifffile.TiffWriter(path) as tiff:
        for level in range(LEVELS):
            tiff.write(image[:: 2**level, :: 2**level], subfiletype=int(reduced and level > 0), **options)
    return path


def nested(path: Path, image: NDArray[Any], *, ome: bool, **options: Any) -> Path:
    """A pyramid whose reduced levels are SubIFDs."""
    options = {"tile": (256, 256), "compression": 32946, "photometric": "minisblack"} | options
    options |= {"resolution": (20_000, 20_000), "resolutionunit": "CENTIMETER"}
    with tifffile.TiffWriter(path, ome=ome) as tiff:
        metadata = {"axes": "YX" if image.ndim == 2 else "YXS"} if ome else None
        tiff.write(image, subifds=LEVELS - 1, metadata=metadata, **options)
        for level in range(1, LEVELS):
            tiff.write(image[:: 2**level, :: 2**level], subfiletype=1, metadata=None, **options)
    return path


def mixed(path: Path, **second: Any) -> Path:
    """Two images; the second is packed or reduced as it should not be."""
    options = {"compression": 32946, "metadata": None, "resolution": (20_000, 20_000), "resolutionunit": "CENTIMETER"}
    step, tile = second.get("step", 2), second.get("tile", (256, 256))
    with tifffile.TiffWriter(path) as tiff:
        tiff.write(labels(), tile=(256, 256), **options)
        tiff.write(labels()[::step, ::step], tile=tile, subfiletype=1, **options)
    return path


def planar(path: Path) -> Path:
    apart = np.ascontiguousarray(np.moveaxis(coloured(), -1, 0))
    tifffile.imwrite(path, apart, tile=(256, 256), photometric="rgb", planarconfig="separate", metadata=None)
    return path


def alone(path: Path) -> Path:
    tifffile.imwrite(path, coloured(), tile=(256, 256), photometric="rgb", metadata=None)
    return path


COLOURS = np.zeros((3, 256), np.uint16)
COLOURS[:, 1:4] = 65535

MAKERS: dict[str, Callable[[Path], Path]] = {
    "LZW": lambda path: chained(path, labels(), compression="lzw"),
    "deflate 32946": lambda path: chained(path, labels()),
    "zlib 8": lambda path: chained(path, labels(), compression="zlib"),
    "zstd": lambda path: chained(path, labels(), compression="zstd"),
    "no reduced flag": lambda path: chained(path, labels(), reduced=False),
    "SubIFDs": lambda path: nested(path, labels(), ome=False),
    "OME": lambda path: nested(path, labels(), ome=True),
    "OME RGB": lambda path: nested(path, coloured(), ome=True, photometric="rgb"),
    "palette": lambda path: chained(path, labels(), photometric="palette", colormap=COLOURS),
    "RGB LZW": lambda path: chained(path, coloured(), photometric="rgb", compression="lzw"),
    "RGB JPEG": lambda path: chained(path, coloured(), photometric="rgb", compression="jpeg"),
    "grey JPEG": lambda path: chained(path, labels(), compression="jpeg"),
    "uint16": lambda path: chained(path, labels("uint16")),
    "float32": lambda path: chained(path, labels("float32")),
    "striped": lambda path: chained(path, labels(), tile=None),
    "RGB striped": lambda path: chained(path, coloured(), photometric="rgb", tile=None),
    "white is zero": lambda path: chained(path, labels(), photometric="miniswhite"),
    "no resolution": lambda path: chained(path, labels(), resolution=None, resolutionunit="NONE"),
    "strips below": lambda path: mixed(path, tile=None),
    "other tiles below": lambda path: mixed(path, tile=(128, 128)),
    "not halves": lambda path: mixed(path, step=5),
    "same size": lambda path: mixed(path, step=1),
    "planar": lambda path: planar(path),
    "alone": lambda path: alone(path),
    "inches": lambda path: chained(path, labels(), resolution=(50_800, 50_800), resolutionunit="INCH"),
}

# Levels that OpenSlide, QuPath, ASAP, tiffslide and HistomicsUI show, 0 where they refuse: measured with OpenSlide
# 4.0.1, Bio-Formats 7.3.1, tiffslide 3.0.1 and large_image 1.35; of ASAP read in its source.
MEASURED = {
    "LZW": (3, 1, 3, 3, 3),
    "deflate 32946": (3, 1, 3, 3, 3),
    "zlib 8": (3, 1, 0, 3, 3),
    "zstd": (3, 1, 0, 3, 3),
    "no reduced flag": (1, 1, 3, 3, 3),
    "SubIFDs": (1, 1, 1, 3, 3),
    "OME": (1, 3, 0, 3, 3),
    "OME RGB": (1, 3, 0, 3, 3),
    "palette": (3, 1, 0, 3, 3),
    "RGB LZW": (3, 3, 3, 3, 3),
    "RGB JPEG": (3, 3, 3, 3, 3),
    "grey JPEG": (3, 1, 3, 3, 3),
    "uint16": (3, 1, 3, 3, 3),
    "float32": (0, 1, 3, 3, 3),
    "striped": (0, 1, 0, 3, 0),
    "RGB striped": (0, 1, 0, 3, 0),
    "white is zero": (3, 1, 0, 3, 3),
    "no resolution": (3, 1, 3, 3, 3),
    "inches": (3, 1, 3, 3, 3),
    "strips below": (1, 1, 1, 2, 1),
    "other tiles below": (2, 1, 2, 2, 1),
    "not halves": (2, 1, 2, 1, 1),
    "same size": (2, 1, 0, 0, 1),
    "planar": (1, 1, 0, 0, 1),
    "alone": (1, 1, 1, 1, 1),
}


def verdicts_of(path: Path) -> dict[str, Verdict]:
    return {verdict.viewer: verdict for verdict in examine(path)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("overlays")

    def make(kind: str) -> Path:
        path = folder / f"{kind}.tif"
        return path if path.exists() else MAKERS[kind](path)

    return make


@pytest.mark.parametrize("kind", MAKERS)
def test_the_verdicts_are_what_was_measured(made: Callable[[str], Path], kind: str) -> None:
    verdicts = examine(made(kind))
    assert [verdict.viewer for verdict in verdicts] == ["OpenSlide", "QuPath", "ASAP", "tiffslide", "HistomicsUI"]
    assert tuple(verdict.levels for verdict in verdicts) == MEASURED[kind]
    assert all(verdict.opens == (verdict.levels > 0) for verdict in verdicts)


@pytest.mark.parametrize("kind", MAKERS)
def test_whatever_is_not_a_pyramid_has_a_reason_and_every_reason_says_what_to_write(
    made: Callable[[str], Path], kind: str
) -> None:
    for verdict in examine(made(kind)):
        assert verdict.reasons or verdict.levels > 1
        assert all("; write " in reason for reason in verdict.reasons)


@pytest.mark.parametrize(
    ("kind", "viewer", "words"),
    [
        ("no reduced flag", "OpenSlide", "NewSubfileType 1"),
        ("SubIFDs", "OpenSlide", "SubIFDs, which are not looked for"),
        ("striped", "OpenSlide", "strips"),
        ("strips below", "OpenSlide", "smaller images are stored in strips"),
        ("uint16", "OpenSlide", "300 is read as 1"),
        ("float32", "OpenSlide", "samples of 32 bits cannot be read"),
        ("deflate 32946", "QuPath", "write an OME-TIFF"),
        ("zlib 8", "ASAP", "compression 8 (zlib) is unknown to it; write DEFLATE with tag 32946, or LZW"),
        ("OME", "ASAP", "XML"),
        ("palette", "ASAP", "PhotometricInterpretation 3"),
        ("planar", "ASAP", "stored apart"),
        ("same size", "ASAP", "not narrower"),
        ("no resolution", "ASAP", "no scale"),
        ("inches", "ASAP", "ResolutionUnit 3"),
        ("not halves", "tiffslide", "write halves"),
        ("same size", "tiffslide", "two of its images have one size"),
        ("other tiles below", "HistomicsUI", "tiles of different sizes"),
        ("strips below", "HistomicsUI", "smaller images are stored in strips"),
        ("not halves", "HistomicsUI", "write halves"),
    ],
)
def test_the_reason_names_the_fault(made: Callable[[str], Path], kind: str, viewer: str, words: str) -> None:
    assert words in "; ".join(verdicts_of(made(kind))[viewer].reasons)


def test_jpeg_is_warned_of_in_labels_but_not_in_colours(made: Callable[[str], Path]) -> None:
    for verdict in examine(made("grey JPEG")):
        assert any("JPEG invents values" in reason for reason in verdict.reasons)
    for verdict in examine(made("RGB JPEG")):
        assert not verdict.reasons


def test_an_ome_description_without_sub_directories_is_one_level_in_qupath(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.ome.tif", coloured(), tile=(256, 256), photometric="rgb", ome=True)
    verdict = verdicts_of(tmp_path / "a.ome.tif")["QuPath"]
    assert (verdict.opens, verdict.levels) == (True, 1)
    assert "SubIFDs" in verdict.reasons[0]


@pytest.mark.parametrize("make", [labels, coloured])
def test_what_this_program_writes_opens_where_it_should(tmp_path: Path, make: Callable[[], NDArray[Any]]) -> None:
    label_tiff.write(tmp_path / "a.tif", make(), mpp=8.0)
    label_tiff.write(tmp_path / "a.ome.tif", make(), mpp=8.0, as_ome=True)
    chain, ome = verdicts_of(tmp_path / "a.tif"), verdicts_of(tmp_path / "a.ome.tif")
    assert {viewer for viewer, verdict in chain.items() if verdict.levels == 3} >= set(chain) - {"QuPath"}
    assert ome["QuPath"].levels == 3


def test_a_codec_that_nobody_knows_is_refused_by_all(shared_data: Path) -> None:
    for verdict in examine(shared_data / "odd-slides" / "unopenable.tiff"):
        assert not verdict.opens
        assert "52479" in verdict.reasons[0]


def test_an_image_smaller_than_a_tile_is_said_to_need_no_levels_in_histomicsui(tmp_path: Path) -> None:
    label_tiff.write(tmp_path / "a.tif", labels()[::16, ::16], mpp=8.0)
    verdict = verdicts_of(tmp_path / "a.tif")["HistomicsUI"]
    assert (verdict.opens, verdict.levels) == (True, 1)
    assert "no larger than one tile" in verdict.reasons[0]


def test_a_file_is_described_in_a_line(made: Callable[[str], Path]) -> None:
    words = "1536 x 1024 px, 0.5 um/px, 1 x 8 bits, compression 32946 (DEFLATE), tiles of 256 x 256 px"
    assert describe(made("deflate 32946")) == words
    assert describe(made("RGB striped")).endswith("strips")
    assert "no scale" in describe(made("no resolution"))


def test_openslide_is_asked_itself_and_a_plain_picture_is_refused_in_its_words(made: Callable[[str], Path]) -> None:
    assert reader.levels_of(made("LZW")) == ((1536, 1024), (768, 512), (384, 256))
    with pytest.raises(SlideError, match="Unsupported or missing image file"):
        reader.levels_of(made("striped"))


def make_slide(path: Path, size_px: tuple[int, int], mpp: float | None) -> Path:
    return write_tiff(path, np.zeros((size_px[1], size_px[0], 3), np.uint8), mpp=mpp, levels=1)


# One pixel short is right too: what is left of the slide is no more than a pixel of the overlay.
@pytest.mark.parametrize(("size_px", "mpp"), [((64, 48), 16.0), ((63, 47), 16.0), ((2048, 1536), 0.5)])
def test_an_overlay_fits_if_the_slide_is_a_whole_number_of_times_as_large(
    tmp_path: Path, size_px: tuple[int, int], mpp: float
) -> None:
    slide = make_slide(tmp_path / "slide.tif", (2048, 1536), 0.5)
    label_tiff.write(tmp_path / "a.tif", np.zeros((size_px[1], size_px[0]), np.uint8), mpp=mpp)
    assert misfits(tmp_path / "a.tif", slide) == ()


@pytest.mark.parametrize(
    ("size_px", "mpp", "words"),
    [
        ((64, 24), 16.0, "does not show it; write it 64 x 48 px large"),
        ((600, 450), 2.0, "shows it up to 248 px off; write it 512 x 384 px large"),
        ((600, 450), 500.0, "px off; write it 2 x 1 px large"),
        ((64, 48), 8.0, "write 16 um/px if the size is right"),
        ((4096, 3072), 0.25, "larger than the slide"),
    ],
)
def test_an_overlay_that_would_lie_elsewhere_is_found_out(
    tmp_path: Path, size_px: tuple[int, int], mpp: float, words: str
) -> None:
    slide = make_slide(tmp_path / "slide.tif", (2048, 1536), 0.5)
    label_tiff.write(tmp_path / "a.tif", np.zeros((size_px[1], size_px[0]), np.uint8), mpp=mpp)
    assert words in "; ".join(misfits(tmp_path / "a.tif", slide))


def test_a_slide_without_scale_is_compared_by_size(tmp_path: Path) -> None:
    slide = make_slide(tmp_path / "slide.tif", (2048, 1536), None)
    label_tiff.write(tmp_path / "a.tif", np.zeros((48, 64), np.uint8), mpp=777.0)
    assert misfits(tmp_path / "a.tif", slide) == ()


def test_a_slide_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    label_tiff.write(tmp_path / "a.tif", np.zeros((48, 64), np.uint8), mpp=8.0)
    with pytest.raises(SlideError, match=r"absent\.tif"):
        misfits(tmp_path / "a.tif", tmp_path / "absent.tif")


def test_a_picture_that_is_no_tiff_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(OverlayError, match=r"a.png is not a whole TIFF: it does not begin as one"):
        examine(tmp_path / "a.png")


def test_the_real_label_image_of_another_program_opens(shared_data: Path) -> None:
    path = shared_data / "odd-slides" / "no_dzi.tif"
    with openslide.OpenSlide(path) as slide:
        assert verdicts_of(path)["ASAP"].levels == slide.level_count == 4

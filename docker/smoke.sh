#!/bin/sh
# Does an installed ucc-path work? Makes a slide with known tissue, crops tiles, takes two steps of training, segments the
# slide and compares the number of patches with the tissue that was drawn. Seconds on a CPU; needs no network.
#
#   docker run --rm --gpus all --entrypoint ucc-path-smoke ucc-path:0.1.0
#   docker/smoke.sh                  outside Docker, with any ucc-path on PATH
#
# DEVICE=cuda insists on a GPU, INFERENCE=compiled on torch.compile; both are auto unless given.
set -eu

device=${DEVICE:-auto}
inference=${INFERENCE:-auto}
program=$(command -v ucc-path) || { echo "smoke: there is no ucc-path on PATH" >&2; exit 2; }
python=$(sed -n '1s/^#!//p' "$program") # the one that it is installed in
case $python in
*python*) ;;
*) echo "smoke: $program does not name its Python" >&2; exit 2 ;;
esac

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
cd "$folder"

echo "smoke: $(ucc-path --version), device $device, inference $inference, as user $(id -u)"

# A slide of 3072 x 3072 px at 0.5 um/px, and how many cells of 32 um are at least half tissue, by its outline alone.
"$python" - > expected <<'PYTHON'
from pathlib import Path

import shapely

from ucc_path.synthetic import make_slide

CELL_L0 = 64  # 32 px at 1 um/px, on a slide of 0.5 um/px
made = make_slide(Path("slide.tif"), seed=3, size_px=(3072, 3072), mpp=0.5, ink=False)
corners = [(x, y) for y in range(0, 3072, CELL_L0) for x in range(0, 3072, CELL_L0)]
cells = shapely.box(*zip(*((x, y, x + CELL_L0, y + CELL_L0) for x, y in corners)))
shares = shapely.area(shapely.intersection(cells, made.tissue)) / CELL_L0**2
print(int((shares >= 0.5).sum()))
PYTHON

ucc-path tile slide.tif -o dataset --tile-px 256 --per-slide 4 --workers 1 --quiet
ucc-path train dataset -o run --steps 2 --device "$device" --quiet
ucc-path segment slide.tif -m run -o segmented --device "$device" --inference "$inference" --workers 1 --quiet

"$python" - "$(cat expected)" <<'PYTHON'
import json
import sys
from pathlib import Path

expected, tolerance = int(sys.argv[1]), 0.03  # tissue is found in a thumbnail of 8 um/px: its edge is a little uncertain
found = json.loads(Path("segmented/slide.json").read_text())
files = ("labels.tif", "overlay.tif", "uncertainty.tif", "likelihood_map.tif")
missing = [name for name in files if not Path(f"segmented/slide_{name}").is_file()]
print(f"smoke: {found['patches']} patches segmented, {expected} drawn")
if missing:
    sys.exit(f"smoke: FAILED, not written: {', '.join(missing)}")
if abs(found["patches"] - expected) > tolerance * expected:
    sys.exit(f"smoke: FAILED, the number of patches is off by more than {tolerance:.0%}")
PYTHON
echo "smoke: passed"

"""`report.html`: the report of `evaluate` or `score`, one file that needs no other; and the drawings beside it.

UTF-8. The page is put together in `report/page.py`; drawings are SVG.
"""

from __future__ import annotations

from pathlib import Path

from ucc_path.formats.atomic import replacing

NAME = "report.html"


def write(path: Path, markup: str) -> None:
    with replacing(path) as partial:
        partial.write_text(markup, encoding="utf-8")

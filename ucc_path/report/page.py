"""The parts of an HTML page that stands alone: no scripts, nothing fetched; read on a phone, a wide screen and paper.

A plain `str` is escaped wherever it is given; only `Html` passes as it is.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Literal

from ucc_path.report.page_style import STYLE

_PICTURE = re.compile(r"data:image/[a-z+.-]+;base64,[A-Za-z0-9+/]+={0,2}")
# Characters that HTML and XML do not allow, and halves of characters, which no file can hold.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# On paper: the widths of a letter and of the gaps of a column, and how many letters of a row's name are on one line.
_LETTER_EM, _GAP_EM, _NAME_LETTERS = 0.6, 1.2, 14


class Html(str):
    """Markup that is safe to stand on a page; what is cut or joined from it is a plain `str` again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with its heading; a plain text among the parts becomes a paragraph."""

    title: str
    parts: tuple[Html | str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, with a second one set small below it; a shade between 0, white, and 1, nearly black, lies behind."""

    text: str
    small: str = ""
    shade: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table; one of the kind "reference" is there only for orientation and is set apart."""

    name: str
    cells: Sequence[Cell]
    kind: Literal["", "reference"] = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as a data URI, the words above it, and what is said to those who cannot see it."""

    source: str
    label: str
    alt: str


def page(title: str, *, lead: Sequence[Html | str], sections: Sequence[Section], footer: str) -> str:
    """The whole document; plain texts of the lead become paragraphs."""
    contents, bodies = "", ""
    for number, section in enumerate(sections, start=1):
        heading = escaped(section.title)
        contents += f'<li><a href="#section-{number}">{heading}</a></li>'
        bodies += f'<section id="section-{number}">\n<h2>{heading}</h2>\n{_blocks(section.parts)}\n</section>\n'
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title>
<style>{STYLE}</style>
</head><body>
<header><h1>{escaped(title)}</h1>
{_blocks(lead)}
</header>
<nav aria-label="Contents"><ul>{contents}</ul></nav>
<main>{bodies}</main>
<footer>{escaped(footer)}</footer>
</body></html>
"""


def escaped(text: Html | str) -> Html:
    """The text as it reads, whatever it holds; a character that no page can hold becomes a sign for that."""
    return text if isinstance(text, Html) else Html(escape(_UNWRITABLE.sub("\ufffd", text)))


def paragraph(*parts: Html | str) -> Html:
    """Texts and links, one right after the other."""
    return Html(f"<p>{''.join(map(escaped, parts))}</p>")


def bullets(items: Sequence[Html | str]) -> Html:
    return Html(f"<ul>{''.join(f'<li>{escaped(item)}</li>' for item in items)}</ul>")


def link(href: str, text: str) -> Html:
    """A link to a web page or a file, or only its text if the address is of another kind, such as `javascript:`.

    A file's path must be quoted by the caller: `#`, `?` and `%` have a meaning in addresses.
    """
    bare = re.sub(r"[\x00-\x20]", "", href).lower()  # browsers overlook these
    is_known = bare.startswith(("http:", "https:", "file:")) or not re.match(r"[^/?#]*:|[/\\]{2}", bare)
    return Html(f'<a href="{escaped(href)}">{escaped(text)}</a>') if is_known else escaped(text)


def disclosure(summary: str, parts: Sequence[Html | str]) -> Html:
    """Parts that are shown on a click, and always on paper."""
    return Html(f"<details>\n<summary>{escaped(summary)}</summary>\n{_blocks(parts)}\n</details>")


def facts(items: Mapping[str, str]) -> Html:
    """Names and what they are, such as settings."""
    pairs = (f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in items.items())
    return Html(f"<dl>{''.join(pairs)}</dl>")


def table(head: Sequence[str], rows: Sequence[Row], *, caption: Html | str = "") -> Html:
    """A table that scrolls in its own frame if the screen is narrower, and shrinks until it fits on paper.

    `head` holds the word above the names of the rows and then one for each column.
    """
    for row in rows:
        if len(row.cells) != len(head) - 1:
            raise ValueError(f"row {row.name!r} has {len(row.cells)} cells for {len(head) - 1} columns")
    heads = "".join(f'<th scope="col">{escaped(text)}</th>' for text in head)
    lines = f"<thead><tr>{heads}</tr></thead>\n"
    for kind, group in groupby(rows, key=lambda row: row.kind):
        names = (f'<tr><th scope="row">{escaped(row.name)}</th>{"".join(map(_cell, row.cells))}</tr>' for row in group)
        lines += f'<tbody class="{kind}">\n{"".join(names)}</tbody>\n'
    words = f"<figcaption>{escaped(caption)}</figcaption>\n" if caption else ""
    inside = f'<table style="--ems: {_width_em(head, rows):.1f}">\n{lines}</table>'
    # The tabindex lets it be scrolled by keys. The caption is outside, where it does not scroll away.
    frame = f'<div class="scroll" tabindex="0" role="group" aria-label="table">{inside}</div>'
    return Html(f'<figure class="table">\n{words}{frame}\n</figure>')


def legend(entries: Mapping[str, Html | tuple[int, int, int]]) -> Html:
    """Words, each beside its colour or another sample of what it means, such as a piece of a line."""
    items = ""
    for text, sample in entries.items():
        swatch = sample if isinstance(sample, Html) else f'<span class="swatch" style="background: rgb{sample}"></span>'
        items += f"<li>{swatch}{escaped(text)}</li>"
    return Html(f'<ul class="legend">{items}</ul>')


def picture_row(pictures: Sequence[Picture], *, caption: Html | str = "", largest_px: int = 256) -> Html:
    """Pictures side by side, all of one width; on a phone two or three a row, or one if `largest_px` is more."""
    count = len(pictures)
    narrow = 1 if largest_px > 360 else 2 if count == 4 else min(count, 3)
    style = f"--wide: {min(count, 6)}; --narrow: {narrow}; --largest: {largest_px}px"
    return _figure("pictures", style, map(_picture, pictures), caption)


def charts(drawings: Sequence[Html], *, caption: Html | str = "", least_px: int = 320) -> Html:
    """Drawings in rows, as many in one as there is room for at `least_px` each, none larger than it is."""
    return _figure("charts", f"--least: {least_px}px", drawings, caption)


def data_uri(mime: str, content: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}"


def _figure(kind: str, style: str, parts: Iterable[str], caption: Html | str) -> Html:
    words = f"<figcaption>{escaped(caption)}</figcaption>\n" if caption else ""
    return Html(f'<figure class="{kind}">\n<div style="{style}">{"".join(parts)}</div>\n{words}</figure>')


def _picture(picture: Picture) -> str:
    if not _PICTURE.fullmatch(picture.source):
        raise ValueError(f"the picture {picture.label!r} is not a data: URI of an image; make one with data_uri")
    words = f"<span>{escaped(picture.label)}</span>"
    return f'<div>{words}<img src="{picture.source}" alt="{escaped(picture.alt)}"></div>'


def _cell(cell: Cell) -> str:
    words = escaped(cell.text) + (f" <small>{escaped(cell.small)}</small>" if cell.small else "")
    if cell.shade is None or not math.isfinite(cell.shade):
        return f"<td>{words}</td>"
    level = round(255 - 204 * min(max(cell.shade, 0.0), 1.0))
    ink = "#000" if level > 117 else "#fff"  # where both stand out from the grey alike
    return f'<td class="shaded" style="background: rgb({level}, {level}, {level}); color: {ink}">{words}</td>'


def _width_em(head: Sequence[str], rows: Sequence[Row]) -> float:
    """About the least width of the table, in font sizes: words are not broken, except those of a row's name."""
    letters = [max(map(len, text.split()), default=0) for text in head[1:]]
    for row in rows:
        for place, cell in enumerate(row.cells):
            letters[place] = max(letters[place], *map(len, cell.text.split()), round(len(cell.small) * 0.8))
    return (_NAME_LETTERS + sum(letters)) * _LETTER_EM + _GAP_EM * len(head)


def _blocks(parts: Iterable[Html | str]) -> str:
    return "\n".join(part if isinstance(part, Html) else paragraph(part) for part in parts)

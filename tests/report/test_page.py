"""Pages: that they stand alone, hold what was said and nothing else, and can be read."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucc_path.report.page import (
    Cell,
    Html,
    Picture,
    Row,
    Section,
    bullets,
    charts,
    data_uri,
    disclosure,
    escaped,
    facts,
    legend,
    link,
    page,
    paragraph,
    picture_row,
    table,
)

EVIL = "<script>alert('x')</script>&amp; \"quoted\""
PIXEL = data_uri("image/png", b"\x89PNG not really")


class Reader(HTMLParser):
    """The elements with their attributes, the texts, and whether every element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def said(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


def make_page(*sections: Section, title: str = "A report", lead: tuple[Html | str, ...] = ("In short.",)) -> str:
    return page(title, lead=lead, sections=sections, footer="made by hand")


def one_cell(cell: Cell) -> Html:
    return table(["", "score"], [Row("model", [cell])])


def test_a_page_is_a_whole_document_in_the_order_of_a_report() -> None:
    text = make_page(Section("Scores", ("all good",)), Section("Pictures", (bullets(["one", "two"]),)))
    read = Reader(text)
    assert text.startswith("<!doctype html>\n")
    assert read.all("html") == [{"lang": "en"}] and read.said("title") == ["A report"]
    assert [said for tag, said in read.texts if tag not in ("title", "style")] == [
        *("A report", "In short."),
        *("Scores", "Pictures"),
        *("Scores", "all good"),
        *("Pictures", "one", "two"),
        "made by hand",
    ]


def test_the_contents_lead_to_the_sections_even_if_they_are_named_alike() -> None:
    read = Reader(make_page(Section("Same", ()), Section("Same", ()), Section(EVIL, ())))
    anchors = [f"#{section['id']}" for section in read.all("section")]
    assert [a["href"] for a in read.all("a")] == anchors and len(set(anchors)) == 3


def test_a_page_fetches_nothing_and_forbids_it_too() -> None:
    text = make_page(Section("Pictures", (picture_row([Picture(PIXEL, "a", "b")]), charts([Html("<svg></svg>")]))))
    read = Reader(text)
    policy = next(meta for meta in read.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"] == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert not {"script", "link", "iframe", "object", "form", "base"} & {tag for tag, _ in read.elements}
    assert not re.search(r"url\(|@import|@font-face|https?:", text)
    assert all(str(image["src"]).startswith("data:") for image in read.all("img"))


def test_a_phone_shows_it_at_its_own_width() -> None:
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in Reader(make_page()).all("meta")


@pytest.mark.parametrize(
    "make",
    [
        lambda text: make_page(title=text),
        lambda text: make_page(lead=(text,)),
        lambda text: make_page(Section(text, (text,))),
        lambda text: page("", lead=(), sections=(), footer=text),
        escaped,
        paragraph,
        lambda text: bullets([text]),
        lambda text: link("scores.csv", text),
        lambda text: link(text, "a"),
        lambda text: disclosure(text, [text]),
        lambda text: facts({text: text}),
        lambda text: table([text], [Row(text, [])], caption=text),
        lambda text: one_cell(Cell(text, text, 0.5)),
        lambda text: legend({text: (0, 0, 0)}),
        lambda text: picture_row([Picture(PIXEL, text, text)], caption=text),
        lambda text: charts([], caption=text),
    ],
)
def test_plain_text_is_shown_as_it_reads_wherever_it_is_given(make: Callable[[str], str]) -> None:
    made = make(EVIL)
    read = Reader(made)
    assert "script" not in {tag for tag, _ in read.elements}
    shown = [text for _, text in read.texts] + [value for _, named in read.elements for value in named.values()]
    assert EVIL in shown


def test_markup_passes_and_what_is_cut_from_it_does_not() -> None:
    bold = Html("<b>so</b>")
    assert paragraph("it is ", bold) == "<p>it is <b>so</b></p>"
    assert paragraph(bold[:3]) == "<p>&lt;b&gt;</p>"
    assert paragraph(bold + "<i>") == "<p>&lt;b&gt;so&lt;/b&gt;&lt;i&gt;</p>"
    assert "<p>" not in disclosure("more", [bold])


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_written_to_a_file(text: str) -> None:
    assert not set(escaped(text).encode("utf-8").decode("utf-8")) & set("<>\x00\x08\x1b")


@pytest.mark.parametrize(
    "href", ["a/b.csv", "../x.png", "#here", "http://x.org", "HTTPS://x.org", "file:///a", "a?b:c"]
)
def test_a_link_leads_to_a_file_or_a_web_page(href: str) -> None:
    assert Reader(link(href, "there")).all("a") == [{"href": href}]


@pytest.mark.parametrize(
    "href",
    [
        "javascript:alert(1)",
        " JavaScript:x",
        "java\nscript:x",
        "\x01data:text/html,x",
        "//x.org",
        " //x.org",
        "/\t/x",
        "/\\x",
        "\\\\x",
        "vb:x",
    ],
)
def test_a_link_to_anything_else_is_only_its_text(href: str) -> None:
    assert link(href, "a < b") == "a &lt; b"


def test_facts_are_names_with_their_values_in_order() -> None:
    read = Reader(facts({"tile_px": "256", "mpp": "0.5"}))
    assert read.said("dt") == ["tile_px", "mpp"] and read.said("dd") == ["256", "0.5"]


def test_a_disclosure_is_closed_on_a_screen_and_open_on_paper() -> None:
    made = disclosure("more", ["hidden"])
    assert Reader(made).all("details") == [{}] and Reader(made).said("p") == ["hidden"]
    on_paper = make_page().split("@media print")[1]
    assert re.search(r"details::details-content \{[^}]*content-visibility: visible", on_paper)


def test_a_table_names_its_columns_and_rows_and_sets_intervals_small() -> None:
    read = Reader(table(["Model", "Dice"], [Row("ucc", [Cell("0.85", "0.81–0.92")])], caption="Scores"))
    assert [th["scope"] for th in read.all("th")] == ["col", "col", "row"]
    assert read.said("th") == ["Model", "Dice", "ucc"]
    assert [text.strip() for text in read.said("td")] == ["0.85"] and read.said("small") == ["0.81–0.92"]
    assert read.said("figcaption") == ["Scores"]


def test_reference_rows_are_set_apart() -> None:
    rows = [Row("a", []), Row("b", []), Row("c", [], "reference"), Row("d", [], "reference")]
    read = Reader(table(["Model"], rows))
    assert [body["class"] for body in read.all("tbody")] == ["", "reference"]
    assert read.said("th") == ["Model", "a", "b", "c", "d"]


@pytest.mark.parametrize("count", [0, 2])
def test_a_row_with_another_number_of_cells_is_a_mistake_of_the_caller(count: int) -> None:
    with pytest.raises(ValueError, match=f"row 'ucc' has {count} cells for 1 columns"):
        table(["Model", "Dice"], [Row("ucc", [Cell("1")] * count)])


def test_a_table_without_rows_can_be_made() -> None:
    assert Reader(table(["Model", "Dice"], [])).said("th") == ["Model", "Dice"]


def width_em(made: Html) -> float:
    return float(str(Reader(made).all("table")[0]["style"]).removeprefix("--ems: "))


def test_a_wider_table_is_told_to_shrink_more_on_paper() -> None:
    def of(columns: int, cell: Cell) -> float:
        return width_em(table([""] * (columns + 1), [Row("a", [cell] * columns)]))

    assert of(4, Cell("0.85")) < of(4, Cell("0.85", "0.81–0.92")) < of(8, Cell("0.85", "0.81–0.92"))
    assert of(4, Cell("some words")) == of(4, Cell("words some words some"))  # they wrap


def luminance(level: int) -> float:
    share = level / 255
    return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)


def levels(made: Html) -> tuple[int, int]:
    """Of the ground and of the ink of the only cell."""
    style = str(Reader(made).all("td")[0]["style"])
    ground, ink = re.findall(r"rgb\((\d+), \1, \1\)|#(000|fff)", style)
    return int(ground[0]), {"000": 0, "fff": 255}[ink[1]]


@pytest.mark.parametrize("percent", range(0, 101, 2))
def test_words_on_any_shade_can_be_read(percent: int) -> None:
    bright, dark = sorted((luminance(level) for level in levels(one_cell(Cell("9", "", percent / 100)))), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 4.5  # what the accessibility guidelines ask for


def test_a_larger_share_is_darker_and_no_share_has_no_shade() -> None:
    grounds = [levels(one_cell(Cell("", "", shade)))[0] for shade in (-1, 0, 0.3, 0.6, 1, 7)]
    assert grounds[0] == grounds[1] == 255 and grounds[4] == grounds[5] < 60
    assert grounds[1:5] == sorted(grounds[1:5], reverse=True)
    for shade in (None, float("nan")):
        assert Reader(one_cell(Cell("", "", shade))).all("td") == [{}]


def test_a_legend_shows_colours_and_samples_beside_their_words() -> None:
    read = Reader(legend({"tumour": (213, 94, 0), "line": Html("<svg></svg>")}))
    assert read.said("li") == ["tumour", "line"]
    assert [span["style"] for span in read.all("span")] == ["background: rgb(213, 94, 0)"] and len(read.all("svg")) == 1


def test_pictures_have_their_labels_before_them_and_words_for_those_who_cannot_see() -> None:
    made = picture_row([Picture(PIXEL, "tile", "a tile"), Picture(PIXEL, "mask", "its mask")], caption=Html("<b>x</b>"))
    read = Reader(made)
    assert read.said("span") == ["tile", "mask"] and read.said("b") == ["x"]
    assert read.all("img") == [{"src": PIXEL, "alt": "a tile"}, {"src": PIXEL, "alt": "its mask"}]
    assert made.index("tile</span>") < made.index("<img")


@pytest.mark.parametrize(
    ("count", "wide", "narrow"), [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 2), (6, 6, 3), (9, 6, 3)]
)
def test_on_a_phone_pictures_stand_two_or_three_a_row(count: int, wide: int, narrow: int) -> None:
    pictures = [Picture(PIXEL, "", "")] * count
    assert f"--wide: {wide}; --narrow: {narrow};" in picture_row(pictures)
    assert "--narrow: 1; --largest: 480px" in picture_row(pictures, largest_px=480)


@pytest.mark.parametrize(
    "source", ["https://x.org/a.png", "a.png", "", "data:text/html;base64,AA==", 'data:image/png;base64,AA"onload="x']
)
def test_a_picture_from_elsewhere_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="'tile' is not a data: URI of an image; make one with data_uri"):
        picture_row([Picture(source, "tile", "")])


def test_a_data_uri_holds_the_content() -> None:
    content = bytes(range(256))
    head, body = data_uri("image/png", content).split(",")
    assert head == "data:image/png;base64" and base64.b64decode(body, validate=True) == content


def test_drawings_stand_in_a_grid_under_which_their_caption_is() -> None:
    made = charts([Html("<svg></svg>")] * 3, caption="Losses", least_px=200)
    assert len(Reader(made).all("svg")) == 3 and Reader(made).said("figcaption") == ["Losses"]
    assert "--least: 200px" in made and made.rindex("<svg>") < made.index("<figcaption>")
    assert "figcaption" not in charts([])

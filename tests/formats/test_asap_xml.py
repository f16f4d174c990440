"""ASAP XML: what it means, what is refused, and what is written."""

import time
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
import shapely

from ucc_path.errors import AnnotationError, OutputError
from ucc_path.formats import asap_xml, read_annotation
from ucc_path.settings import AnnotationSettings

SQUARE = [(0, 0), (100, 0), (100, 100), (0, 100)]
WITHIN = [(10, 10), (30, 10), (30, 30), (10, 30)]


def make_outline(points, group="_0", kind="Polygon", name="a", orders=None):
    orders = range(len(points)) if orders is None else orders
    vertices = "".join(
        f'<Coordinate {"" if order is None else f"Order={quoteattr(str(order))}"} X="{x}" Y="{y}" />'
        for order, (x, y) in zip(orders, points, strict=True)
    )
    return (
        f'<Annotation Name="{name}" Type="{kind}" PartOfGroup={quoteattr(group)} Color="#F4FA58">'
        f"<Coordinates>{vertices}</Coordinates></Annotation>"
    )


@pytest.fixture
def make_file(tmp_path):
    def make(*outlines, groups=""):
        body = f"<Annotations>{''.join(outlines)}</Annotations><AnnotationGroups>{groups}</AnnotationGroups>"
        return make_text(f'<?xml version="1.0"?>\n<ASAP_Annotations>{body}</ASAP_Annotations>')

    def make_text(text):
        path = tmp_path / "slide.xml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    make.text = make_text
    return make


def refusal(path, settings=None):
    """The one line a refused file gives; it always names the file and what to do."""
    with pytest.raises(AnnotationError) as caught:
        asap_xml.read(path, *([settings] if settings else []))
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert ";" in message
    return message


def test_outlines_of_tumour_less_exclusions_are_read(make_file):
    annotation = read_annotation(make_file(make_outline(WITHIN, "_2"), make_outline(SQUARE, "_0")))
    assert annotation.area_l0 == pytest.approx(10_000 - 400)
    assert annotation.summary.cut_area_l0 == pytest.approx(400)
    assert (annotation.summary.tumour_outlines, annotation.summary.excluded_outlines) == (1, 1)


@pytest.mark.parametrize("group", ["_0", "_1", "Tumor", "TUMOUR", "metastases"])
def test_every_name_of_tumour_is_tumour_in_any_case(make_file, group):
    assert asap_xml.read(make_file(make_outline(SQUARE, group))).area_l0 == pytest.approx(10_000)


@pytest.mark.parametrize("group", ["_2", "Exclusion", "None", "normal"])
def test_every_name_of_an_exclusion_is_cut_out(make_file, group):
    annotation = asap_xml.read(make_file(make_outline(SQUARE), make_outline(WITHIN, group)))
    assert annotation.area_l0 == pytest.approx(9_600)


def test_vertices_are_taken_by_order_not_by_place(make_file):
    shuffled = make_outline([SQUARE[i] for i in (2, 0, 3, 1)], orders=(2, 0, 3, 1))
    crossed = make_outline([SQUARE[i] for i in (0, 2, 1, 3)])
    assert asap_xml.read(make_file(shuffled)).area_l0 == pytest.approx(10_000)
    assert asap_xml.read(make_file(crossed)).area_l0 == pytest.approx(5_000)


def test_vertices_without_any_order_are_taken_by_place(make_file):
    assert asap_xml.read(make_file(make_outline(SQUARE, orders=[None] * 4))).area_l0 == pytest.approx(10_000)


@pytest.mark.parametrize("orders", [(0, 1, 1, 2), (0, 1, None, 2), (0, 1, "x", 2), (0, 1, 1.5, 2), (0, 1, "", 2)])
def test_an_order_that_does_not_order_is_refused(make_file, orders):
    message = refusal(make_file(make_outline(SQUARE, orders=orders, name="lesion 7")))
    assert "'lesion 7'" in message
    assert "Order" in message


def test_decimal_commas_are_read(make_file):
    ring = [("0,5", "0,5"), ("2,5", "0,5"), ("2,5", "2,5"), ("0,5", "2,5")]
    assert asap_xml.read(make_file(make_outline(ring))).area_l0 == pytest.approx(4)


@pytest.mark.parametrize("bad", ["NaN", "inf", "-Infinity", "1e300", "", "12px", "1.234,5"])
def test_a_vertex_that_is_no_place_is_refused(make_file, bad):
    message = refusal(make_file(make_outline([*SQUARE[:3], (bad, 5)], name="lesion 7")))
    assert "'lesion 7'" in message


def test_a_vertex_without_x_is_refused(make_file):
    text = make_outline(SQUARE).replace('X="100"', "")
    assert "without a number for X or Y" in refusal(make_file(text))


def test_a_rectangle_is_read_by_four_corners_or_by_two(make_file):
    four, two = make_outline(SQUARE, kind="Rectangle"), make_outline([(200, 10), (220, 0)], kind="Rectangle")
    annotation = asap_xml.read(make_file(four, two))
    assert annotation.area_l0 == pytest.approx(10_000 + 200)


def test_a_spline_is_a_smooth_curve_through_its_points(make_file):
    angle = np.arange(8) * np.pi / 4
    octagon = np.column_stack([5000 + 1000 * np.cos(angle), 5000 + 1000 * np.sin(angle)])
    annotation = asap_xml.read(make_file(make_outline(octagon.tolist(), kind="Spline")))
    assert annotation.area_l0 == pytest.approx(np.pi * 1000**2, rel=0.01)  # the octagon itself has 10 % less
    vertices = annotation.edges[:, :2]
    assert all(np.min(np.linalg.norm(vertices - point, axis=1)) < 1e-6 for point in octagon)
    assert np.max(np.hypot(*(annotation.edges[:, 2:] - vertices).T)) < 60


def test_a_spline_of_evenly_spaced_points_is_the_uniform_catmull_rom_curve(make_file):
    square = np.array(SQUARE, float) * 10
    annotation = asap_xml.read(make_file(make_outline(square.tolist(), kind="Spline")))
    t = np.linspace(0, 1, 2001)[:, None]
    p = [np.roll(square, shift, axis=0) for shift in (1, 0, -1, -2)]
    arcs = [
        0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
        for a, b, c, d in zip(*p, strict=True)
    ]
    assert annotation.area_l0 == pytest.approx(shapely.Polygon(np.concatenate(arcs)).area, rel=1e-3)


def test_a_spline_with_a_point_given_twice_is_the_same_curve(make_file):
    once = asap_xml.read(make_file(make_outline(SQUARE, kind="Spline"))).area_l0
    twice = asap_xml.read(make_file(make_outline([*SQUARE[:2], *SQUARE[1:], SQUARE[0]], kind="Spline"))).area_l0
    assert once == pytest.approx(twice)
    assert once > 10_000


def test_a_spline_of_far_points_may_not_grow_beyond_the_limit(make_file, monkeypatch):
    monkeypatch.setattr(asap_xml, "MAX_VERTICES", 100)
    path = make_file(make_outline([(0, 0), (1e6, 0), (1e6, 1e6)], kind="Spline"))
    assert "over 100 vertices" in refusal(path)


@pytest.mark.parametrize("kind", ["Dot", "PointSet", "Measurement"])
def test_what_has_no_area_is_left_out_and_counted_whatever_its_group(make_file, kind):
    annotation = asap_xml.read(make_file(make_outline(SQUARE), make_outline(SQUARE[:2], "mitosis", kind)))
    assert annotation.area_l0 == pytest.approx(10_000)
    assert annotation.summary.without_area == 1


def test_an_outline_of_fewer_than_three_places_is_left_out_and_counted(make_file):
    annotation = asap_xml.read(make_file(make_outline([]), make_outline([(1, 1)] * 5), make_outline(SQUARE[:2])))
    assert annotation.is_empty
    assert annotation.summary.without_area == 3


@pytest.mark.parametrize("kind", ["Ellipse", "None", ""])
def test_an_unknown_type_is_refused(make_file, kind):
    message = refusal(make_file(make_outline(SQUARE, kind=kind, name="lesion 7")))
    assert "'lesion 7'" in message
    assert repr(kind) in message


def test_an_unknown_group_is_refused_with_the_options_that_say_what_it_means(make_file):
    message = refusal(make_file(make_outline(SQUARE, "Necrosis")))
    for part in ("'Necrosis'", "_0", "exclusion", "--tumour-group NAME", "--exclude-group NAME"):
        assert part in message
    told = AnnotationSettings(tumour_groups=("NECROSIS",))
    assert asap_xml.read(make_file(make_outline(SQUARE, "Necrosis")), told).area_l0 == pytest.approx(10_000)


def test_a_group_set_as_both_is_refused(make_file):
    both = AnnotationSettings(tumour_groups=("x",), excluded_groups=("X",))
    assert "both as tumour and as excluded" in refusal(make_file(make_outline(SQUARE, "x")), both)


def test_a_group_means_what_the_group_it_is_part_of_means(make_file):
    groups = '<Group Name="Deep" PartOfGroup="Mid"/><Group Name="Mid" PartOfGroup="tumor"/>'
    path = make_file(make_outline(SQUARE, "Deep"), groups=groups)
    assert asap_xml.read(path).area_l0 == pytest.approx(10_000)


@pytest.mark.parametrize(
    "groups",
    [
        '<Group Name="Odd" PartOfGroup="None"/>',
        '<Group Name="Odd" PartOfGroup="B"/><Group Name="B" PartOfGroup="odd"/>',
    ],
)
def test_the_none_above_a_group_is_no_exclusion_and_a_circle_of_groups_ends(make_file, groups):
    assert "'Odd'" in refusal(make_file(make_outline(SQUARE, "Odd"), groups=groups))


def test_an_outline_that_crosses_itself_is_repaired_and_counted(make_file):
    annotation = asap_xml.read(make_file(make_outline([(0, 0), (2, 2), (2, 0), (0, 2)])))
    assert annotation.area_l0 == pytest.approx(2)
    assert annotation.summary.repaired_outlines == 1


def test_outlines_outside_the_slide_do_no_harm(make_file):
    far = [(x - 1e6, y - 1e6) for x, y in SQUARE]
    annotation = asap_xml.read(make_file(make_outline(far), make_outline(SQUARE)))
    assert annotation.tumour_share((0, 0), (100, 100)) == pytest.approx(1)


BOMB = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><ASAP_Annotations>&c;</ASAP_Annotations>"""
EXTERNAL = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<ASAP_Annotations>&a;</ASAP_Annotations>"""


@pytest.mark.parametrize("text", [BOMB, EXTERNAL, "<!DOCTYPE x><ASAP_Annotations/>"])
def test_a_doctype_is_refused(make_file, text):
    assert "DOCTYPE" in refusal(make_file.text(text))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 not xml", "not whole XML"),
        (b"<ASAP_Annotations><Annotations>", "not whole XML"),
        (b"\x00" * 64, "not whole XML"),
        (b"<Annotations/>", "'Annotations', not ASAP_Annotations"),
        (b'<?xml version="1.0" encoding="klingon"?><ASAP_Annotations/>', "encoding"),
        (b'<?xml version="1.0" encoding="gb2312"?><ASAP_Annotations/>', "encoding"),
        (b"<ASAP_Annotations>" + b"<a>" * 1000, "nested"),
    ],
)
def test_what_is_not_an_asap_file_is_refused_in_one_line(make_file, text, part):
    assert part in refusal(make_file.text(text))


def test_a_file_cut_short_anywhere_is_refused(make_file):
    whole = make_file(make_outline(SQUARE)).read_bytes()
    for end in range(1, len(whole), 7):
        assert "not whole XML" in refusal(make_file.text(whole[:end]))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "absent.xml")
    assert "cannot be read" in refusal(tmp_path)


def test_a_file_over_the_limits_is_refused(make_file, monkeypatch):
    path = make_file(make_outline(SQUARE))
    monkeypatch.setattr(asap_xml, "MAX_VERTICES", 3)
    assert "over 3 vertices" in refusal(path)
    monkeypatch.setattr(asap_xml, "MAX_BYTES", 2)
    assert "MB" in refusal(path)


def test_the_time_does_not_grow_with_the_square_of_the_vertices(tmp_path):
    angle = np.linspace(0, 2 * np.pi, 200_000, endpoint=False)
    reach = 40_000 + 500 * np.sin(1_000 * angle)
    asap_xml.write(tmp_path / "s.xml", [np.column_stack([reach * np.cos(angle), reach * np.sin(angle)]) + 50_000])
    began = time.process_time()
    annotation = asap_xml.read(tmp_path / "s.xml")
    assert time.process_time() - began < 20  # about 1 s; the limit only catches what grows with the square
    assert annotation.area_l0 == pytest.approx(np.pi * (40_000**2 + 500**2 / 2), rel=1e-5)


def test_what_is_written_is_read_back_exactly(tmp_path):
    rng = np.random.default_rng(3)
    ring = np.array(SQUARE) * 100 + rng.random((4, 2))
    hole = np.array(WITHIN) * 100 + rng.random((4, 2))
    asap_xml.write(tmp_path / "s.xml", [ring], [hole])
    annotation = asap_xml.read(tmp_path / "s.xml")
    assert annotation.area_l0 == pytest.approx(shapely.Polygon(ring, [hole]).area, rel=1e-12)
    assert {tuple(p) for p in annotation.edges[:, :2]} == {tuple(p) for p in [*ring, *hole]}
    assert [p.name for p in tmp_path.iterdir()] == ["s.xml"]
    first = (tmp_path / "s.xml").read_bytes()
    asap_xml.write(tmp_path / "s.xml", [ring], [hole])
    assert (tmp_path / "s.xml").read_bytes() == first


def test_a_file_that_cannot_be_written_is_an_output_error(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        asap_xml.write(tmp_path / "absent" / "s.xml", [np.array(SQUARE, float)])

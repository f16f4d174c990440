"""Which file annotates which slide."""

from pathlib import Path

import pytest

from ucc_path.errors import AnnotationError
from ucc_path.formats import annotation_files, read_annotation
from ucc_path.formats.annotation_files import annotation_for, annotation_stem, find_annotation, index_annotations


def make_folder(folder, *names):
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("tumor_001.xml", "tumor_001"),
        ("slide.v2.xml", "slide.v2"),
        ("S.geojson", "S"),
        ("S.geojson.gz", "S"),
        ("S.json", "S"),
        ("S_mask.png", "S"),
        ("S_mask.tif", "S"),
        ("slide.v2_mask.TIFF", "slide.v2"),
        ("S.XML", "S"),
        ("S.tif", None),
        ("S.png", None),
        ("S_mask.jpg", None),
        ("S.xml.partial", None),
        (".xml", None),
        ("_mask.png", None),
        ("S.gz", None),
    ],
)
def test_the_slide_is_told_by_the_name(name, stem):
    assert annotation_stem(Path("some/folder") / name) == stem


def test_the_annotation_of_a_slide_is_found_in_a_folder(tmp_path):
    make_folder(tmp_path, "a.xml", "a.tif", "a.v2.geojson", "b_mask.png", "notes.txt", "b.json")
    assert find_annotation(tmp_path, "a") == tmp_path / "a.xml"
    assert find_annotation(tmp_path, "a.v2") == tmp_path / "a.v2.geojson"
    assert find_annotation(tmp_path, "b") == tmp_path / "b_mask.png"
    assert find_annotation(tmp_path, "c") is None


def test_a_json_counts_only_where_it_is_named_itself(tmp_path):
    make_folder(tmp_path, "b.json")
    assert find_annotation(tmp_path, "b") is None
    assert find_annotation(tmp_path / "b.json", "b") == tmp_path / "b.json"


def test_two_annotations_of_one_slide_are_an_error_that_names_both(tmp_path):
    make_folder(tmp_path, "a.xml", "a_mask.tif", "b.xml")
    with pytest.raises(AnnotationError) as caught:
        find_annotation(tmp_path, "a")
    assert str(tmp_path / "a.xml") in str(caught.value)
    assert str(tmp_path / "a_mask.tif") in str(caught.value)
    assert "keep one" in str(caught.value)
    assert find_annotation(tmp_path, "b") == tmp_path / "b.xml"


def test_a_file_annotates_its_own_slide_only(tmp_path):
    make_folder(tmp_path, "a.xml")
    assert find_annotation(tmp_path / "a.xml", "a") == tmp_path / "a.xml"
    assert find_annotation(tmp_path / "a.xml", "b") is None


def test_a_folder_within_is_not_an_annotation(tmp_path):
    (tmp_path / "a.xml").mkdir()
    assert index_annotations(tmp_path) == {}


def test_the_folder_is_looked_through_once_for_all_slides(tmp_path, monkeypatch):
    stems = [f"slide_{number:04}" for number in range(300)]
    index = index_annotations(make_folder(tmp_path, *(f"{stem}.xml" for stem in stems)))
    monkeypatch.setattr(annotation_files, "index_annotations", None)  # nothing looks at the folder any more
    assert [annotation_for(index, stem) for stem in stems] == [tmp_path / f"{stem}.xml" for stem in stems]


def test_a_path_that_is_absent_is_refused(tmp_path):
    with pytest.raises(AnnotationError, match="cannot be read"):
        index_annotations(tmp_path / "absent")


def test_a_file_of_no_kind_is_refused_with_the_kinds_there_are(tmp_path):
    make_folder(tmp_path, "a.txt")
    with pytest.raises(AnnotationError, match=r"a\.txt .*\.xml or .*_mask\.tif"):
        index_annotations(tmp_path / "a.txt")
    with pytest.raises(AnnotationError, match=r"a\.txt .*\.xml.*\.geojson.*_mask\.png"):
        read_annotation(tmp_path / "a.txt")


def test_a_jpeg_mask_is_refused(tmp_path):
    with pytest.raises(AnnotationError, match="PNG or TIFF"):
        read_annotation(str(tmp_path / "a_mask.jpg"))

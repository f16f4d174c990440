"""Settings files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ucc_path.errors import SettingsError
from ucc_path.formats import settings_toml
from ucc_path.settings import AnnotationSettings, TilingSettings


def make_file(folder: Path, text: str | bytes) -> Path:
    path = folder / "lab.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_only_the_tables_in_the_file_are_returned(tmp_path: Path) -> None:
    path = make_file(tmp_path, '[tiling]\ntile_px = 64\n[annotation]\ntumour_groups = ["krebs"]\n')
    assert settings_toml.read(path) == {
        "tiling": TilingSettings(tile_px=64),
        "annotation": AnnotationSettings(tumour_groups=("krebs",)),
    }


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert settings_toml.read(make_file(tmp_path, "# nothing\n")) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tilling]\n", "has a table or key 'tilling'; the tables are tiling, tissue, annotation"),
        ("tile_px = 3\n", "has a table or key 'tile_px'"),
        ("tiling = 3\n", r"tiling is a table; write \[tiling\]"),
        ("[[tiling]]\n", r"tiling is a table; write \[tiling\]"),
        ("[tiling]\ntile = 3\n", r"\[tiling\] has no setting 'tile'"),
        ("[tiling]\ntile_px = 'x'\n", r"\[tiling\] tile_px is 'x'; give a whole number"),
        ("[tissue]\nmpp = nan\n", r"\[tissue\] mpp is not a finite number"),
        ("[tissue]\nmpp = 1" + "0" * 400, r"\[tissue\] mpp is not a finite number"),
        ("[tiling\n", r"is not TOML \(.*\)"),
        pytest.param("[tiling]\nseed=" + "[" * 5000, r"is not TOML \(.*\)", id="deep"),
        (b"\xff\xfe[\x00", r"is not TOML \(.*\)"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_in_one_line_naming_it(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(SettingsError, match=message) as error:
        settings_toml.read(make_file(tmp_path, text))
    assert "lab.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"none\.toml cannot be read \(No such file or directory\); check --settings"
    ):
        settings_toml.read(tmp_path / "none.toml")
    with pytest.raises(SettingsError, match=r"cannot be read \(Is a directory\)"):
        settings_toml.read(tmp_path)

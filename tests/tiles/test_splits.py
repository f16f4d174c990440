"""Splits never share a slide or a patient."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucc_path.errors import DatasetError, SettingsError
from ucc_path.tiles.splits import SPLITS, assign, assign_by_table, largest_remainder, parse_shares, patient_of

USUAL = "train=0.6,val=0.2,test=0.2"

slide_names = st.one_of(
    st.builds("patient_{:03d}_node_{}".format, st.integers(0, 9), st.integers(0, 4)),
    st.builds("TCGA-AB-{:04d}-01Z-00-DX{}".format, st.integers(0, 5), st.integers(1, 3)),
    st.builds("tumor_{:03d}".format, st.integers(0, 20)),
    st.builds("test_{:03d}".format, st.integers(0, 20)),
)
cohorts = st.sets(slide_names, min_size=1, max_size=40)
splits_asked = st.sampled_from([USUAL, "train=1", "train=0.5,test=0.5", "val=1,test=3", "train=98,val=1,test=1"])


@given(cohorts, splits_asked, st.integers(0, 5), st.data())
def test_no_patient_is_ever_in_two_splits(cohort: set[str], split: str, seed: int, data: st.DataObject) -> None:
    with_tumour = data.draw(st.sets(st.sampled_from(sorted(cohort))))
    chosen = assign(cohort, with_tumour=with_tumour, split=split, seed=seed)
    assert chosen.keys() == cohort
    homes = {(patient_of(slide), home) for slide, home in chosen.items()}
    assert len(homes) == len({patient_of(slide) for slide in cohort})
    named = sorted(parse_shares(split), key=SPLITS.index)
    sizes = Counter(home for _, home in homes)
    assert dict(sizes) == {s: n for s, n in largest_remainder(len(homes), parse_shares(split)).items() if n}
    assert [s for s in SPLITS if sizes[s]] == named[: len(homes)]


@given(cohorts, st.integers(0, 5), st.randoms())
def test_the_order_in_which_slides_are_named_changes_nothing(cohort: set[str], seed: int, random: object) -> None:
    names = sorted(cohort)
    random.shuffle(names)  # type: ignore[attr-defined]
    ordered = assign(sorted(cohort), with_tumour=cohort, split=USUAL, seed=seed)
    assert assign(names, with_tumour=cohort, split=USUAL, seed=seed) == ordered


def test_another_seed_gives_another_choice() -> None:
    names = [f"s{i}" for i in range(40)]
    choices = [tuple(sorted(assign(names, with_tumour=[], split=USUAL, seed=seed).items())) for seed in range(4)]
    assert len(set(choices)) == 4


def test_tumour_is_dealt_out_to_every_split() -> None:
    names = [f"s{i:02d}" for i in range(20)]
    tumour = set(names[:5])
    for seed in range(20):
        chosen = assign(names, with_tumour=tumour, split=USUAL, seed=seed)
        assert Counter(chosen.values()) == {"train": 12, "val": 4, "test": 4}
        assert Counter(chosen[name] for name in tumour) == {"train": 3, "val": 1, "test": 1}


@pytest.mark.parametrize(
    ("count", "shares", "room"),
    [
        (10, {"train": 0.6, "val": 0.2, "test": 0.2}, {"train": 6, "val": 2, "test": 2}),
        (9, {"train": 0.6, "val": 0.2, "test": 0.2}, {"train": 5, "val": 2, "test": 2}),  # 5.4, 1.8, 1.8
        (265, {"train": 0.6, "val": 0.4}, {"train": 159, "val": 106}),
        (100, {"train": 0.99, "test": 0.01}, {"train": 99, "test": 1}),
        (4, {"train": 0.98, "val": 0.01, "test": 0.01}, {"train": 2, "val": 1, "test": 1}),
        (3, {"train": 0.98, "val": 0.01, "test": 0.01}, {"train": 1, "val": 1, "test": 1}),
        (2, {"test": 0.9, "val": 0.05, "train": 0.05}, {"train": 1, "val": 1, "test": 0}),
        (1, {"val": 0.5, "test": 0.5}, {"val": 1, "test": 0}),
        (0, {"train": 1.0}, {"train": 0}),
    ],
)
def test_slides_go_by_largest_remainder_at_least_one_each_and_train_first(
    count: int, shares: dict[str, float], room: dict[str, int]
) -> None:
    assert largest_remainder(count, shares) == room


@given(st.integers(4, 500), st.lists(st.floats(0.001, 1), min_size=3, max_size=3))
def test_no_split_is_a_slide_or_more_from_its_share_unless_it_would_be_empty(count: int, weights: list[float]) -> None:
    shares = {split: weight / sum(weights) for split, weight in zip(SPLITS, weights, strict=True)}
    room = largest_remainder(count, shares)
    assert sum(room.values()) == count and min(room.values()) >= 1
    if all(share * count >= 1 for share in shares.values()):
        assert all(abs(room[split] - shares[split] * count) < 1 + 1e-6 for split in SPLITS)


@pytest.mark.parametrize(
    ("slide", "patient"),
    [
        ("patient_004_node_4", "patient_004"),
        ("Patient_004_Node_0", "patient_004"),
        ("TCGA-CR-7395-01A-01-TS1", "tcga-cr-7395"),
        ("tcga-cr-7395", "tcga-cr-7395"),
        ("tcga-cr-73951", "tcga-cr-73951"),
        ("tumor_001", "tumor_001"),
        ("my_patient_004_node_4", "my_patient_004_node_4"),
        ("tumor_001_r191c112", "tumor_001"),
        ("tumor_0012", "tumor_0012"),
    ],
)
def test_the_patient_is_told_by_the_name_or_else_the_slide_stands_for_itself(slide: str, patient: str) -> None:
    assert patient_of(slide) == patient


@given(cohorts, st.integers(0, 3))
def test_in_camelyon16_test_slides_are_test_and_the_others_never(cohort: set[str], seed: int) -> None:
    chosen = assign(cohort, with_tumour=cohort, split="camelyon16", seed=seed)
    assert chosen.keys() == cohort
    assert all((home == "test") == slide.startswith("test_") for slide, home in chosen.items())


def test_the_other_slides_of_camelyon16_are_train_and_val_as_in_the_paper() -> None:
    cohort = [f"normal_{i:03d}" for i in range(1, 155)] + [f"tumor_{i:03d}" for i in range(1, 112)]
    chosen = assign([*cohort, "Test_001"], with_tumour=cohort[154:], split="camelyon16", seed=0)
    assert Counter(chosen.values()) == {"train": 159, "val": 106, "test": 1}


def test_shares_are_brought_to_a_sum_of_one() -> None:
    assert parse_shares("test=1, train=3") == {"test": 0.25, "train": 0.75}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "train",
        "train=",
        "train=x",
        "train=0",
        "train=-1",
        "train=nan",
        "train=inf",
        "dev=1",
        "train=1,train=1",
        "train=1,",
        "camelyon17",
        "train:0.6",
    ],
)
def test_shares_that_are_not_understood_are_refused_showing_how_to_write_them(text: str) -> None:
    with pytest.raises(
        SettingsError, match=r"--split .* is not understood at .*; write train=0\.6,val=0\.2,test=0\.2 or"
    ):
        parse_shares(text)


def test_a_table_is_followed_and_may_name_more_slides_than_there_are() -> None:
    table = {"a": "test", "b": "train", "c": "val"}
    assert assign_by_table(["b", "a"], table) == {"a": "test", "b": "train"}


def test_a_table_that_leaves_slides_out_is_refused_naming_a_few() -> None:
    with pytest.raises(DatasetError, match="does not name a, b, c and 1 more; add a row for each slide"):
        assign_by_table(["d", "c", "b", "a", "x"], {"x": "train"})


def test_a_table_with_a_patient_in_two_splits_is_refused_naming_all_three() -> None:
    table = {"patient_004_node_1": "train", "patient_004_node_2": "test"}
    with pytest.raises(
        DatasetError, match=r"slides of patient_004 into both train and test; keep a patient in one split"
    ):
        assign_by_table(list(table), table)

"""Hostlists against the answers of Slurm 26.05.5 (tests/data/vectors)."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_flex.hostlist import LARGEST_RANGE, HostlistError, expand, fold, natural_order

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
NEWEST = "slurm_26.05.5"


def rows(name: str) -> list[dict[str, str]]:
    with (VECTORS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


EXPANDED = rows("hostlist_vectors.tsv")
FOLDED = rows("hostlist_fold_vectors.tsv")


@pytest.mark.parametrize("row", EXPANDED, ids=[row["input"] for row in EXPANDED])
def test_a_hostlist_is_read_as_the_newest_slurm_reads_it(row: dict[str, str]) -> None:
    """Scenario 68."""
    text = row["input"].replace("\\t", "\t").replace("\\n", "\n")
    expected = row[NEWEST]
    if expected.startswith("ERR"):
        with pytest.raises(HostlistError):
            expand(text)
        return
    names = expand(text)
    if expected.startswith("n="):
        count, *some = expected[2:].split()
        assert len(names) == int(count)
        assert [names[0], names[1], "..", names[-1]] == some
    else:
        assert list(names) == expected.split()


@pytest.mark.parametrize("row", FOLDED, ids=[row["input"] for row in FOLDED])
def test_names_are_folded_as_slurm_folds_a_sorted_list(row: dict[str, str]) -> None:
    names = row["input"].split(",")
    sorted_by_slurm = row[NEWEST].split(" | ")[1]
    if len(set(names)) == len(names):
        assert fold(names) == sorted_by_slurm
    else:
        assert expand(fold(names)) == tuple(dict.fromkeys(expand(sorted_by_slurm)))


def test_the_same_names_fold_to_the_same_text_in_any_order() -> None:
    names = [f"c1-gx-{index}" for index in (0, 1, 2, 3, 7)]
    assert fold(names) == fold(reversed(names)) == fold(names * 2) == "c1-gx-[0-3,7]"


def test_no_names_fold_to_nothing_and_nothing_is_no_hostlist() -> None:
    assert fold(()) == ""
    for text in ("", " ", ","):
        with pytest.raises(HostlistError, match="names no host"):
            expand(text)


@pytest.mark.parametrize("name", ["", "a,b", "a b", "a[1]", "a\n", "-a1", "a]"])
def test_a_name_that_would_be_read_as_something_else_is_not_folded(name: str) -> None:
    with pytest.raises(HostlistError, match="can't stand in a hostlist"):
        fold(["good", name])


def test_a_few_characters_cannot_fill_the_memory() -> None:
    with pytest.raises(HostlistError, match="more than"):
        expand("a[0-65535]b[0-65535]")
    with pytest.raises(HostlistError, match="more than"):
        expand(",".join(f"a{at}-[0-65535]" for at in range(20)))


def test_absurdly_long_numbers_are_refused_or_kept_as_they_are() -> None:
    with pytest.raises(HostlistError):
        expand(f"a[{'1' * 5000}]")
    with pytest.raises(HostlistError, match="more than"):
        expand(f"a[{','.join(['0-65535'] * 20)}]")
    long = "a" + "1" * 5000
    assert fold([long, "a1", "a2"]) == f"a[1-2],{long}"


def test_more_names_than_one_range_may_hold_still_fold_to_what_slurm_reads() -> None:
    names = [f"n{at}" for at in range(LARGEST_RANGE + 10)]
    assert expand(fold(names)) == tuple(names)


def test_ten_thousand_nodes_take_a_fraction_of_a_second() -> None:
    text = "c1-gx-[0-9999]"
    started = time.process_time()
    names = expand(text)
    every_third_missing = fold(name for at, name in enumerate(names) if at % 3)
    assert fold(names) == text
    assert len(expand(every_third_missing)) == 6666
    assert time.process_time() - started < 0.5


NAMES = st.from_regex(r"[a-z]{0,3}[0-9]{0,4}(-[a-z0-9]{0,3})?(\.x)?", fullmatch=True).filter(
    lambda name: bool(name) and not name.startswith("-")
)


@given(st.lists(NAMES, min_size=1, max_size=30))
def test_folding_and_expanding_gives_every_name_once_in_natural_order(names: list[str]) -> None:
    back = expand(fold(names))
    assert sorted(back) == sorted(set(names))
    assert len({fold(back), fold(names), fold(reversed(names))}) == 1


def test_natural_order_counts_numbers_as_numbers() -> None:
    assert sorted(["a10", "a2", "a02", "b1", "a"], key=natural_order) == [
        "a",
        "a02",
        "a2",
        "a10",
        "b1",
    ]

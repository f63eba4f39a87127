"""Ten thousand instances. How long they take is measured by `make bench`."""

from __future__ import annotations

import cProfile

import pytest

from tests.unit.emulator.here import Here


@pytest.fixture(scope="module")
def large() -> tuple[Here, list[str]]:
    """Ten groups of a thousand instances."""
    here = Here()
    groups = []
    for number in range(10):
        group = here.group(f"g{number}", listManagedInstancesResults="PAGINATED")
        here.ask(group, "all", *[f"g{number}-{index}" for index in range(1000)])
        groups.append(group)
    here.wait(40)
    return here, groups


def _pages(here: Here, verb: str, path: str, key: str, **params: str) -> int:
    count = 0
    token = ""
    while True:
        found = here.ok(verb, path, maxResults="500", **params, **_with(token))
        count += len(found.get(key, []))
        token = found.get("nextPageToken", "")
        if not token:
            return count


def _with(token: str) -> dict[str, str]:
    return {"pageToken": token} if token else {}


@pytest.mark.parametrize(
    ("verb", "path", "key"),
    [
        ("GET", "zones/us-central1-a/instances", "items"),
        ("POST", "zones/us-central1-a/instanceGroupManagers/g7/listManagedInstances",
         "managedInstances"),
    ],
)  # fmt: skip
def test_a_page_takes_the_work_of_what_it_holds_and_not_of_all_there_is(
    large: tuple[Here, list[str]], verb: str, path: str, key: str
) -> None:
    """In function calls, which no machine's mood changes; `make bench` has the seconds."""
    here, _ = large

    def page_of(most: int) -> int:
        with cProfile.Profile() as profile:
            found = here.ok(verb, path, maxResults=str(most))
        assert len(found[key]) == most
        return sum(entry.callcount for entry in profile.getstats())

    page_of(500)  # the first one fills caches
    for_one, for_many = page_of(1), page_of(401)
    assert (for_many - for_one) / 400 < 60, "calls for an instance"
    assert for_one < 1000, "calls for a page, whatever there is beside it"


def test_ten_thousand_instances_come_in_pages_each_of_them_once(
    large: tuple[Here, list[str]],
) -> None:
    here, groups = large
    assert _pages(here, "GET", "zones/us-central1-a/instances", "items") == 10_000
    listed = [_pages(here, "POST", f"{group}/listManagedInstances", "managedInstances")
              for group in groups]  # fmt: skip
    assert listed == [1000] * 10

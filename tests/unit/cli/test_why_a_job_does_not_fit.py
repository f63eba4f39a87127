"""`why` tells a job without a time limit, or with one that can't fit, what to set."""

from __future__ import annotations

from datetime import timedelta

import pytest

from slurm_flex.consoles import last_console, save_console
from tests.builders import NOON, instance, job, node, pool, world
from tests.unit.cli.conftest import Site

ENDS_IN_FIVE_HOURS = (
    pool("gx", size=2),
    node("c1-gx-[0-1]", "idle"),
    instance("c1-gx-0", created="-6d", ends="+2h"),
    instance("c1-gx-1", created="-6d", ends="+5h5m"),
)


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        (None, "it has no time limit, so it fits only a node that has never lived"),
        ("6h", "its limit of 6 h outlasts every node that is up"),
    ],
)
def test_a_job_that_fits_no_node_is_told_which_limit_does(
    site: Site, limit: str | None, says: str
) -> None:
    site.publish(world(*ENDS_IN_FIVE_HOURS, job(60, reason="Resources", limit=limit)))
    out = site.call("why", "60").out
    assert says in out
    assert "--time=05:00:00 or less fits a node that is up now" in out


def test_a_limit_longer_than_any_node_lives_is_named(site: Site) -> None:
    site.publish(world(*ENDS_IN_FIVE_HOURS, job(60, reason="Resources", limit="8d")))
    assert "longer than any node lives (7 d)" in site.call("why", "60").out


def test_a_job_that_waits_for_something_else_gets_no_such_advice(site: Site) -> None:
    site.publish(world(*ENDS_IN_FIVE_HOURS, job(60, reason="Dependency", limit=None)))
    assert "--time" not in site.call("why", "60").out


def test_a_nodes_last_console_is_shown_and_no_others(site: Site) -> None:
    save_console(site.state_dir, "c1-gx-0", NOON - timedelta(hours=2), "first\n")
    save_console(site.state_dir, "c1-gx-0", NOON, "mount failed\x1b[31m\n\nslurmd: no key\n")
    save_console(site.state_dir, "c1-gx-01", NOON, "another node\n")
    found = last_console(site.state_dir, "c1-gx-0")
    assert found is not None and found[0].stat().st_mode & 0o777 == 0o600
    site.publish(world(*ENDS_IN_FIVE_HOURS))
    out = site.call("why", "c1-gx-0").out
    assert "mount failed" in out and "slurmd: no key" in out
    assert "first" not in out and "another node" not in out and "\x1b" not in out

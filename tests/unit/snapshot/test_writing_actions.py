"""Actions as `slurm-flex plan --json` prints them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from slurm_flex import actions as act
from slurm_flex.snapshot import dump_actions
from slurm_flex.snapshot.actions import KEYS

NODES = ("c1-gx-1", "c1-gx-0")
T = datetime(2026, 12, 1, 12, tzinfo=timezone.utc)
W = "because"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (
            act.MakeRequest(why=W, pool="gx", name="j51-1", nodes=NODES, job=51,
                            run_duration=timedelta(days=7)),
            {"do": "request", "pool": "gx", "name": "j51-1", "nodes": "c1-gx-[0-1]", "job": 51,
             "run_duration": 604800, "why": W},
        ),
        (
            act.MakeRequest(why=W, pool="gx", name="s0-1", nodes=("c1-gx-0",), job=None,
                            run_duration=timedelta(seconds=30)),
            {"do": "request", "pool": "gx", "name": "s0-1", "nodes": "c1-gx-0", "job": None,
             "run_duration": 30, "why": W},
        ),
        (
            act.CancelRequest(why=W, pool="gx", name="j51-1"),
            {"do": "cancel_request", "pool": "gx", "name": "j51-1", "why": W},
        ),
        (
            act.NodePowerDown(why=W, nodes=NODES, how="force", reason="slurm-flex: lost"),
            {"do": "node_power_down", "nodes": "c1-gx-[0-1]", "how": "force",
             "reason": "slurm-flex: lost", "why": W},
        ),
        (act.JobStart(why=W, job=51), {"do": "job_start", "job": 51, "at": "now", "why": W}),
        (
            act.JobStart(why=W, job=51, after=timedelta(seconds=90)),
            {"do": "job_start", "job": 51, "at": "now+90", "why": W},
        ),
        (
            act.JobComment(why=W, job=51, text="flex: x", last_words=True),
            {"do": "job_comment", "job": 51, "text": "flex: x", "why": W},
        ),
        (
            act.Reserve(why=W, name="slurm-flex-j51", nodes=NODES, start=T,
                        end=T + timedelta(hours=1)),
            {"do": "reserve", "name": "slurm-flex-j51", "nodes": "c1-gx-[0-1]",
             "start": "2026-12-01T12:00:00Z", "end": "2026-12-01T13:00:00Z", "why": W},
        ),
        (
            act.Event(why=W, event="request", text="asked", nodes=NODES),
            {"do": "event", "kind": "request", "nodes": "c1-gx-[0-1]", "text": "asked", "why": W},
        ),
        (
            act.Event(why=W, event="breaker", text="open", pool="gx"),
            {"do": "event", "kind": "breaker", "pool": "gx", "text": "open", "why": W},
        ),
        (
            act.Event(why=W, event="job", text="held", job=51),
            {"do": "event", "kind": "job", "job": 51, "text": "held", "why": W},
        ),
    ],
)  # fmt: skip
def test_an_action_is_written_with_its_kinds_keys_in_their_order(
    action: act.Action, expected: dict[str, object]
) -> None:
    (written,) = dump_actions([action])
    assert list(written.items()) == list(expected.items())
    assert json.loads(json.dumps(written)) == expected


def test_every_kind_of_action_can_be_written() -> None:
    kinds = {
        value.KIND
        for value in vars(act).values()
        if isinstance(value, type) and issubclass(value, act.Action) and value.KIND
    }
    assert kinds == {*KEYS, "job_start", "event"}


def test_the_order_of_actions_is_kept() -> None:
    asked = [act.NodeResume(why=str(at), nodes=NODES) for at in range(3)]
    assert [written["why"] for written in dump_actions(asked)] == ["0", "1", "2"]

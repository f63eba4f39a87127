"""What a job said in --extra is asked for where it matters, and nowhere else."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slurm_flex.model import Job
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.extra import Extras
from slurm_flex.slurm.scontrol import ScontrolController
from tests.builders import job, reservation
from tests.unit.slurm.fake_slurm import RECORDED, FakeSlurm

SIGNAL = "flex-signal=USR1@600"
ENDS = reservation("slurm-flex-j51-1", "c1-gx-[0-3]", start="+1h", end="+2h")


def told(*extras: tuple[int, str]) -> str:
    jobs = [
        {"job_id": number, "extra": extra, "comment": "x\nextra: y"} for number, extra in extras
    ]
    return json.dumps({"jobs": jobs, "errors": []})


def outlasting(number: int = 51, **more: Any) -> Job:
    usual: dict[str, Any] = {"state": "R", "nodes": f"c1-gx-{number - 51}", "ends": "+3h"}
    return job(number, **{**usual, **more})


def extras_of(slurm: FakeSlurm) -> Extras:
    return Extras(SlurmCommands(bin_dir=str(slurm.folder), slurm_conf=str(slurm.conf)))


def test_a_job_that_would_outlast_its_node_is_asked_for_once(slurm: FakeSlurm) -> None:
    slurm.answer("^squeue --json", told((51, SIGNAL), (52, ""), (77, "another's")))
    extras = extras_of(slurm)
    both = [outlasting(51), outlasting(52, ends=None)]
    for _ in range(3):
        read = extras.add_to(both, [ENDS], (24, 11))
        assert [one.extra or None for one in read] == [SIGNAL, None]
    assert slurm.lines == ["squeue --json --all --local --jobs=51,52"]


def test_a_job_that_began_anew_is_asked_for_anew(slurm: FakeSlurm) -> None:
    slurm.answer("^squeue --json", told((51, SIGNAL)))
    extras = extras_of(slurm)
    for restarts in (0, 1):
        extras.add_to([outlasting(restarts=restarts)], [ENDS], (24, 11))
    assert len(slurm.lines) == 2


@pytest.mark.parametrize(
    "about",
    [
        {"ends": "+59m"},
        {"state": "PD", "nodes": ""},
        {"state": "CF"},
        {"batch": False},
        {"nodes": "c1-gx-7"},
    ],
)
def test_a_job_that_its_node_outlasts_costs_nothing(
    slurm: FakeSlurm, about: dict[str, Any]
) -> None:
    extras_of(slurm).add_to([outlasting(**about)], [ENDS], (26, 5))
    assert slurm.lines == []


def test_an_admins_reservation_and_an_old_release_cost_nothing(slurm: FakeSlurm) -> None:
    theirs = reservation("maint_x", "c1-gx-[0-3]", start="+1h", end="+2h")
    extras_of(slurm).add_to([outlasting()], [theirs], (24, 11))
    extras_of(slurm).add_to([outlasting()], [ENDS], (22, 5))
    assert slurm.lines == []


@pytest.mark.parametrize("answer", ["", "{}", '{"jobs": null}', '{"jobs": [{}]}', "[1]", "no JSON"])
def test_an_answer_that_is_none_costs_only_the_extra_and_is_asked_for_again(
    slurm: FakeSlurm, answer: str
) -> None:
    slurm.answer("^squeue --json", answer)
    extras = extras_of(slurm)
    (read,) = extras.add_to([outlasting()], [ENDS], (24, 11))
    assert read.extra is None
    assert "squeue --json" in str(extras.error)
    slurm.answer("^squeue --json", told((51, SIGNAL)))
    (read,) = extras.add_to([outlasting()], [ENDS], (24, 11))
    assert (read.extra, extras.error) == (SIGNAL, None)


class TestAReading:
    """The recorded job 1 ends at 04:13:52 UTC on c1-gx-[0-1], which are reserved from 05:03:56."""

    @pytest.fixture
    def controller(self, slurm: FakeSlurm) -> ScontrolController:
        slurm.replay("24.11")
        recorded = Path(RECORDED, "24.11", "reservations.txt").read_text()
        sooner = recorded.replace("T05:03:56", "T04:10:00")
        assert sooner != recorded
        slurm.answer("^scontrol .*show reservation$", sooner)
        return slurm.controller()

    def test_has_the_extra_of_a_job_that_would_outlast_its_node(
        self, slurm: FakeSlurm, controller: ScontrolController
    ) -> None:
        slurm.answer("^squeue --json", told((1, SIGNAL)))
        seen = {one.id: one for one in controller.read().jobs}
        assert seen[1].extra == SIGNAL
        assert seen[1].time_limit == timedelta(minutes=10)
        assert all(one.extra is None for one in seen.values() if one.id != 1)
        assert controller.notices == ()

    def test_is_whole_without_it(self, slurm: FakeSlurm, controller: ScontrolController) -> None:
        slurm.refuse("^squeue --json", "squeue: error: no serializer plugin")
        assert len(controller.read().jobs) == 9
        assert "no serializer plugin" in str(controller.notices[0])

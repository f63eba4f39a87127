"""What belongs together stays together: part of a job, components, heirs (rules `queue` and
`partial`)."""

from __future__ import annotations

from slurm_flex.actions import (
    CancelRequest,
    JobStart,
    MakeRequest,
    NodeDown,
    NodePowerDown,
)
from tests.builders import (
    STOCKOUT,
    Acts,
    Thing,
    hosts,
    instance,
    job,
    later,
    node,
    passes,
    pool,
    repeat,
    request,
    world,
)


def let_go(acts: Acts) -> set[str]:
    """Nodes that are forced off (down and power_down, or power_down_force)."""
    return {
        name
        for one in acts.of(NodePowerDown)
        for name in one.nodes
        if one.how == "force" or name in acts.nodes(NodeDown)
    }


class TestAnHeir:
    """A job placed on nodes of a request whose job is gone inherits it."""

    def test_on_all_of_them_keeps_the_place(self) -> None:
        snapshot = world(
            node("c1-gx-[0-1]", "alloc#"),
            job(60, nodes="c1-gx-[0-1]", starts="-1m"),
            request("j51-1", "c1-gx-[0-1]", created="-5h"),
        )
        acts = passes(*repeat(snapshot, 3)).all
        assert not acts.beside("node_power_up")

    def test_on_most_of_them_keeps_the_place_too(self) -> None:
        snapshot = world(
            node("c1-gx-[0-2]", "alloc#"),
            node("c1-gx-3", "idle#"),
            job(60, nodes="c1-gx-[0-2]", starts="-1m"),
            request("j51-1", "c1-gx-[0-3]", created="-5h"),
        )
        acts = passes(*repeat(snapshot, 3)).all
        assert not acts.of(CancelRequest)
        assert not acts.of(MakeRequest)

    def test_on_half_of_them_is_asked_for_alone(self) -> None:
        """Nobody should wait for four VMs who needs two."""
        snapshot = world(
            node("c1-gx-[0-1]", "alloc#"),
            node("c1-gx-[2-3]", "idle#"),
            job(60, nodes="c1-gx-[0-1]", starts="-1m"),
            request("j51-1", "c1-gx-[0-3]", created="-5h"),
        )
        cancelled = world(
            node("c1-gx-[0-1]", "alloc#"),
            node("c1-gx-[2-3]", "IDLE+CLOUD+DRAIN+POWERING_UP", reason="slurm-flex: release: x"),
            job(60, nodes="c1-gx-[0-1]", starts="-1m"),
            request("j51-1", "c1-gx-[0-3]", "CANCELLED", created="-5h"),
            now="+30s",
        )
        played = passes(
            *repeat(snapshot, 2), cancelled, later(cancelled, "30s"), later(cancelled, "60s")
        )
        assert {one.name for one in played.all.of(CancelRequest)} == {"j51-1"}
        assert {one.nodes for one in played.all.of(MakeRequest)} == {hosts("c1-gx-[0-1]")}
        assert not let_go(played.all) & set(hosts("c1-gx-[0-1]"))

    def test_of_a_static_node_keeps_the_place(self) -> None:
        """A static node of the request is wanted for its own sake."""
        snapshot = world(
            pool("gx", static=1),
            node("c1-gx-0", "idle#"),
            request("j51-1", "c1-gx-0", created="-5h"),
        )
        assert not passes(*repeat(snapshot, 3)).all.beside("node_power_up")


class TestPartOfAJob:
    """Some VMs came and the rest wait again: given back after partial_wait."""

    def things(self, since: str) -> tuple[Thing, ...]:
        return (
            node("c1-gx-[0-2]", "alloc"),
            instance("c1-gx-[0-2]", created="-3h"),
            node("c1-gx-3", "alloc#"),
            job(51, nodes="c1-gx-[0-3]", starts=since),
            request("j51-2", "c1-gx-3", created=since),
        )

    def test_within_partial_wait_nothing_happens(self) -> None:
        acts = passes(*repeat(world(*self.things("-10m")), 3)).all
        assert not acts.beside("node_power_up", "reserve")

    def test_after_it_the_request_is_cancelled_and_the_job_waits_for_the_whole(self) -> None:
        snapshot = world(*self.things("-16m"))
        played = passes(*repeat(snapshot, 2, "5s"))
        assert {one.name for one in played.all.of(CancelRequest)} == {"j51-2"}
        assert "c1-gx-3" in let_go(played.all)

    def test_and_nodes_that_are_up_and_idle_go_home(self) -> None:
        snapshot = world(*self.things("-16m"))
        released = world(
            node("c1-gx-[0-2]", "idle"),
            instance("c1-gx-[0-2]", created="-3h"),
            node("c1-gx-3", "idle%"),
            job(51, reason="BeginTime", starts="+2m", size=4, restarts=1),
            request("j51-2", "c1-gx-3", "CANCELLED", created="-16m"),
            now="+20s",
        )
        played = passes(*repeat(snapshot, 2, "5s"), released, later(released, "20s"))
        home = {
            name for one in played.all.of(NodePowerDown) if one.how == "asap" for name in one.nodes
        }
        assert home | let_go(played.all) >= set(hosts("c1-gx-[0-3]"))


def test_seven_of_eight_instances_are_given_back_when_the_eighth_wont_come() -> None:
    """Scenario 7, on a pool that makes its instances one by one: all or nothing for the job."""
    snapshot = world(
        pool("gy", size=8, model="SPOT"),
        node("c1-gy-[0-6]", "alloc"),
        instance("c1-gy-[0-6]", created="-20m", ends=None),
        node("c1-gy-7", "alloc#"),
        instance("c1-gy-7", None, error=STOCKOUT),
        job(51, nodes="c1-gy-[0-7]", partition="gy", starts="-20m"),
    )
    back = world(
        pool("gy", size=8, model="SPOT"),
        node("c1-gy-[0-6]", "idle"),
        instance("c1-gy-[0-6]", created="-20m", ends=None),
        node("c1-gy-7", "idle%"),
        job(51, reason="BeginTime", starts="+2m", size=8, partition="gy", restarts=1),
        now="+40s",
    )
    played = passes(*repeat(snapshot, 2), back, later(back, "30s"))
    assert "c1-gy-7" in let_go(played.all)
    assert played.all.of(JobStart)
    home = played.all.nodes(NodePowerDown)
    assert home >= set(hosts("c1-gy-[0-7]"))


def test_a_component_left_behind_goes_back_to_the_others() -> None:
    """Slurm itself requeued one (ResumeTimeout, a node down): the rest would wait for ever."""
    snapshot = world(
        node("c1-gx-0", "alloc"),
        instance("c1-gx-0"),
        node("c1-gx-1", "idle~"),
        job(60, nodes="c1-gx-0", het_job_id=60, starts="-40m"),
        job(61, reason="BeginTime", het_job_id=60, starts="+80s", restarts=1),
    )
    played = passes(*(later(snapshot, f"{n * 30}s") for n in range(8)))
    assert {getattr(one, "job", 0) for one in played.all.kind("job_requeue")} == {60}


def test_components_that_all_wait_are_left_alone() -> None:
    snapshot = world(
        node("c1-gx-[0-1]", "alloc#"),
        request("j60-1", "c1-gx-[0-1]", created="-5m"),
        job(60, nodes="c1-gx-0", het_job_id=60, starts="-5m"),
        job(61, nodes="c1-gx-1", het_job_id=60, starts="-5m"),
    )
    pending = world(
        job(60, reason="BeginTime", het_job_id=60, starts="+80s", restarts=1),
        job(61, reason="BeginTime", het_job_id=60, starts="+80s", restarts=1),
    )
    for each in (snapshot, pending):
        played = passes(*(later(each, f"{n * 30}s") for n in range(8)))
        assert not played.all.kind("job_requeue")

"""Numbers for Prometheus on 127.0.0.1, if metrics_port is set: the facts of the status file."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from slurm_flex.errors import FlexError
from slurm_flex.results import Result


class Metrics:
    """All numbers of one daemon, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._nodes = self._gauge("nodes", "Nodes by pool and phase.", "pool", "phase")
        self._vms = self._gauge("vms", "VMs by pool, whether wanted or not.", "pool")
        self._requests = self._gauge("requests", "Resize requests.", "pool", "state")
        self._paused = self._gauge("pool_paused", "1: paused by hand.", "pool")
        self._breaker = self._gauge("breaker_open", "1: nothing is asked for.", "pool", "failure")
        self._heartbeat = self._gauge("heartbeat_seconds", "Last pass in which all went well.")
        self._actions = Counter(
            "slurm_flex_actions", "Actions applied.", ("kind", "outcome"), registry=self.registry
        )
        self._calls = Counter(
            "slurm_flex_hook_calls", "Calls of hooks.", ("program",), registry=self.registry
        )
        self._duration = Histogram(
            "slurm_flex_pass_seconds",
            "From the first read to the last action.",
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            registry=self.registry,
        )

    def serve(self, port: int) -> None:
        """Raises FlexError if the port is taken."""
        try:
            start_http_server(port, addr="127.0.0.1", registry=self.registry)
        except OSError as error:
            raise FlexError(
                f"metrics_port {port}: {error.strerror or error}", fix="choose another port, or 0"
            ) from error

    def note_calls(self, programs: Sequence[str]) -> None:
        for program, count in Count(programs).items():
            self._calls.labels(program).inc(count)

    def note_pass(
        self, status: Mapping[str, Any], results: Sequence[Result], took: timedelta
    ) -> None:
        """Take the numbers of a pass from what it published and did."""
        for gauge in (self._nodes, self._vms, self._requests, self._breaker):
            gauge.clear()
        for pool in status["pools"]:
            name = pool["pool"]
            for phase, count in pool["phases"].items():
                self._nodes.labels(name, phase).set(count)
            if pool["vms"] is not None:
                self._vms.labels(name).set(pool["vms"])
            self._paused.labels(name).set(pool["paused"])
            if pool["breaker"]:
                self._breaker.labels(name, pool["breaker"]["failure"]).set(1)
        states = Count((one["pool"], one["state"]) for one in status["requests"])
        for (name, state), count in states.items():
            self._requests.labels(name, state).set(count)
        heartbeat = status["daemon"]["heartbeat"]
        if heartbeat is not None:
            moment = datetime.fromisoformat(heartbeat.replace("Z", "+00:00"))
            self._heartbeat.set(moment.timestamp())
        for result in results:
            self._actions.labels(result.action.KIND, "ok" if result.ok else "failed").inc()
        self._duration.observe(took.total_seconds())

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"slurm_flex_{name}", text, labels, registry=self.registry)

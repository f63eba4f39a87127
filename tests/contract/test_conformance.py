"""The whole life of everything, by two clients of Google's, every exchange held against Google's
definition of the API: unknown fields, types, formats, enum values, parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slurm_flex.emulator.web.calls import ENDPOINTS
from tests.contract.clients import CLIENTS
from tests.contract.definition import method_of, problems
from tests.contract.inside import Exchange, Inside
from tests.contract.life import Life

SEEN: dict[str, set[str]] = {}


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda kind: str(kind.name))
def lived(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[Exchange]]]:
    """All exchanges of a client's life, zonal and regional."""
    with Inside(faulty_host_reports="accepted") as inside:
        client = request.param(inside.url)
        Life(inside, client).whole()
        yield request.param.name, [item for item in inside.exchanges if item.client == client.name]


def test_every_exchange_is_as_googles_definition_says(lived: tuple[str, list[Exchange]]) -> None:
    found = [
        problem
        for item in lived[1]
        for problem in problems(
            item.verb, item.path, item.query, item.request, item.code, item.response
        )
    ]
    assert not found, "\n".join(sorted(set(found)))
    assert len(lived[1]) > 150


def test_every_method_was_called_and_succeeded(lived: tuple[str, list[Exchange]]) -> None:
    name, exchanges = lived
    called = {method_of(item.verb, item.path)[0] for item in exchanges if item.code == 200}
    SEEN[name] = called
    assert {endpoint.name for endpoint in ENDPOINTS} - called == set()


def test_every_kind_of_refusal_was_seen(lived: tuple[str, list[Exchange]]) -> None:
    assert {item.code for item in lived[1]} >= {200, 400, 404, 409, 412}


def test_the_checker_finds_what_is_wrong() -> None:
    path = "/compute/v1/projects/p/zones/z/instances/i"

    def wrong(body: str, code: int = 200, **query: str) -> list[str]:
        return problems("GET", path, query, b"", code, body.encode())

    assert wrong('{"name": "i", "status": "RUNNING", "id": "1"}') == []
    assert "unknown field colour" in wrong('{"colour": 1}')[0]
    assert "is none of the enum" in wrong('{"status": "DANCING"}')[0]
    assert "is no string" in wrong('{"id": 1}')[0]
    assert "is no uint64" in wrong('{"id": "-1"}')[0]
    assert "is no base64" in wrong('{"fingerprint": "%%"}')[0]
    assert "is no RFC 3339 time" in wrong('{"creationTimestamp": "yesterday"}')[0]
    assert "unknown parameter colour" in wrong("{}", colour="red")[0]
    assert "error without its code" in wrong("{}", code=404)[0]
    with pytest.raises(AssertionError, match="no method"):
        problems("GET", "/compute/v1/projects/p/moons", {}, b"", 200, b"{}")


def test_numbers_are_written_as_the_wire_has_them() -> None:
    with Inside() as inside:
        life = Life(inside, CLIENTS[1](inside.url))
        life.zonal_group()
        found: Any = life.client.call(
            "instanceGroupManagers.get", project="p", zone="us-central1-a",
            instanceGroupManager="g",
        )  # fmt: skip
        assert isinstance(found["id"], str) and isinstance(found["targetSize"], int)

"""Verbs over HTTP: `POST /control/{verb}`."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from asking import HttpDoor

import fakeserver
from fakeserver import BackgroundCluster, ClusterSpec
from fakeserver.control import web
from fakeserver.control.verbs.table import VERBS
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable


NO_EXTENDED_JSON = (
    b'{"$oid": "x"}',
    b'{"$oid": 5}',
    b'{"$date": {"$numberLong": "99999999999999999999"}}',
    b'{"$date": "9999-99-99T00:00:00Z"}',
    b'{"$date": {"$numberLong": "x"}}',
    b'{"$date": []}',
    b'{"$numberLong": "99999999999999999999"}',
    b'{"$numberInt": "x"}',
    b'{"$numberDecimal": "x"}',
    b'{"$numberDouble": "x"}',
    b'{"$uuid": "x"}',
    b'{"$binary": {"base64": "", "subType": "zz"}}',
    b'{"$timestamp": {"t": -1, "i": 0}}',
    b'{"$timestamp": 5}',
    b'{"$regularExpression": 5}',
    b'{"$code": 5}',
    b'{"$minKey": 5}',
)


def test_the_table_lists_every_verb(door: HttpDoor) -> None:
    rows = door.get("/control").document["verbs"]
    assert [row["name"] for row in rows] == [verb.name for verb in VERBS]
    step_down = next(row for row in rows if row["name"] == "stepDown")
    assert step_down["fits"]
    assert step_down["undoneBy"] == "elect"
    seconds = step_down["arguments"][0]
    assert (seconds["name"], seconds["kind"], seconds["required"]) == ("seconds", "SECONDS", False)
    assert "200ms" in seconds["unit"]


def test_a_verb_acts_and_answers_with_its_document(deployment: BackgroundCluster, door: HttpDoor) -> None:
    before = deployment.primary.name
    assert door.perform("stepDown", {"seconds": "10s"}) == {"node": before}
    assert deployment.call(lambda: deployment.node(before).role.name) == "SECONDARY"


def test_a_verb_that_waits_is_over_when_it_is_answered(deployment: BackgroundCluster, door: HttpDoor) -> None:
    assert door.perform("restart", {"node": "node1"}) == {"node": "node1"}
    assert not deployment.node("node1").stopped


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence", "field"),
    [
        ("stpDown", {}, 404, "did you mean 'stepDown'?", []),
        ("stepDown", {"secs": 1}, 400, "did you mean 'seconds'?", []),
        ("stepDown", {"seconds": "1 week"}, 400, "is no duration", ["seconds"]),
        ("stepDown", {"seconds": -1}, 400, "is negative", ["seconds"]),
        ("kill", {"node": "node9"}, 400, "there are node0, node1, node2", []),
        ("kill", b"[]", 400, "is no JSON object", []),
        ("kill", b"{", 400, "is no JSON", []),
        ("kill", b"\xff", 400, "is no UTF-8", []),
        ("kill", b"[" * 100_000, 400, "is no JSON", []),
        ("kill", b'{"node": "node1", "node": "node2"}', 400, "is there twice", ["node"]),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_its_cure(
    door: HttpDoor, path: str, body: object, status: int, sentence: str, field: list[str]
) -> None:
    answer = door.post(f"/control/{path}", body)
    assert answer.status == status
    assert sentence in answer.document["error"]
    assert answer.document["path"] == field


@pytest.mark.parametrize("value", NO_EXTENDED_JSON)
@pytest.mark.parametrize("verb", ["kill", "seed"])
def test_a_value_that_is_no_extended_json_is_the_callers_mistake(
    door: HttpDoor, verb: str, value: bytes
) -> None:
    bodies = {"kill": b'{"node": %b}', "seed": b'{"namespace": "a.b", "documents": [{"a": %b}]}'}
    answer = door.post(f"/control/{verb}", bodies[verb] % value)
    assert answer.status == 400
    assert answer.document["error"]


def test_a_verb_of_sets_is_refused_by_a_standalone() -> None:
    with BackgroundCluster(ClusterSpec.standalone()) as alone:
        door = HttpDoor(alone.serve_ui())
        with pytest.raises(ControlError, match="replica sets"):
            door.perform("stepDown")


def test_unknown_paths_and_methods_are_told_from_each_other(door: HttpDoor) -> None:
    assert door.get("/nowhere").status == 404
    assert door.get("/control/kill").status == 405


def test_a_verb_that_the_end_of_the_deployment_cuts_off_is_answered() -> None:
    running = BackgroundCluster(ClusterSpec.replica_set(1)).start()
    door = HttpDoor(running.serve_ui())
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(door.post, "/control/restart", {"node": "node0", "down": "1h"})
        while not running.call(lambda: running.node("node0").stopped):
            pass
        running.stop()
        assert asked.result(10).status == 503


@pytest.mark.parametrize("trouble", ["stopped", "paused", "limited"])
def test_the_door_is_open_while_the_deployment_answers_nobody(door: HttpDoor, trouble: str) -> None:
    with BackgroundCluster(ClusterSpec.replica_set(1)) as other:
        own, node = HttpDoor(other.serve_ui()), other.node("node0")
        act: dict[str, Callable[[], object]] = {
            "stopped": node.kill,
            "paused": node.pause,
            "limited": lambda: node.parameters.set(
                {
                    "ingressRequestRateLimiterEnabled": True,
                    "ingressRequestAdmissionRatePerSec": 1,
                    "ingressRequestAdmissionBurstCapacitySecs": 0.000001,
                }
            ),
        }
        other.run(act[trouble])
        assert own.perform("failPointsOff") == {"off": 0}
        assert own.get("/state").status == 200


def test_a_taken_port_is_the_operating_systems_error(door: HttpDoor) -> None:
    port = int(door.address.rpartition(":")[2])
    with BackgroundCluster(ClusterSpec.standalone()) as alone, pytest.raises(OSError, match="in use"):
        alone.serve_ui(port)


async def _served_and_closed() -> tuple[str, int]:
    async with fakeserver.start(ClusterSpec.standalone()) as cluster:
        served = await cluster.serve_ui(token="a token of ours")
        again = await web.serve(cluster)
        await served.aclose()
        await again.aclose()
        return served.token, len(cluster.servers)


def test_a_door_can_be_closed_before_its_deployment() -> None:
    assert asyncio.run(_served_and_closed()) == ("a token of ours", 1)

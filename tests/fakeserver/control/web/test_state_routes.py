"""`GET /state` and `GET /metrics`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from asking import HttpDoor
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from fakeserver import BackgroundCluster, ClusterSpec, load_scenario
from fakeserver.control.web.tally import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')


@pytest.fixture(scope="module")
def three() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.replica_set(3)) as running:
        yield running


@pytest.fixture(scope="module")
def own(three: BackgroundCluster) -> HttpDoor:
    return HttpDoor(three.serve_ui())


def server(door: HttpDoor, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = door.get("/state").document["servers"]
    return next(each for each in found if each["name"] == name)


def samples(door: HttpDoor) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the samples of the metrics by name and labels; every line must be one, or a comment."""
    found = {}
    for line in door.get("/metrics").text.splitlines():
        if not line.startswith("# "):
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            found[sample[1], frozenset(LABEL.findall(sample[2] or ""))] = float(sample[3])
    return found


def test_the_state_names_the_members_and_their_roles(own: HttpDoor) -> None:
    state = own.get("/state").document
    assert state["topology"] == "replicaset"
    assert [each["name"] for each in state["servers"]] == ["node0", "node1", "node2"]
    assert state["sets"][0]["primary"] in state["sets"][0]["members"]
    assert sorted(each["role"] for each in state["servers"]) == ["PRIMARY", "SECONDARY", "SECONDARY"]


def test_what_happens_to_a_server_is_seen(three: BackgroundCluster, own: HttpDoor) -> None:
    three.call(lambda: three.node("node2").pause())
    assert server(own, "node2")["process"] == "paused"
    three.call(lambda: three.node("node2").resume())
    three.call(lambda: three.cluster.partition(["node2"], ["node0", "node1", "clients"]))
    assert own.get("/state").document["partitioned"]
    assert server(own, "node2")["process"] == "unreachable"
    three.call(three.cluster.heal)
    three.call(lambda: three.node("node2").slow(0.2))
    assert server(own, "node2")["slowSeconds"] == pytest.approx(0.2)
    three.call(lambda: three.node("node2").slow(0))
    assert server(own, "node2")["process"] == "running"


def test_requests_are_counted_by_verdict(three: BackgroundCluster, own: HttpDoor) -> None:
    before = own.get("/state").document["verdicts"]
    assert list(before) == list(VERDICTS)
    three.fail_command("find", times=1, error_code=96)
    with MongoClient[dict[str, Any]](three.uri, retryReads=False, appname="</script>") as client:
        with pytest.raises(OperationFailure):
            client.db.c.find_one()
        client.db.c.find_one()
        primary = server(own, three.primary.name)
        assert "</script>" in {each["appName"] for each in primary["clients"]}
        assert "PyMongo" in primary["clients"][-1]["driver"]
    three.stop_failing()
    after = own.get("/state").document["verdicts"]
    assert after["error"] - before["error"] == 1
    assert after["ok"] - before["ok"] >= 1
    counted = samples(own)
    failed = frozenset({("verdict", "error"), ("command", "find"), ("code", "96")})
    assert counted["pushbackd_requests_total", failed] == 1


def test_limits_and_tokens_are_shown(three: BackgroundCluster, own: HttpDoor) -> None:
    node = three.node("node1")
    settings = {"ingressRequestRateLimiterEnabled": True, "ingressRequestAdmissionRatePerSec": 40}
    assert server(own, "node1")["limits"]["requests"]["tokens"] is None
    three.call(lambda: node.parameters.set({**settings, "ingressRequestAdmissionBurstCapacitySecs": 2}))
    limit = server(own, "node1")["limits"]["requests"]
    assert (limit["on"], limit["rate"], limit["burstSeconds"]) == (True, 40, 2)
    assert 0 <= limit["tokens"] <= 80
    tokens = frozenset({("server", "node1"), ("limiter", "requests")})
    assert 0 <= samples(own)["pushbackd_limiter_tokens", tokens] <= 80
    three.call(lambda: node.parameters.set({"ingressRequestRateLimiterEnabled": False}))


def test_every_server_has_its_metrics(own: HttpDoor) -> None:
    names = {dict(labels)["server"] for name, labels in samples(own) if name == "pushbackd_server_up"}
    assert names == {"node0", "node1", "node2"}


@pytest.mark.parametrize("spec", [ClusterSpec.standalone(), ClusterSpec.sharded(mongos=2)])
def test_every_topology_has_a_state(spec: ClusterSpec) -> None:
    with BackgroundCluster(spec) as running:
        state = HttpDoor(running.serve_ui()).get("/state").document
    roles = [each["role"] for each in state["servers"]]
    assert roles in (["STANDALONE"], ["MONGOS", "MONGOS", "PRIMARY", "SECONDARY", "SECONDARY"])


def test_a_scenario_and_the_time_since_it_began_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "s.yml"
    file.write_text(
        'pushbackd: "1.0"\ndescription: A kill.\ntimeline:\n  - at: 30s\n    kill: {node: node0}\n'
    )
    with BackgroundCluster(load_scenario(file)) as running:
        state = HttpDoor(running.serve_ui()).get("/state").document
    assert state["scenario"]["description"] == "A kill."
    assert 0 <= state["scenario"]["elapsed"] < 30
    assert [step["verb"] for step in state["timeline"]] == ["kill"]
    assert state["timeline"][0]["next"] == pytest.approx(30 - state["scenario"]["elapsed"], abs=0.5)

"""`expectConnections` and `expectMetrics` while a case runs, on the fake servers and on servers of others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from scenario_world import World
from scripted import ScriptedDeployment

from driver.cmap.handshake import Handshake
from driver.cmap.pool import Pool
from harness.adapters.base import Feature
from harness.adapters.deployment import Topology
from harness.adapters.registry import make_adapter
from harness.deployments.embedded import embedded
from harness.unified.loader import load
from harness.unified.outcome import Status
from harness.unified.requirements import skip_reason
from harness.unified.runner import run_case
from harness.unified.server_side.connection_judge import ConnectionComparison
from harness.unified.server_side.metrics import MetricComparison
from harness.world.virtual import run_virtual

if TYPE_CHECKING:
    from pathlib import Path

    from harness.unified.model import Case
    from harness.unified.outcome import CaseOutcome
    from harness.world.virtual import World as VirtualWorld

SCENARIO = """\
description: d
schemaVersion: "1.0"
createEntities:
  - client: {id: client, uriOptions: {appName: app}}
  - database: {id: database, client: client, databaseName: pushbackd}
  - collection: {id: collection, database: database, collectionName: stock}
tests:
  - description: one
    operations:
      - {name: insertOne, object: collection, arguments: {document: {_id: 1}}}
      - {name: find, object: collection, arguments: {filter: {}}}
      - {name: close, object: client}
    pushbackd: %s
"""


def case(tmp_path: Path, key: str) -> Case:
    path = tmp_path / "case.yml"
    path.write_text(SCENARIO % key)
    return load(path).cases[0]


def played(tmp_path: Path, key: str, *, edition: str = "2026-02-20") -> CaseOutcome:
    one = case(tmp_path, key)

    async def main(world: VirtualWorld) -> CaseOutcome:
        async with embedded(
            Topology.REPLICA_SET, clock=world.clock, network=world.network, rng=world.rng, virtual=True
        ) as deployment:
            adapter = make_adapter("reference", deployment, edition=edition)
            outcome = await run_case(one, adapter=adapter, deployment=deployment, edition=edition)
            await adapter.aclose()
            return outcome

    return run_virtual(main)


RIGHT = (
    "{expectConnections: [{appName: app, established: 1, atOnce: 1, open: 1, openAtEnd: 0, on: primary,"
    " each: {commands: [hello, insert, find], closedBy: client, authentication: [],"
    ' hello: {backpressure: "rule: backpressure"}}},'
    " {appName: app, monitoring: true, openAtEnd: 0}],"
    " expectMetrics: [{path: metrics.document.inserted, change: 1},"
    " {path: metrics.document.inserted, on: any, change: 0}, {path: process, on: each, value: mongod}]}"
)


@pytest.mark.parametrize("edition", ["2026-02-20", "2026-07-08"])
def test_a_driver_that_does_right_passes_in_either_edition(edition: str, tmp_path: Path) -> None:
    outcome = played(tmp_path, RIGHT, edition=edition)
    assert (outcome.status, outcome.reason) == (Status.PASSED, "")


def test_a_client_that_leaves_its_connections_open_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave(_pool: Pool) -> None:
        return

    monkeypatch.setattr(Pool, "aclose", leave)
    outcome = played(tmp_path, "{expectConnections: [{appName: app, openAtEnd: 0}]}")
    assert outcome.status is Status.FAILED
    assert outcome.reason.startswith("servers saw other connections: 1 connection of app was open at the end")
    assert outcome.location is not None
    assert outcome.location.field == "tests[0].pushbackd.expectConnections[0]"
    assert [type(each) for each in outcome.comparisons] == [ConnectionComparison]


def test_a_handshake_without_a_field_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Handshake.document

    def without(self: Handshake) -> dict[str, Any]:
        return {name: value for name, value in whole(self).items() if name != "backpressure"}

    monkeypatch.setattr(Handshake, "document", without)
    outcome = played(tmp_path, RIGHT)
    assert outcome.status is Status.FAILED
    assert outcome.mismatch is not None
    assert outcome.mismatch.path == "each.hello.backpressure"


def test_a_count_that_differs_fails_with_the_numbers_of_the_server(tmp_path: Path) -> None:
    outcome = played(tmp_path, "{expectMetrics: [{path: metrics.document.inserted, change: 2}]}")
    assert outcome.status is Status.FAILED
    assert outcome.reason == (
        "metrics.document.inserted of node0 changed by +1 during the operations (0 -> 1), expected 2"
    )
    assert outcome.location is not None
    assert outcome.location.field == "tests[0].pushbackd.expectMetrics[0]"
    assert [type(each) for each in outcome.comparisons] == [MetricComparison]


def test_what_follows_the_operations_within_a_second_counts(tmp_path: Path) -> None:
    """The server hears of a close a latency after the client's operation has ended."""
    late = "{expectConnections: [{appName: app, each: {closedBy: client}, closedInOrder: [0]}]}"
    assert played(tmp_path, late).status is Status.PASSED


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("{expectMetrics: [{path: uptime, change: {min: 0}}]}", None),
        (
            "{expectConnections: [{established: 1}]}",
            "needs servers that record what they see (pushbackd), which the fake servers do",
        ),
    ],
)
def test_servers_of_others_count_and_keep_no_record(key: str, reason: str | None, tmp_path: Path) -> None:
    features = frozenset(Feature)
    assert skip_reason(case(tmp_path, key), ScriptedDeployment(), features, "2026-02-20") == reason


def test_metrics_are_judged_on_servers_of_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.deployment = replace(world.deployment, replies={"serverStatus": {"ok": 1, "uptime": 5}})
    assert asyncio.run(world.play(case(tmp_path, "{expectMetrics: [{path: uptime, change: 0}]}"))).status is (
        Status.PASSED
    )
    outcome = asyncio.run(world.play(case(tmp_path, "{expectMetrics: [{path: uptime, value: 6}]}")))
    assert (outcome.status, outcome.reason) == (
        Status.FAILED,
        "uptime of node0 is not as expected at the end: expected 6, got 5",
    )

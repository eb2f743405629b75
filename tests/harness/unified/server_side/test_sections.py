"""The key `pushbackd` while a case runs: drivers that do right and wrong, on the fake servers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from scenario_world import World
from scripted import ScriptedDeployment

from driver.policy import backpressure
from harness.adapters.base import Feature
from harness.adapters.deployment import Topology
from harness.adapters.registry import make_adapter
from harness.deployments.embedded import embedded
from harness.unified.loader import load
from harness.unified.outcome import Status
from harness.unified.requirements import skip_reason
from harness.unified.runner import run_case
from harness.world.virtual import run_virtual

if TYPE_CHECKING:
    from pathlib import Path

    from harness.unified.model import Case
    from harness.unified.outcome import CaseOutcome
    from harness.world.virtual import World as VirtualWorld

SCENARIO = """\
description: d
schemaVersion: "1.7"
createEntities:
  - client: {{id: client, uriOptions: {{appName: app}}}}
  - database: {{id: database, client: client, databaseName: pushbackd}}
  - collection: {{id: collection, database: database, collectionName: stock}}
tests:
  - description: one
    operations:
      - name: failPoint
        object: testRunner
        arguments:
          client: client
          failPoint:
            configureFailPoint: failCommand
            mode: alwaysOn
            data:
              failCommands: [find]
              errorCode: 462
              errorLabels: [SystemOverloadedError, RetryableError]
      - {{name: find, object: collection, arguments: {{filter: {{}}}}, expectError: {{errorCode: 462}}}}
    pushbackd: {key}
"""


def case(tmp_path: Path, key: str) -> Case:
    path = tmp_path / "case.yml"
    path.write_text(SCENARIO.format(key=key))
    return load(path).cases[0]


def played(tmp_path: Path, key: str, *, edition: str = "2026-02-20") -> CaseOutcome:
    one = case(tmp_path, key)

    async def main(world: VirtualWorld) -> CaseOutcome:
        async with embedded(
            Topology.REPLICA_SET, clock=world.clock, network=world.network, rng=world.rng, virtual=True
        ) as deployment:
            adapter = make_adapter("reference", deployment, edition=edition)
            outcome = await run_case(one, adapter=adapter, deployment=deployment, edition=edition)
            assert not deployment.wire_record.on
            await adapter.aclose()
            return outcome

    return run_virtual(main)


UNRECORDED = "needs servers that record what they see (pushbackd), which the fake servers do"
BACKOFF = (
    "{expectAttempts: [{command: find, namespace: pushbackd.stock, appName: app, operations: 1,"
    " count: overload retries + 1, each: {meets: 462, on: primary}, retries: {gap: overload backoff}}]}"
)


@pytest.mark.parametrize("edition", ["2026-02-20", "2026-07-08"])
def test_a_driver_that_does_right_passes_in_either_edition(edition: str, tmp_path: Path) -> None:
    assert played(tmp_path, BACKOFF, edition=edition).status is Status.PASSED


def test_the_edition_of_the_driver_decides_how_many_attempts_there_are(tmp_path: Path) -> None:
    for edition, count in (("2026-02-20", 6), ("2026-07-08", 3)):
        key = f"{{expectAttempts: [{{command: find, count: {count}}}]}}"
        assert played(tmp_path, key, edition=edition).status is Status.PASSED


def test_a_driver_that_waits_too_long_fails_with_the_attempt_and_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backpressure.Backoff, "before", lambda *_, **__: 3.0)
    outcome = played(tmp_path, BACKOFF)
    assert outcome.status is Status.FAILED
    assert outcome.reason == (
        "servers saw other attempts of find: operation 1, attempt 2, gap: began 3000 ms after the end of the"
        " attempt before, 0 to 100 ms expected (overload backoff, 2026-02-20)"
    )
    assert outcome.location is not None
    assert outcome.location.field == "tests[0].pushbackd.expectAttempts[0].retries"


def test_a_case_that_expects_nothing_of_servers_records_nothing(tmp_path: Path) -> None:
    one = case(tmp_path, "{runOn: {time: virtual}}")
    world = World(tmp_path)
    world.deployment = replace(world.deployment, network=object())  # type: ignore[arg-type]
    assert asyncio.run(world.play(one)).status is not Status.SKIPPED


@pytest.mark.parametrize(
    ("key", "facts", "features", "reason"),
    [
        (
            BACKOFF,
            {},
            {*Feature},
            "needs servers that record what they see (pushbackd), which the fake servers do",
        ),
        ("{runOn: {time: virtual}}", {}, {*Feature}, "needs virtual time (pushbackd.runOn)"),
        ("{runOn: {time: real}}", {}, {*Feature}, None),
        ("{runOn: {time: real}}", {"network": object()}, {*Feature}, "needs real time (pushbackd.runOn)"),
        (
            "{runOn: {editions: ['2026-07-08']}}",
            {},
            {*Feature},
            "needs edition 2026-07-08, the driver follows 2026-02-20 (pushbackd.runOn)",
        ),
        ("{runOn: {editions: ['2026-02-20']}}", {}, {*Feature}, None),
        (
            "{runOn: {features: [TRACING]}}",
            {},
            set(),
            f"pushbackd.runOn needs a driver with TRACING: {Feature.TRACING.value}",
        ),
        ("{runOn: {profile: {min: '9.0'}}}", {}, {*Feature}, "needs server 9.0 or newer, this is 8.2.1"),
        ("{runOn: {profile: {max: '8.0'}}}", {}, {*Feature}, "needs server 8.0 or older, this is 8.2.1"),
        ("{runOn: {profile: {min: '8.2', max: '8.2'}}}", {}, {*Feature}, None),
    ],
)
def test_a_case_that_does_not_fit_is_skipped_with_one_reason(
    key: str, facts: dict[str, Any], features: set[Feature], reason: str | None, tmp_path: Path
) -> None:
    deployment = ScriptedDeployment(**{"server_version": (8, 2, 1), **facts})
    assert skip_reason(case(tmp_path, key), deployment, frozenset(features), "2026-02-20") == reason

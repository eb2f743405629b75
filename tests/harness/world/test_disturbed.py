"""Items on deployments that are disturbed: their servers have the names that schedules use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.adapters.deployment import Topology
from harness.deployments.embedded import SERVED, embedded, in_order, servers
from harness.planning.plan import Item, Settings
from harness.planning.result import ResultStatus
from harness.running.executor import ItemExecutor
from harness.sim import World, run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PING = """\
description: pings
schemaVersion: "1.0"
createEntities:
  - client: { id: &client client, useMultipleMongoses: true }
  - database: { id: &database database, client: *client, databaseName: admin }
tests:
  - description: a ping
    operations:
      - name: runCommand
        object: *database
        arguments: { commandName: ping, command: { ping: 1 } }
"""


@pytest.mark.parametrize("topology", SERVED)
def test_every_deployment_has_the_servers_that_schedules_name(topology: Topology) -> None:
    async def main(world: World) -> tuple[list[str], list[str]]:
        ports: dict[str, Any] = {"clock": world.clock, "network": world.network, "rng": world.rng}
        async with embedded(topology, **ports, virtual=True) as deployment:
            cluster = deployment.cluster
            named = [f"balancer{number}" for number, _ in enumerate(cluster.balancers)]
            doors = cluster.balancers or cluster.nodes
            assert [door.address for door in doors] == list(deployment.doors)
            return named or [node.name for node in cluster.nodes], list(deployment.doors)

    names, doors = run_virtual(main)
    assert tuple(names) == servers(topology)
    assert len(set(doors)) == len(names)


@pytest.mark.parametrize("topology", SERVED)
@pytest.mark.parametrize("time", ["virtual", "real"])
def test_a_schedule_is_carried_out_on_every_topology(
    write: Callable[..., Path], topology: Topology, time: Any
) -> None:
    last = servers(topology)[-1]
    schedule = f"from:{last}=2ms start:1=1ms to:{last}:9=50ms"
    item = Item("ping", str(write(PING)), 0, "reference", "2026-07-08", topology.value, schedule=schedule)
    with ItemExecutor(Settings(time=time)) as executor:
        result = executor.run(item)
    assert (result.status, result.reason) == (ResultStatus.PASSED, "")
    told = dict(line.split("  ", 1) for line in result.disturbed)
    assert "reply to" in told[f"from:{last}=2ms"]
    assert f"to:{last}:9=50ms" not in told
    assert topology is Topology.LOAD_BALANCED or "Monitor" in told["start:1=1ms"]


def test_in_real_time_one_bench_serves_disturbed_and_undisturbed_items(write: Callable[..., Path]) -> None:
    path = str(write(PING))
    with ItemExecutor(Settings()) as executor:
        for schedule in (None, "from:node0=1ms", None, "", "from:node0=1ms"):
            item = Item("ping", path, 0, "reference", "2026-07-08", "single", schedule=schedule)
            result = executor.run(item)
            assert (result.status, bool(result.disturbed)) == (ResultStatus.PASSED, bool(schedule))


def test_a_result_says_what_repeats_it(write: Callable[..., Path]) -> None:
    item = Item(
        "ping", str(write(PING)), 0, "reference", "2026-07-08", "single", seed=9, schedule="start:1=1ms"
    )
    with ItemExecutor(Settings(time="virtual")) as executor:
        result = executor.run(item)
    assert (result.seed, result.schedule) == (9, "start:1=1ms")
    assert type(result).from_dict(result.to_dict()) == result


@pytest.mark.parametrize(
    ("uri", "reordered"),
    [
        ("mongodb://a:1,b:2,c:3/?x=1", "mongodb://c:3,a:1,b:2/?x=1"),
        ("mongodb://bob:p%40@a:1,b:2,c:3/", "mongodb://bob:p%40@c:3,a:1,b:2/"),
        ("mongodb://a:1/", "mongodb://a:1/"),
    ],
)
def test_hosts_change_places_where_there_are_so_many(uri: str, reordered: str) -> None:
    assert in_order(uri, (2, 0, 1)) == reordered
    assert in_order(uri, ()) == uri

"""The routes of mongo-orchestration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asking import HttpDoor

from fakeserver import BackgroundCluster, ClusterSpec, MemberSpec

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def four() -> Iterator[BackgroundCluster]:
    members = (MemberSpec(), MemberSpec(), MemberSpec(hidden=True), MemberSpec(arbiter=True))
    with BackgroundCluster(ClusterSpec.replica_set(members)) as running:
        yield running


@pytest.fixture(scope="module")
def own(four: BackgroundCluster) -> HttpDoor:
    return HttpDoor(four.serve_ui())


@pytest.fixture(scope="module")
def sharded() -> Iterator[HttpDoor]:
    with BackgroundCluster(ClusterSpec.sharded(mongos=1, shards=2)) as running:
        yield HttpDoor(running.serve_ui())


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_servers_and_sets_are_listed_under_both_prefixes(own: HttpDoor, prefix: str) -> None:
    servers = own.get(f"{prefix}/servers").document["servers"]
    assert [each["id"] for each in servers] == ["node0", "node1", "node2", "node3"]
    assert own.get(f"{prefix}/replica_sets").document == {"replica_sets": [{"id": "rs0"}]}
    described = own.get(f"{prefix}/replica_sets/rs0").document
    assert described["mongodb_uri"].endswith("/?replicaSet=rs0")
    assert [each["server_id"] for each in described["members"]] == ["node0", "node1", "node2", "node3"]


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        ("members", [0, 1, 2, 3]),
        ("secondaries", [1, 2]),
        ("arbiters", [3]),
        ("hidden", [2]),
        ("passives", [2]),
        ("servers", [0, 1, 2]),
    ],
)
def test_members_are_listed_by_kind(own: HttpDoor, kind: str, ids: list[int]) -> None:
    listed = own.get(f"/v1/replica_sets/rs0/{kind}").document[kind]
    assert [each["_id"] for each in listed] == ids


def test_the_primary_and_a_member_are_described(own: HttpDoor) -> None:
    primary = own.get("/v1/replica_sets/rs0/primary").document
    assert primary["rsInfo"]["primary"]
    assert own.get(f"/v1/replica_sets/rs0/members/{primary['_id']}").document == primary
    assert own.get("/v1/replica_sets/rs0/members/3").document["rsInfo"]["arbiterOnly"]


def test_a_server_is_stopped_and_started(own: HttpDoor) -> None:
    assert own.post("/v1/servers/node1", {"action": "stop"}).document["procInfo"]["alive"] is False
    assert own.post("/v1/servers/node1", {"action": "stop"}).status == 400
    assert own.post("/v1/servers/node1", {"action": "start"}).document["statuses"]["mongos"] is False
    assert own.post("/v1/servers/node1", {"action": "stop"}).status == 200
    assert own.post("/v1/replica_sets/rs0", {"action": "reset"}).status == 200
    assert own.get("/v1/servers/node1").document["procInfo"]["alive"]


def test_a_member_is_added_changed_and_removed(own: HttpDoor) -> None:
    added = own.post("/v1/replica_sets/rs0/members", {"rsParams": {"priority": 0, "tags": {"dc": "east"}}})
    number = added.document["_id"]
    assert added.document["rsInfo"]["tags"] == {"dc": "east"}
    path = f"/v1/replica_sets/rs0/members/{number}"
    changed = own.ask("PATCH", path, b'{"rsParams": {"priority": 1}}', {})
    assert changed.document["rsInfo"]["priority"] == 1
    wrong = own.ask("PATCH", path, b'{"rsParams": {"priorty": 2}}', {})
    assert (wrong.status, "did you mean 'priority'?" in wrong.document["error"]) == (400, True)
    assert own.ask("DELETE", path, None, {}).status == 200
    assert own.get(path).status == 404


def test_elections_are_held_back(four: BackgroundCluster, own: HttpDoor) -> None:
    assert own.post("/v1/servers/node1", {"action": "freeze", "timeout": 0}).status == 200
    primary = four.primary.name
    assert own.post(f"/v1/servers/{primary}", {"action": "stepdown", "timeout": 1}).status == 200
    assert not four.call(lambda: four.node(primary).is_primary)


def test_an_unknown_action_or_thing_is_named(own: HttpDoor) -> None:
    refused = own.post("/v1/servers/node0", {"action": "strt"})
    assert (refused.status, refused.document["path"]) == (400, ["action"])
    assert "did you mean 'start'?" in refused.document["error"]
    assert own.get("/v1/servers/node9").status == 404
    assert own.get("/v1/replica_sets/rs1").status == 404
    assert own.get("/v1/replica_sets/rs0/secondries").status == 400
    assert own.get("/v1/sharded_clusters/sharded").status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/servers"),
        ("POST", "/v1/replica_sets"),
        ("PUT", "/v1/sharded_clusters/x"),
        ("DELETE", "/servers/node0"),
    ],
)
def test_no_other_deployment_can_be_made(own: HttpDoor, method: str, path: str) -> None:
    refused = own.ask(method, path, b"{}", {})
    assert refused.status == 501
    assert "pushbackd start" in refused.document["error"]


def test_a_sharded_cluster_has_its_parts(sharded: HttpDoor) -> None:
    whole = sharded.get("/v1/sharded_clusters/sharded").document
    assert [each["id"] for each in whole["shards"]] == ["shard01", "shard02"]
    assert sharded.get("/v1/sharded_clusters/sharded/routers").document["routers"][0]["id"] == "mongos0"
    assert sharded.get("/v1/sharded_clusters/sharded/shards/shard02").document["isReplicaSet"]
    assert sharded.get("/v1/replica_sets/shard01/members").document["members"]
    assert sharded.post("/v1/servers/shard01-node1", {"action": "restart"}).status == 200

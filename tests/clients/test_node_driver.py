"""The Node driver against served deployments: writes, retries, transactions, change streams, overload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attempts import ALMOST, attempts, gaps
from node_programs import MODULES, NEEDS_NODE, run
from served import DEPLOYMENTS, bytes_received, served, server_tls
from sizes import some_of
from threaded_server import serving

from fakeserver import ClusterSpec, UserSpec

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = NEEDS_NODE

REPLICA_SET = DEPLOYMENTS["replica_set"]
BOB = ("--auth", "--user", "bob:pwd123")
FOUND = [{"_id": 1, "x": 11}, {"_id": 3, "x": 3}]


@pytest.mark.parametrize("modules", MODULES, ids=lambda folder: folder.parent.name)
def test_the_node_driver_of_any_age_writes_reads_and_retries(modules: Path) -> None:
    with served(*REPLICA_SET, *BOB) as uri:
        (line,) = run("crud", uri, modules=modules)
        assert line["found"] == FOUND
        assert line["users"] == [{"user": "bob", "db": "admin"}]


@pytest.mark.parametrize("topology", some_of(["sharded", "load_balanced"], 1))
def test_mongos_are_taken_for_real_ones(topology: str) -> None:
    with served(*DEPLOYMENTS[topology]) as uri:
        assert run("crud", uri)[0]["found"] == FOUND


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
@pytest.mark.parametrize("topology", some_of(["replica_set", "load_balanced"], 0))
def test_a_user_is_known_over_tls(topology: str, mechanism: str) -> None:
    with served(*DEPLOYMENTS[topology], *BOB, *server_tls()) as uri:
        (line,) = run("crud", uri, f"authMechanism={mechanism}")
        assert (line["found"], line["users"]) == (FOUND, [{"user": "bob", "db": "admin"}])


@pytest.mark.parametrize(("option", "shrinks"), [("compressors=zlib", True), ("compressors=none", False)])
def test_messages_are_compressed_on_request(option: str, shrinks: bool) -> None:  # noqa: FBT001 - a case
    with served(*REPLICA_SET) as uri:
        before = bytes_received(uri)
        assert run("crud", uri, option)[0]["found"] == FOUND
        assert (bytes_received(uri) - before < 50_000) is shrinks


@pytest.mark.parametrize("topology", some_of(DEPLOYMENTS, 0))
def test_transactions_commit_abort_and_are_run_again(topology: str) -> None:
    with served(*DEPLOYMENTS[topology]) as uri:
        assert run("transactions", uri) == [
            {"does": "commit", "attempts": 1, "ids": [0, 1, 2]},
            {"does": "abort", "attempts": 1, "error": "the user changed their mind", "ids": [0, 1, 2]},
            {"does": "retry", "attempts": 2, "ids": [0, 1, 2, 4]},
            {"does": "retry commit", "attempts": 1, "ids": [0, 1, 2, 4, 5]},
        ]


@pytest.mark.parametrize("topology", some_of(DEPLOYMENTS, 1))
def test_a_change_stream_goes_on_after_a_lost_connection(topology: str) -> None:
    with served(*DEPLOYMENTS[topology]) as uri:
        assert run("changes", uri) == [
            {"operationType": "insert", "id": 1, "x": 1},
            {"operationType": "update", "id": 1, "x": 2},
            {"operationType": "delete", "id": 1},
            {"streams": 2},
        ]


@pytest.mark.parametrize("topology", some_of(["replica_set", "sharded"], 0))
def test_more_results_than_a_reply_holds_are_read(topology: str) -> None:
    with served(*DEPLOYMENTS[topology]) as uri:
        assert run("large", uri) == [{"count": 20_000, "whole": True}, {"six": 6, "getMores": 3}]


def test_an_overloaded_server_is_asked_again() -> None:
    with served(*REPLICA_SET) as uri:
        assert run("overload", uri) == [{"found": [{"_id": 1}], "inserts": 3, "finds": 2}]


def test_a_server_without_tokens_is_asked_less_and_less_often() -> None:
    # With access control the limiter spares who has not authenticated: the driver's monitors.
    spec = ClusterSpec.replica_set(1, profile="9.0", auth=True, users=(UserSpec("bob", "pwd123"),))
    with serving(spec) as server:
        uri = "mongodb://bob:pwd123@{}:{}/?directConnection=true".format(*server.address)
        (line,) = run("rejected", uri)
        made = attempts(server.cluster)
    assert line == {"code": 462, "overloaded": True}
    # The first answer is setParameter's; what comes behind the attempts ends the sessions.
    assert [outcome for _, outcome in made[:4]] == ["ok", 462, 462, 462]
    waited = gaps(made[1:4])
    assert all(seen >= rule * ALMOST for seen, rule in zip(waited, (0.2, 0.4), strict=True)), waited


def test_writes_go_on_while_the_primary_steps_down() -> None:
    with served(*REPLICA_SET) as uri:
        assert run("step_down", uri) == [{"n": 199, "moved": True}]


@pytest.mark.parametrize("modules", MODULES, ids=lambda folder: folder.parent.name)
def test_rules_are_added_met_listed_and_removed(modules: Path) -> None:
    with served(*REPLICA_SET) as uri:
        (line,) = run("rules", uri, modules=modules)
    assert (line["found"], line["scripted"]) == ({"_id": 1}, {"_id": 99})
    assert line["failed"] == {"code": 2, "message": "no"}
    assert line["mistyped"]["message"].startswith("rule.when: unknown condition 'comand'; did you mean")
    assert (line["hits"], line["removed"]) == ([1, 1, 1, 1], 4)

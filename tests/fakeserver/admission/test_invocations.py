"""What an invocation of a command has to ask for: decided by its fields, where its name does not say."""

from __future__ import annotations

from typing import Any

import pytest
from talking import Deployment, play

from fakeserver import ClusterSpec
from fakeserver.admission.invocations import is_replication, is_subject, needs_primary, pool_of

_OUT = {"aggregate": "c", "pipeline": [{"$match": {}}, {"$out": "d"}], "cursor": {}}
_MERGE = {"aggregate": "c", "pipeline": [{"$merge": {"into": "d"}}], "cursor": {}}
_FACET = {"$facet": {"a": [{"$lookup": {"from": "d", "pipeline": [{"$currentOp": {}}]}}]}}


@pytest.mark.parametrize(
    ("kind", "command", "pool"),
    [
        ("read", {"find": "c"}, "read"),
        ("write", {"insert": "c"}, "write"),
        ("internal", {"hello": 1}, None),
        ("admin", {"setParameter": 1}, None),
        ("read", {"aggregate": "c", "pipeline": []}, "read"),
        ("read", _OUT, "write"),
        ("read", _MERGE, "write"),
        ("read", {**_OUT, "explain": True}, "read"),
        ("read", {"aggregate": "c", "pipeline": "nonsense"}, "read"),
        ("read", {"mapReduce": "c", "out": {"inline": 1}}, "read"),
        ("read", {"mapReduce": "c", "out": "d"}, "write"),
        ("read", {"mapReduce": "c", "out": {"replace": "d"}}, "write"),
    ],
)
def test_what_stores_documents_takes_a_ticket_for_writes(
    kind: str, command: dict[str, Any], pool: str | None
) -> None:
    assert pool_of(kind, next(iter(command)), command) == pool


@pytest.mark.parametrize(
    ("kind", "command", "bound"),
    [
        ("read", {"find": "c"}, False),
        ("write", {"insert": "c"}, True),
        ("read", _OUT, False),
        ("read", {"mapReduce": "c", "out": {"inline": 1}}, False),
        ("read", {"mapReduce": "c", "out": {"merge": "d"}}, True),
    ],
)
def test_map_reduce_with_an_output_needs_a_primary(
    kind: str, command: dict[str, Any], *, bound: bool
) -> None:
    assert needs_primary(kind, next(iter(command)), command) is bound


@pytest.mark.spec("SAC-62", "SAC-66")
@pytest.mark.parametrize(
    ("kind", "command", "subject"),
    [
        ("read", {"find": "c"}, True),
        ("read", {"find": "oplog.rs", "term": 3}, False),
        ("read", {"getMore": 1}, True),
        ("read", {"getMore": 1, "term": 3}, False),
        ("write", {"insert": "c"}, True),
        ("write", {"commitTransaction": 1}, False),
        ("internal", {"killCursors": "c"}, False),
        ("internal", {"ping": 1}, False),
        ("read", {"aggregate": "c", "pipeline": [{"$match": {}}]}, True),
        ("read", {"aggregate": 1, "pipeline": [{"$currentOp": {}}]}, False),
        ("read", {"aggregate": "c", "pipeline": [_FACET]}, False),
        ("read", {"aggregate": "c", "pipeline": [{"$unionWith": {"pipeline": []}}]}, True),
        ("read", {"aggregate": "c", "pipeline": None}, True),
    ],
)
def test_who_needs_an_ingress_ticket(kind: str, command: dict[str, Any], *, subject: bool) -> None:
    assert is_subject(kind, next(iter(command)), command) is subject


@pytest.mark.spec("SAC-66")
def test_what_has_a_term_is_a_members() -> None:
    assert is_replication("find", {"find": "oplog.rs", "term": 1})
    assert not is_replication("insert", {"insert": "c", "term": 1})


@pytest.mark.parametrize("stage", [{"$out": "d"}, {"$merge": {"into": "d"}}])
def test_an_aggregation_that_writes_is_a_writer_to_tickets_and_flow_control(stage: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, admission = await deployment.connect(), deployment.primary.admission
        await talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        writes, locks = admission.execution.write.finished, admission.flow.locks_total
        await talker.ok({"aggregate": "c", "pipeline": [stage], "cursor": {}, "$db": "db"})
        assert admission.execution.write.finished == writes + 1
        assert admission.flow.locks_total == locks + 1
        await talker.ok({"aggregate": "c", "pipeline": [], "cursor": {}, "$db": "db"})
        assert (admission.execution.write.finished, admission.flow.locks_total) == (writes + 1, locks + 1)

    play(scenario, ClusterSpec.replica_set(1))


OFTEN = 4
"""How often a command comes until its path is surely worked out."""


@pytest.mark.spec("SAC-26")
def test_replications_find_passes_where_nobody_gets_a_ticket() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for _ in range(OFTEN):
            await talker.ok({"find": "c", "term": 1, "$db": "db"})
        shown = await talker.ok({"serverStatus": 1})
        assert shown["queues"]["ingress"]["exempt"]["finishedProcessing"] >= OFTEN
        assert shown["queues"]["execution"]["read"]["exempt"]["finishedProcessing"] == OFTEN
        late = await talker.fails({"find": "c", "maxTimeMS": 10, "$db": "db"})
        assert late["code"] == 50

    play(scenario, ClusterSpec.replica_set(1, parameters={"ingressAdmissionControllerTicketPoolSize": 0}))


@pytest.mark.spec("SAC-29")
def test_replications_find_counts_as_exempt_where_there_are_tickets() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for _ in range(OFTEN):
            await talker.ok({"find": "c", "$db": "db"})
            await talker.ok({"find": "c", "term": 1, "$db": "db"})
        queues = (await talker.ok({"serverStatus": 1}))["queues"]
        for read in (queues["ingress"], queues["execution"]["read"]):
            assert read["normalPriority"]["finishedProcessing"] == OFTEN
            assert read["exempt"]["finishedProcessing"] >= OFTEN

    play(scenario, ClusterSpec.replica_set(1))


@pytest.mark.spec("SAC-29")
def test_a_hello_counts_as_exempt_in_execution_control() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for name in ("hello", "isMaster"):
            await talker.ok({name: 1})
        exempt = (await talker.ok({"serverStatus": 1}))["queues"]["execution"]["read"]["exempt"]
        assert exempt["finishedProcessing"] == 2

    play(scenario, ClusterSpec.standalone())

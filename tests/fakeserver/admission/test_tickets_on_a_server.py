"""Ingress admission, execution control and service times on a running server, as its clients see them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import Int64
from talking import Deployment, Talker, lsid, play

from fakeserver import ClusterSpec

_FIND = {"find": "c", "$db": "db"}
_INSERT = {"insert": "c", "documents": [{"x": 1}], "$db": "db"}


def _spec(**parameters: Any) -> ClusterSpec:
    return ClusterSpec.standalone(parameters={"serviceTimeBaseMillis": 100, **parameters})


async def _together(deployment: Deployment, *commands: dict[str, Any]) -> list[tuple[float, int | None]]:
    """Run commands at once, each on a connection of its own; return when each was answered, and its code."""
    talkers = [await deployment.connect() for _ in commands]
    began = deployment.world.clock.now()

    async def run(talker: Talker, command: dict[str, Any]) -> tuple[float, int | None]:
        reply = await talker.command(command)
        assert reply is not None
        return round(deployment.world.clock.now() - began, 2), reply.get("code")

    pairs = zip(talkers, commands, strict=True)
    return await asyncio.gather(*(run(talker, command) for talker, command in pairs))


def test_a_command_takes_its_service_time_and_others_do_not() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _together(deployment, _FIND, {"ping": 1}, {"hello": 1})
        assert answers == [(0.1, None), (0.0, None), (0.0, None)]

    play(scenario, _spec())


def test_an_overloaded_server_takes_exponentially_longer() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _together(deployment, *[_FIND] * 4)
        assert answers == [(0.1, None), (0.1, None), (0.2, None), (0.4, None)]

    play(scenario, _spec(serviceTimeConcurrencyLimit=2, serviceTimeFactor=2, serviceTimeK=1))


def test_workers_serve_one_command_each_and_weights_make_some_longer() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _together(deployment, _INSERT, _FIND, _FIND)
        assert answers == [(0.3, None), (0.4, None), (0.5, None)]

    play(scenario, _spec(serviceTimeWorkers=1, serviceTimeWeights={"insert": 3}))


def test_commands_that_are_looked_at_again_take_as_long_as_those_beside_them_ask_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _together(deployment, *[_FIND] * 3)
        assert answers == [(0.4, None), (0.4, None), (0.4, None)]

    parameters = {"serviceTimeConcurrencyLimit": 1, "serviceTimeK": 1, "serviceTimeRecomputeMillis": 50}
    play(scenario, _spec(**parameters))


def test_the_model_is_switched_on_and_off_at_runtime() -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.nodes[0].parameters.set({"serviceTimeBaseMillis": 50})
        assert await _together(deployment, _FIND) == [(0.05, None)]
        deployment.cluster.nodes[0].parameters.set({"serviceTimeBaseMillis": 0})
        assert await _together(deployment, _FIND) == [(0.0, None)]

    play(scenario, ClusterSpec.standalone())


@pytest.mark.spec("SAC-60", "SAC-68", "SAC-69")
def test_as_many_commands_run_at_once_as_there_are_ingress_tickets() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _together(deployment, *[_FIND] * 5, {"ping": 1})
        assert answers == [
            *((0.1, None), (0.1, None), (0.2, None), (0.2, None), (0.3, None)),
            (0.0, None),
        ]

    play(scenario, _spec(ingressAdmissionControllerTicketPoolSize=2))


@pytest.mark.spec("SAC-67")
@pytest.mark.parametrize(
    "command",
    [
        {"aggregate": "c", "pipeline": [{"$out": "other"}], "cursor": {}, "$db": "db"},
        {
            "aggregate": "c",
            "pipeline": [{"$lookup": {"from": "c", "pipeline": [{"$match": {}}], "as": "all"}}],
            "cursor": {},
            "$db": "db",
        },
        {
            "bulkWrite": 1,
            "ops": [{"insert": 0, "document": {"x": 2}}, {"delete": 0, "filter": {"x": 2}}],
            "nsInfo": [{"ns": "db.c"}],
        },
        {"insert": "c", "documents": [{"x": 3}, {"x": 4}], "$db": "db"},
    ],
    ids=["$out", "$lookup", "bulkWrite", "insert"],
)
def test_what_a_command_does_within_itself_takes_no_second_ticket(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_INSERT)
        node = deployment.cluster.nodes[0]
        admitted = node.admission.ingress.finished
        await talker.ok(command)
        assert node.admission.ingress.finished == admitted + 1
        assert node.admission.ingress.peak == 1

    play(scenario, ClusterSpec.standalone(parameters={"ingressAdmissionControllerTicketPoolSize": 1}))


def test_a_full_ingress_queue_overflows() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = [await deployment.connect() for _ in range(2)]
        for talker in talkers:
            await talker.send(_FIND)
        await deployment.sleep(0.01)
        refused = await (await deployment.connect()).fails(_FIND)
        assert refused == {
            "errorLabels": ["SystemOverloadedError"],
            "ok": 0.0,
            "errmsg": "MongoDB is overloaded and cannot accept new operations. Try again later.",
            "code": 433,
            "codeName": "AdmissionQueueOverflow",
        }

    play(
        scenario,
        ClusterSpec.standalone(
            profile="9.0",
            parameters={
                "serviceTimeBaseMillis": 100,
                "ingressAdmissionControllerTicketPoolSize": 1,
                "ingressAdmissionControllerMaxQueueDepth": 1,
            },
        ),
    )


@pytest.mark.spec("SAC-64")
def test_no_tickets_block_whoever_needs_one_until_the_pool_grows() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        talker = await deployment.connect()
        await talker.send(_FIND)
        await deployment.sleep(10)
        assert node.admission.ingress.queued == 1
        node.parameters.set({"ingressAdmissionControllerTicketPoolSize": 1})
        reply = await talker.reply()
        assert reply is not None
        assert reply["ok"] == 1.0

    play(scenario, _spec(ingressAdmissionControllerTicketPoolSize=0))


@pytest.mark.parametrize("size", [-1, "many"])
def test_a_bad_value_of_the_ingress_pool_is_refused(size: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        name = "ingressAdmissionControllerTicketPoolSize"
        before = await talker.ok({"getParameter": 1, name: 1})
        assert (await talker.fails({"setParameter": 1, name: size}))["code"] == 2
        assert (await talker.ok({"getParameter": 1, name: 1}))[name] == before[name]

    play(scenario, ClusterSpec.standalone(profile="8.2"))


@pytest.mark.spec("SAC-65")
def test_ingress_admission_that_is_switched_off_asks_nobody() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert await _together(deployment, _FIND, _FIND) == [(0.1, None), (0.1, None)]
        assert deployment.cluster.nodes[0].admission.ingress.finished == 0

    play(
        scenario,
        _spec(ingressAdmissionControllerTicketPoolSize=1, ingressAdmissionControlEnabled=False),
    )


@pytest.mark.spec("SAC-1", "SAC-4", "SAC-6")
@pytest.mark.parametrize("pool", ["Read", "Write"])
def test_the_engine_runs_as_many_at_once_as_the_pool_has_tickets(pool: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        scarce, ample = (_FIND, _INSERT) if pool == "Read" else (_INSERT, _FIND)
        answers = await _together(deployment, scarce, scarce, scarce, ample, ample, ample)
        assert answers == [(0.1, None), (0.2, None), (0.3, None), (0.1, None), (0.1, None), (0.1, None)]

    play(
        scenario,
        _spec(
            **{
                "storageEngineConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
                f"storageEngineConcurrent{pool}Transactions": 1,
            }
        ),
    )


def test_a_full_execution_queue_overflows() -> None:
    async def scenario(deployment: Deployment) -> None:
        answers = await _together(deployment, _FIND, _FIND, _FIND)
        assert answers == [(0.1, None), (0.2, None), (0.0, 433)]

    play(
        scenario,
        _spec(
            storageEngineConcurrencyAdjustmentAlgorithm="fixedConcurrentTransactions",
            storageEngineConcurrentReadTransactions=1,
            storageEngineReadMaxQueueDepth=1,
        ),
    )


def test_fixed_pools_change_at_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.cluster.nodes[0]
        waiting = asyncio.create_task(_together(deployment, _FIND, _FIND, _FIND))
        await deployment.sleep(0.05)
        node.parameters.set({"wiredTigerConcurrentReadTransactions": 3})
        assert await waiting == [(0.1, None), (0.15, None), (0.15, None)]

    play(
        scenario,
        _spec(
            executionControlConcurrencyAdjustmentAlgorithm="fixedConcurrentTransactions",
            executionControlConcurrentReadTransactions=1,
        ),
    )


def test_the_three_names_of_a_pool_are_one_parameter() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, "storageEngineConcurrentReadTransactions": 9})
        found = await talker.ok(
            {
                "getParameter": 1,
                "executionControlConcurrentReadTransactions": 1,
                "storageEngineConcurrentReadTransactions": 1,
                "wiredTigerConcurrentReadTransactions": 1,
            }
        )
        assert {value for name, value in found.items() if name != "ok"} == {9}

    play(scenario, _spec(wiredTigerConcurrentReadTransactions=7))


@pytest.mark.parametrize(
    "scarce",
    [
        {"ingressAdmissionControllerTicketPoolSize": 1},
        {
            "storageEngineConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
            "storageEngineConcurrentReadTransactions": 1,
        },
    ],
)
def test_a_deadline_ends_the_wait_for_a_ticket_and_the_service(scarce: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        impatient = {**_FIND, "maxTimeMS": 30}
        answers = await _together(deployment, _FIND, impatient, _FIND)
        assert answers == [(0.1, None), (0.03, 50), (0.2, None)]
        assert await _together(deployment, impatient) == [(0.03, 50)]
        assert await _together(deployment, _FIND) == [(0.1, None)]

    play(scenario, _spec(**scarce))


@pytest.mark.parametrize(
    "scarce",
    [
        {"ingressAdmissionControllerTicketPoolSize": 1},
        {
            "storageEngineConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
            "storageEngineConcurrentReadTransactions": 1,
        },
    ],
)
def test_clients_that_are_missed_while_they_wait_or_work_keep_no_ticket(scarce: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        working, waiting = await deployment.connect(), await deployment.connect()
        await working.send(_FIND)
        await waiting.send(_FIND)
        await deployment.sleep(0.01)
        await waiting.aclose()
        await working.aclose()
        await deployment.sleep(0.01)
        assert await _together(deployment, _FIND) == [(0.1, None)]
        admission = deployment.cluster.nodes[0].admission
        assert (admission.ingress.out, admission.execution.read.out, admission.service.concurrency) == (
            0,
            0,
            0,
        )

    play(scenario, _spec(abandonedRequests="atOnce", **scarce))


def test_a_transaction_always_commits() -> None:
    """It frees what others wait for, so it is exempt."""

    async def scenario(deployment: Deployment) -> None:
        node = deployment.primary
        node.parameters.set({"ingressAdmissionControllerTicketPoolSize": 0})
        talker = await deployment.connect()
        lost = await talker.fails(
            {
                "commitTransaction": 1,
                "lsid": lsid(),
                "txnNumber": Int64(1),
                "autocommit": False,
            }
        )
        assert lost["code"] == 251

    play(scenario, ClusterSpec.replica_set(1))


def test_a_tailing_client_holds_its_ingress_ticket_and_none_of_the_engine() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "log", "capped": True, "size": 4096, "$db": "db"})
        await talker.ok({"insert": "log", "documents": [{"x": 1}], "$db": "db"})
        found = await talker.ok({"find": "log", "tailable": True, "awaitData": True, "$db": "db"})
        await talker.send({"getMore": found["cursor"]["id"], "collection": "log", "$db": "db"})
        await deployment.sleep(0.5)
        admission = deployment.cluster.nodes[0].admission
        assert (admission.ingress.out, admission.execution.read.out) == (1, 0)

    play(scenario, ClusterSpec.standalone())


@pytest.mark.spec("SAC-5")
def test_commands_through_a_mongos_take_the_tickets_of_the_shard() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert await _together(deployment, _FIND, _FIND) == [(0.1, None), (0.2, None)]
        primary = deployment.cluster.shards[0].primary
        assert primary is not None
        assert primary.admission.execution.read.finished == 2
        assert deployment.cluster.nodes[0].admission.execution.read.finished == 0

    play(
        scenario,
        ClusterSpec.sharded(
            members=1,
            parameters={
                "serviceTimeBaseMillis": 100,
                "storageEngineConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
                "storageEngineConcurrentReadTransactions": 1,
            },
        ),
    )


@pytest.mark.spec("SAC-7")
def test_probing_finds_more_tickets_where_more_get_more_done() -> None:
    async def scenario(deployment: Deployment) -> None:
        async def busy() -> None:
            talker = await deployment.connect()
            until = deployment.world.clock.now() + 10
            while deployment.world.clock.now() < until:
                await talker.ok(_FIND)

        await asyncio.gather(*(busy() for _ in range(40)))
        execution = deployment.cluster.nodes[0].admission.execution
        assert execution.read.size >= 10
        assert execution.stats()["monitor"]["timesIncreased"] > 5

    # Commands must be much shorter than the interval of 100 ms, or a trial ends before it shows.
    quick = {"serviceTimeBaseMillis": 10, "serviceTimeConcurrencyLimit": 20}
    play(scenario, _spec(**quick, throughputProbingInitialConcurrency=8))

"""Operations that wait for nothing: by a parameter, and by whoever embeds the server."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64
from talking import Deployment, lsid, play

from fakeserver import ClusterSpec
from fakeserver.stages.priorities import scoped_admission_priority

_FIND = {"find": "c", "$db": "db"}
_INSERT = {"insert": "c", "documents": [{}], "$db": "db"}
_NO_TICKETS = {"ingressAdmissionControllerTicketPoolSize": 0}
_MONITOR = {
    "application": {"name": "monitor-1"},
    "driver": {"name": "talker", "version": "1"},
    "os": {"type": "Linux"},
}


@pytest.mark.parametrize("exempt", [{"commands": ["find"]}, {"appNames": ["monitor"]}])
def test_a_parameter_exempts_commands_and_applications(exempt: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"hello": 1, "client": _MONITOR})
        assert (await talker.fails({**_FIND, "maxTimeMS": 5}))["code"] == 50
        await talker.ok({"setParameter": 1, "admissionPriorityExemptions": exempt})
        await talker.ok(_FIND)
        counted = (await talker.ok({"serverStatus": 1}))["queues"]["execution"]["read"]["exempt"]
        # The hello is exempt anyhow.
        assert counted["finishedProcessing"] == 2

    play(scenario, ClusterSpec.standalone(parameters=_NO_TICKETS))


@pytest.mark.spec("SAC-25", "SAC-31")
def test_a_priority_holds_for_those_it_is_given_to_and_as_long_as_its_scope() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, node = await deployment.connect(), deployment.cluster.nodes[0]
        with scoped_admission_priority(node, when=lambda request: request.spec.name == "insert"):
            await talker.ok(_INSERT)
            assert (await talker.fails({**_FIND, "maxTimeMS": 5}))["code"] == 50
        assert (await talker.fails({**_INSERT, "maxTimeMS": 5}))["code"] == 50

    play(scenario, ClusterSpec.standalone(parameters=_NO_TICKETS))


@pytest.mark.spec("SAC-27")
def test_an_exempt_writer_is_not_held_back_by_flow_control() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, node = await deployment.connect(), deployment.primary
        node.admission.flow.left = 0
        assert (await talker.fails({**_INSERT, "maxTimeMS": 5}))["code"] == 50
        began = deployment.world.clock.now()
        with scoped_admission_priority(node):
            await talker.ok(_INSERT)
        assert deployment.world.clock.now() - began < 0.1, "the next period would have let it pass, too"

    play(scenario, ClusterSpec.replica_set(1))


@pytest.mark.spec("SAC-29")
def test_a_commit_needs_no_ticket_since_it_frees_what_others_wait_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, node = await deployment.connect(), deployment.primary
        statement = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        await talker.ok({**_INSERT, **statement, "startTransaction": True})
        node.admission.execution.write.resize(0, node.clock.now())
        assert (await talker.fails({**_INSERT, "maxTimeMS": 5}))["code"] == 50
        await talker.ok({"commitTransaction": 1, "maxTimeMS": 5, **statement})

    play(scenario, ClusterSpec.replica_set(1))


def test_a_priority_given_on_a_mongos_holds_on_the_shard() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, node = await deployment.connect(), deployment.cluster.nodes[0]
        with scoped_admission_priority(node):
            await talker.ok(_FIND)
        assert (await talker.fails({**_FIND, "maxTimeMS": 5}))["code"] == 50

    play(scenario, ClusterSpec.sharded(1, members=1, parameters=_NO_TICKETS))

"""Parameters that nothing here obeys are taken as a server takes them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from talking import Deployment, play

from fakeserver import ClusterSpec
from fakeserver.admission import parameters as admission
from fakeserver.errors import CommandError
from fakeserver.profile import Profile
from fakeserver.settings.server_parameters import TABLE, ServerParameters
from fakeserver.settings.without_effect import TABLE as WITHOUT_EFFECT

if TYPE_CHECKING:
    from fakeserver.settings.declaration import Parameter

NEWEST = Profile.named("9.0")
WRONG_TYPES: dict[str, Any] = {
    "bool": "maybe",
    "int": "many",
    "long": {},
    "double": "some",
    "string": 5,
    "document": 5,
}


TYPED = {"string", "document"}


def started(**parameters: Any) -> ServerParameters:
    return ServerParameters(NEWEST, parameters)


def refusal(parameter: Parameter, value: Any) -> int:
    with pytest.raises(CommandError) as info:
        started(**{parameter.name: value})
    return int(info.value.code)


@pytest.mark.parametrize("parameter", WITHOUT_EFFECT, ids=lambda parameter: parameter.name)
def test_a_parameter_without_effect_is_taken_checked_and_shown(parameter: Parameter) -> None:
    default = parameter.default
    if default is not None:
        assert started(**{parameter.name: default})[parameter.name] == default
        assert type(parameter.parse(default)) is type(default)
    assert refusal(parameter, WRONG_TYPES[parameter.kind]) == (14 if parameter.kind in TYPED else 2)
    if parameter.minimum is not None:
        assert started(**{parameter.name: parameter.minimum})[parameter.name] == parameter.minimum
        assert refusal(parameter, parameter.minimum - 1) == 2
    if parameter.maximum is not None:
        assert refusal(parameter, parameter.maximum + 1) == 2
    if parameter.choices:
        assert refusal(parameter, "something else") == 2


def test_no_parameter_is_both_obeyed_and_without_effect() -> None:
    names = Counter(parameter.name for parameter in (*WITHOUT_EFFECT, *admission.TABLE))
    assert max(names.values()) == 1
    assert all(TABLE[parameter.name] is parameter for parameter in WITHOUT_EFFECT)


# What scripts set, as they write it.
STARTED_WITH = {
    "enableTestCommands": "1",
    "notablescan": "1",
    "diagnosticDataCollectionEnabled": "false",
    "periodicNoopIntervalSecs": "1",
    "writePeriodicNoops": "false",
    "orphanCleanupDelaySecs": "1",
    "minSnapshotHistoryWindowInSeconds": "0",
    "mirrorReads": "{samplingRate: 1.0}",
    "mongotHost": "localhost:27027",
}


def test_a_client_sees_what_a_script_has_set() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        shown = await talker.ok({"getParameter": 1, "notablescan": 1, "mirrorReads": 1})
        assert (shown["notablescan"], shown["mirrorReads"]) == (True, {"samplingRate": 1.0})
        reply = await talker.ok({"setParameter": 1, "enableElectionHandoff": False})
        assert reply["was"] is True
        assert (await talker.ok({"getParameter": 1, "enableElectionHandoff": 1}))[
            "enableElectionHandoff"
        ] is False
        sorts = {"internalQueryMaxBlockingSortMemoryUsageBytes": 1000}
        await talker.ok({"setParameter": 1, **sorts})
        assert (await talker.fails({"setParameter": 1, "mongotHost": "a:1"}))["code"] == 20
        assert (await talker.fails({"setParameter": 1, "noSuchParameter": 1}))["code"] == 72

    play(scenario, ClusterSpec.replica_set(1, parameters=STARTED_WITH))


def test_a_mongos_has_those_of_its_own_alone() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"getParameter": 1, "ShardingTaskExecutorPoolMaxSize": 1})
        assert (await talker.fails({"getParameter": 1, "notablescan": 1}))["code"] == 72

    play(scenario, ClusterSpec.sharded(parameters=STARTED_WITH))

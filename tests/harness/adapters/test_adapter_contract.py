"""One contract, kept by every adapter: those in this process, and those that are processes of their own."""

from __future__ import annotations

import asyncio
import gc
import shlex
import sys
import threading
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adapter_child
import pytest
from example_adapters import EXAMPLES

from harness.adapters.base import Feature, UnsupportedOperation
from harness.adapters.command import Children
from harness.adapters.deployment import Topology
from harness.adapters.pymongo import base as pymongo_base
from harness.adapters.reference import adapter as reference
from harness.deployments.embedded import embedded
from harness.testing.adapter import AdapterChecks, check_adapter, checks_of
from harness.testing.adapter_basics import AdapterEntities, a_call_that_waits_does_not_keep_others_waiting
from harness.testing.adapter_features import BY_FEATURE
from harness.testing.worlds import run_in_system
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.adapters.base import ClientSpec, DriverAdapter, Handle, Invocation, PoolSpec
    from harness.adapters.deployment import Deployment
    from harness.testing.adapter_basics import Check
    from mongowire.ports import Clock, Network

ROOT = Path(__file__).parents[3]
CHILD = shlex.join([sys.executable, str(Path(adapter_child.__file__)), "pymongo-async"])


@dataclass(frozen=True)
class Subject:
    """An adapter, what it must declare, and the time that it runs in. `command` is that of a process."""

    name: str
    features: frozenset[Feature]
    command: str = ""
    virtual: bool = False
    marks: Sequence[pytest.MarkDecorator] = field(default=(), compare=False)
    races: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The checks that its driver passes by chance, or cannot pass, each with the reason."""
    lacks: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The checks that need an operation that its driver has not, each with that operation."""

    def marks_of(self, check: Check) -> Sequence[pytest.MarkDecorator]:
        reason = self.races.get(check.__name__)
        return (*self.marks, pytest.mark.skip(reason=reason)) if reason else self.marks


def features(names: str) -> frozenset[Feature]:
    return frozenset(Feature[name] for name in names.split())


REFERENCE = reference.FEATURES | features("ADAPTIVE_RETRIES RETRY_TOKENS TRACING")
SUBJECTS = {
    "reference": Subject("reference", REFERENCE),
    "reference in virtual time": Subject("reference", REFERENCE, virtual=True),
    "pymongo": Subject("pymongo", pymongo_base.FEATURES),
    "pymongo-async": Subject("pymongo-async", pymongo_base.FEATURES),
    "cmd:ours": Subject("child", pymongo_base.FEATURES, CHILD, marks=(pytest.mark.slow,)),
    **{
        f"cmd:{each.language}": Subject(
            each.name,
            each.features,
            each.command,
            marks=each.marks,
            races=each.races,
            lacks=each.lacks,
        )
        for each in EXAMPLES
    },
}
NO_CHECK = {
    Feature.ENCRYPTION,  # no adapter has it
    Feature.VIRTUAL_TIME,  # all checks of the reference driver show it
}


def cases() -> list[Any]:
    return [
        pytest.param(subject, check, id=f"{name}-{check.__name__}", marks=subject.marks_of(check))
        for name, subject in SUBJECTS.items()
        for check in checks_of(subject.features)
    ]


@pytest.fixture(scope="module")
def running() -> Iterator[Callable[[Subject], AdapterChecks]]:
    """What runs the checks of each subject: a process of a command serves one after the other."""
    with ExitStack() as opened:

        @cache
        def of(subject: Subject) -> AdapterChecks:
            name = f"cmd:{subject.command}" if subject.command else subject.name
            return opened.enter_context(AdapterChecks(name, virtual=subject.virtual))

        yield of


@pytest.mark.parametrize(("subject", "check"), cases())
def test_the_contract_of_adapters(
    subject: Subject, check: Check, running: Callable[[Subject], AdapterChecks]
) -> None:
    """Whatever is left open is an error."""

    async def introduced(adapter: DriverAdapter, deployment: Deployment) -> None:
        assert (adapter.name, adapter.features) == (subject.name, subject.features)
        if operation := subject.lacks.get(check.__name__):
            with pytest.raises(UnsupportedOperation, match=rf"no {operation} (on|with)"):
                await check(adapter, deployment)
        else:
            await check(adapter, deployment)

    gc.freeze()  # what is there already was looked at, and is no garbage of this test
    running(subject).run(introduced)
    gc.collect()
    assert [thread for thread in threading.enumerate() if thread.name == "driver call"] == []


PROCESSES = [
    pytest.param(subject.command, id=name, marks=subject.marks)
    for name, subject in SUBJECTS.items()
    if subject.command
]


@pytest.mark.parametrize("command", PROCESSES)
def test_a_process_serves_one_case_after_the_other(command: str) -> None:
    """Nothing of the first is left in the second but what is on the servers."""

    async def scenario(clock: Clock, network: Network) -> None:
        async with (
            embedded(
                Topology.REPLICA_SET, clock=clock, network=network, rng=SeededRng(0), virtual=False
            ) as deployment,
            aclosing(Children(call_seconds=30)) as children,
        ):
            adapter = await children.adapter(command, clock)
            first = await AdapterEntities.make(adapter, deployment)
            await first.call("insertOne", document={"_id": 1})
            await adapter.aclose()
            again = await children.adapter(command, clock)
            assert again._child is adapter._child
            second = await AdapterEntities.make(again, deployment)
            assert await second.call("find", filter={}) == [{"_id": 1}]
            (found,) = second.events("commandStartedEvent")
            assert found.fields["commandName"] == "find"
            await again.aclose()

    run_in_system(scenario)


def test_all_checks_that_the_features_call_for_are_run() -> None:
    ran: list[str] = []

    class Recorder(reference.ReferenceAdapter):
        async def create_client(self, spec: ClientSpec) -> Handle:
            ran.append(spec.uri)
            return await super().create_client(spec)

        async def create_pool(self, spec: PoolSpec) -> Handle:
            ran.append(spec.uri)
            return await super().create_pool(spec)

    check_adapter(Recorder, virtual=True)
    assert len(ran) >= len(checks_of(REFERENCE)) - 2


def test_an_adapter_that_breaks_a_promise_is_told_which() -> None:
    class Nameless(reference.ReferenceAdapter):
        name = ""

    with pytest.raises(AssertionError) as raised:
        check_adapter(Nameless, virtual=True)
    (note,) = raised.value.__notes__
    assert note.startswith("it_has_a_name_and_features: Check that the adapter introduces itself")


def test_an_adapter_that_does_one_thing_at_a_time_keeps_others_waiting() -> None:
    class Sequential(reference.ReferenceAdapter):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._turn = asyncio.Lock()

        async def call(self, invocation: Invocation[Handle]) -> Any:
            async with self._turn:
                return await super().call(invocation)

    with AdapterChecks(Sequential, virtual=True) as checks, pytest.raises(AssertionError):
        checks.run(a_call_that_waits_does_not_keep_others_waiting)


def test_every_feature_has_a_check_that_an_adapter_runs() -> None:
    declared = frozenset[Feature]().union(*(subject.features for subject in SUBJECTS.values()))
    assert set(BY_FEATURE) == declared - NO_CHECK == set(Feature) - NO_CHECK

"""Listeners and log handlers that fail: what a client does is none of their business."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from driven_client import Stage, play
from scripted_mongod import Drop, Late, error, replica_set

from driver.errors import DriverError
from driver.events import DriverEvent
from driver.log.components import Component
from driver.monitoring import Shield

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPTIONS = "maxPoolSize=1&waitQueueTimeoutMS=50&heartbeatFrequencyMS=1000&serverSelectionTimeoutMS=5000"


def concrete(kind: type[DriverEvent]) -> Iterator[type[DriverEvent]]:
    for child in kind.__subclasses__():
        if child.kind:
            yield child
        yield from concrete(child)


KINDS = sorted(kind.kind for kind in concrete(DriverEvent))


class BrokenError(Exception):
    """What users' code raises here."""


class Told:
    """What the loop's exception handler hears."""

    def __init__(self) -> None:
        self.contexts: list[dict[str, Any]] = []

    def listen(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.contexts.append(context))

    @property
    def errors(self) -> list[Any]:
        return [context["exception"] for context in self.contexts]


async def ping(stage: Stage) -> None:
    await stage.client.command("admin", {"ping": 1})


async def everything(stage: Stage) -> None:
    """Bring about every kind of event, and see that the client still works and its monitors still check."""
    primary = stage.primary
    primary.will("ping", {"ok": 1.0}, error(8, "boom"), Drop(), Late(0.2))
    await ping(stage)
    for _ in range(2):
        with pytest.raises(DriverError):
            await ping(stage)
    first = asyncio.ensure_future(ping(stage))
    await stage.world.clock.sleep_until(stage.world.clock.now() + 0.01)
    with pytest.raises(DriverError, match="Timed out while checking out"):
        await ping(stage)
    await first
    primary.will("isMaster", Drop())
    primary.will("hello", Drop())
    before = len(primary.hellos)
    await stage.world.clock.sleep_until(stage.world.clock.now() + 5)
    assert len(primary.hellos) >= before + 4
    await ping(stage)


@pytest.mark.parametrize("kind", [*KINDS, "every event"])
def test_a_listener_that_raises_changes_nothing(kind: str) -> None:
    told, heard = Told(), []

    def broken(event: DriverEvent) -> None:
        if kind in (event.kind, "every event"):
            heard.append(event)
            raise BrokenError(event.kind)

    async def scenario(stage: Stage) -> None:
        told.listen()
        await everything(stage)

    undisturbed = play(scenario, OPTIONS, members=replica_set([1]))
    disturbed = play(scenario, OPTIONS, members=replica_set([1]), more_listeners=[broken])
    assert [event.kind for event in disturbed.events] == [event.kind for event in undisturbed.events]
    assert disturbed.ended == undisturbed.ended
    assert heard, "the scenario brings about no such event"
    assert [type(told_error) for told_error in told.errors] == [BrokenError]


@contextmanager
def broken_handler(name: str) -> Iterator[logging.Handler]:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise BrokenError(record.getMessage())

    logger, handler = logging.getLogger(name), Broken()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.mark.parametrize("name", [*(component.logger.name for component in Component), "pushbackd", ""])
def test_a_log_handler_that_raises_changes_nothing(name: str) -> None:
    told = Told()

    async def scenario(stage: Stage) -> None:
        told.listen()
        await everything(stage)

    undisturbed = play(scenario, OPTIONS, members=replica_set([1]))
    with broken_handler(name):
        for component in Component:
            component.logger.setLevel(logging.DEBUG)
        disturbed = play(scenario, OPTIONS, members=replica_set([1]))
        for component in Component:
            component.logger.setLevel(logging.NOTSET)
    assert [event.kind for event in disturbed.events] == [event.kind for event in undisturbed.events]
    assert [type(told_error) for told_error in told.errors] == [BrokenError]


def fail(*_: Any) -> None:
    raise BrokenError("always")


def run_in_loop(function: Callable[[], None]) -> None:
    async def main() -> None:
        function()

    asyncio.run(main())


def test_the_first_exception_of_each_is_logged_once_by_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    shield = Shield()

    def twice_two_listeners() -> None:
        for name in ("one", "two", "one", "two"):
            shield.call(name, fail)

    run_in_loop(twice_two_listeners)
    assert [record.name for record in caplog.records] == ["asyncio", "asyncio"]
    assert "one of a client raised" in caplog.records[0].getMessage()
    assert caplog.records[0].exc_info is not None


def test_with_a_handler_of_the_programs_own_the_driver_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    shield, told = Shield(), Told()

    def twice() -> None:
        told.listen()
        shield.call("one", fail)
        shield.call("one", fail)

    run_in_loop(twice)
    assert [record.name for record in caplog.records] == ["pushbackd"]
    assert [type(told_error) for told_error in told.errors] == [BrokenError]


def test_without_a_loop_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    Shield().call("one", fail)
    assert [record.name for record in caplog.records] == ["pushbackd"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_what_ends_more_than_a_call_is_let_through(kind: type[BaseException]) -> None:
    def end(*_: Any) -> None:
        raise kind

    with pytest.raises(kind):
        Shield().call("one", end)

"""An adapter in Python says what it has, refuses what it has not, and ends when it is mistaken itself."""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from harness.adapters.base import (
    AdapterLost,
    ClientSpec,
    EntityKind,
    ErrorReport,
    Invocation,
    OperationFailed,
    UnsupportedOperation,
)
from harness.adapters.command import Children, CommandAdapter
from harness.adapters.lines import error_document, error_report
from harness.adapters.serving import camel, snake
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HEAD = """
from harness.adapters.base import ErrorReport, Feature
from harness.adapters.serving import PythonAdapter, serve

class Mine(PythonAdapter):
    name = "mine"
    features = frozenset({Feature.COMMAND_EVENTS})
"""
WITH_CLIENTS = """
    def create_client(self, spec, publish):
        publish("commandStartedEvent", {"commandName": "hello"})
        publish("poolReadyEvent", {})
        return "client"
"""
CLIENT = ClientSpec("mongodb://localhost:1", observe_events=frozenset({"commandStartedEvent"}))


def run(body: str, check: Callable[[CommandAdapter], Awaitable[None]]) -> None:
    async def scenario() -> None:
        command = shlex.join([sys.executable, "-c", f"{HEAD}{body}\nserve(Mine())"])
        async with aclosing(Children(call_seconds=30)) as children:
            await check(await children.adapter(command, SystemClock()))

    asyncio.run(scenario())


def test_a_client_tells_what_it_was_asked_to_observe() -> None:
    async def check(adapter: CommandAdapter) -> None:
        client = await adapter.create_client(CLIENT)
        assert [event.kind for event in adapter.events(client)] == ["commandStartedEvent"]

    run(WITH_CLIENTS, check)


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda it, client: it.create(EntityKind.SESSION, client, {"id": "session"}), "no entity session"),
        (
            lambda it, client: it.call(Invocation(client, EntityKind.CLIENT, "listDatabases")),
            "no listDatabases on a",
        ),
        (lambda it, client: it.session_state(client), "no states of sessions"),
        (lambda it, client: it.advance_cluster_time(client, {}), "no cluster times"),
        (lambda it, client: it.topology(client), "no view of the topology"),
        (lambda it, client: it.retry_tokens(client), "no retry tokens"),
    ],
)
def test_what_a_class_does_not_define_is_refused(
    ask: Callable[[CommandAdapter, Any], Awaitable[Any]], reason: str
) -> None:
    async def check(adapter: CommandAdapter) -> None:
        client = await adapter.create_client(CLIENT)
        with pytest.raises(UnsupportedOperation, match=f"mine: {reason}"):
            await ask(adapter, client)

    run(WITH_CLIENTS, check)


def test_an_error_that_the_class_can_report_is_the_drivers() -> None:
    body = """
    def create_client(self, spec, publish):
        raise ConnectionError("nobody there")
    def report(self, error):
        return ErrorReport(str(error), is_client_error=True)
"""

    async def check(adapter: CommandAdapter) -> None:
        with pytest.raises(OperationFailed, match="nobody there") as raised:
            await adapter.create_client(CLIENT)
        assert raised.value.report.is_client_error

    run(body, check)


def test_a_mistake_of_the_adapters_own_ends_it_with_a_traceback() -> None:
    body = """
    def create_client(self, spec, publish):
        return spec.no_such_field
"""

    async def check(adapter: CommandAdapter) -> None:
        with pytest.raises(AdapterLost, match=r"(?s)exit code 1.*AttributeError: .*no_such_field"):
            await adapter.create_client(CLIENT)

    run(body, check)


def test_what_a_driver_prints_is_no_message() -> None:
    body = """
    def create_client(self, spec, publish):
        print("connecting ...")
        return "client"
"""

    async def check(adapter: CommandAdapter) -> None:
        assert await adapter.create_client(CLIENT)

    run(body, check)


@pytest.mark.parametrize(
    "report",
    [
        ErrorReport("no"),
        ErrorReport("late", is_client_error=True, is_timeout_error=True),
        ErrorReport("taken", code=11000, code_name="DuplicateKey", labels=frozenset({"b", "a"})),
        ErrorReport("partly", response={"ok": 1}, result={"insertedCount": 0}),
        ErrorReport("many", write_errors={0: {"code": 1}}, write_concern_errors=[{"code": 64}]),
    ],
)
def test_an_error_is_read_as_it_was_written(report: ErrorReport) -> None:
    assert error_report(error_document(report)) == report


def test_names_are_spelled_both_ways() -> None:
    assert [snake(name) for name in ("maxTimeMS", "find", "bulkWrite")] == [
        "max_time_ms",
        "find",
        "bulk_write",
    ]
    assert [camel(name) for name in ("upserted_id", "find")] == ["upsertedId", "find"]

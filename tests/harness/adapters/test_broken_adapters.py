"""Every check of the contract of adapters is failed by an adapter that breaks what it checks."""

from __future__ import annotations

import asyncio
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from example_adapters import PYTHON

from driver.editions import EDITIONS
from harness.adapters.base import (
    LOG_MESSAGE,
    SPAN,
    ClientSpec,
    EntityKind,
    ErrorReport,
    Event,
    Feature,
    Handle,
    Invocation,
    OperationFailed,
    SessionState,
    TopologyReport,
    UnsupportedOperation,
)
from harness.adapters.reference.adapter import ReferenceAdapter
from harness.commands.check_adapter import verdict_of
from harness.testing.adapter import AdapterChecks, checks_of
from harness.testing.verdict import Holds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.adapters.deployment import Deployment
    from harness.testing.adapter_basics import Check

CHECKS = {check.__name__: check for check in checks_of(Feature)}
OF_THE_TOKEN_BUCKET = "2026-02-20"
NEWEST = "2026-07-08"


class Honest(ReferenceAdapter):
    """The reference driver's adapter in an edition, of which others break a promise."""

    edition = NEWEST

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment, EDITIONS[self.edition])


def reporting(**fields: Any) -> type[Honest]:
    """Return an adapter whose reports of errors have other fields."""

    class Reporting(Honest):
        async def call(self, invocation: Invocation[Handle]) -> Any:
            try:
                return await super().call(invocation)
            except OperationFailed as failed:
                raise OperationFailed(replace(failed.report, **fields)) from failed

    return Reporting


def answering(operation: str, change: Callable[[Any], Any]) -> type[Honest]:
    """Return an adapter whose results of an operation are changed."""

    class Answering(Honest):
        async def call(self, invocation: Invocation[Handle]) -> Any:
            result = await super().call(invocation)
            return change(result) if invocation.operation == operation else result

    return Answering


def observing(change: Callable[[Event], Event | None]) -> type[Honest]:
    """Return an adapter whose events are changed, or left out for None."""

    class Observing(Honest):
        def events(self, client: Handle) -> Sequence[Event]:
            return [changed for event in super().events(client) if (changed := change(event)) is not None]

    return Observing


def without(kind: str) -> type[Honest]:
    return observing(lambda event: None if event.kind == kind else event)


def making(change: Callable[[ClientSpec], ClientSpec], edition: str = NEWEST) -> type[Honest]:
    """Return an adapter whose clients are made of something else than they should be."""

    class Making(Honest):
        async def create_client(self, spec: ClientSpec) -> Handle:
            return await super().create_client(change(spec))

    Making.edition = edition
    return Making


def in_state(**fields: Any) -> type[Honest]:
    """Return an adapter whose sessions are in another state."""

    class InState(Honest):
        async def session_state(self, session: Handle) -> SessionState:
            return replace(await super().session_state(session), **fields)

    return InState


def having_tokens(number: float) -> type[Honest]:
    class HavingTokens(Honest):
        edition = OF_THE_TOKEN_BUCKET

        async def retry_tokens(self, client: Handle) -> float | None:
            return number

    return HavingTokens


def idle(kind: EntityKind, operation: str) -> type[Honest]:
    """Return an adapter that does nothing where an operation is asked for."""

    class Idle(Honest):
        async def call(self, invocation: Invocation[Handle]) -> Any:
            if (invocation.kind, invocation.operation) == (kind, operation):
                return None
            return await super().call(invocation)

    return Idle


class Nameless(Honest):
    name = ""


class WithMoreThanItDeclares(Honest):
    @property
    def features(self) -> frozenset[Feature]:
        return super().features - {Feature.SESSIONS}


class Sequential(Honest):
    """Serves one call after the other."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment)
        self._turn = asyncio.Lock()

    async def call(self, invocation: Invocation[Handle]) -> Any:
        async with self._turn:
            return await super().call(invocation)


class Agreeing(Honest):
    """Does nothing, and says so of nothing, where the driver has no such thing."""

    async def call(self, invocation: Invocation[Handle]) -> Any:
        try:
            return await super().call(invocation)
        except UnsupportedOperation:
            return None


class ClosingOnce(Honest):
    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment)
        self._gone: list[Handle] = []

    async def close_client(self, client: Handle) -> None:
        if client in self._gone:
            raise OperationFailed(ErrorReport("the client is closed"))
        self._gone.append(client)
        await super().close_client(client)


class Hasty(Honest):
    """Looks for a change as soon as a stream is open."""

    async def call(self, invocation: Invocation[Handle]) -> Any:
        result = await super().call(invocation)
        if invocation.operation == "createChangeStream":
            await super().call(Invocation(result, EntityKind.CHANGE_STREAM, "iterateOnce"))
        return result


class Forgetful(Honest):
    """Tells of the newest event only."""

    def events(self, client: Handle) -> Sequence[Event]:
        return super().events(client)[-1:]


class Thoughtless(Honest):
    """Knows no options of databases and collections."""

    async def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        options = ("databaseOptions", "collectionOptions")
        return await super().create(
            kind, parent, {name: value for name, value in spec.items() if name not in options}
        )


class Pinging(Honest):
    """Connects by a command."""

    async def create_client(self, spec: ClientSpec) -> Handle:
        client = await super().create_client(spec)
        database = await self.create(EntityKind.DATABASE, client, {"databaseName": "admin"})
        ping = {"command": {"ping": 1}, "commandName": "ping"}
        await self.call(Invocation(database, EntityKind.DATABASE, "runCommand", ping))
        return client


class Lazy(Honest):
    """Monitors from the first operation on."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment)
        self._is_called = False

    async def call(self, invocation: Invocation[Handle]) -> Any:
        self._is_called = True
        return await super().call(invocation)

    def events(self, client: Handle) -> Sequence[Event]:
        return super().events(client) if self._is_called else ()


class Ignorant(Honest):
    async def topology(self, client: Handle) -> TopologyReport:
        return TopologyReport("Unknown")


class WithoutTransaction(Honest):
    """Runs the callback of a transaction outside of one."""

    async def call(self, invocation: Invocation[Handle]) -> Any:
        if invocation.operation == "withTransaction":
            return await invocation.arguments["callback"]()
        return await super().call(invocation)


class Forgiving(Honest):
    """Takes a callback that fails by itself for one that did not."""

    async def call(self, invocation: Invocation[Handle]) -> Any:
        try:
            return await super().call(invocation)
        except LookupError:
            return None


def failed_by_its_reply(event: Event) -> Event:
    """Return a success as a failure where the reply has write errors."""
    wrong = event.kind == "commandSucceededEvent" and event.fields["reply"].get("writeErrors")
    return Event("commandFailedEvent", event.fields, event.at) if wrong else event


def changed(kind: str, **fields: Any) -> type[Honest]:
    """Return an adapter whose events of a kind have other fields."""
    return observing(
        lambda event: Event(kind, {**event.fields, **fields}, event.at) if event.kind == kind else event
    )


def numberless(event: Event) -> Event:
    return Event(
        event.kind, {name: each for name, each in event.fields.items() if name != "requestId"}, event.at
    )


def with_option(old: str, new: str, edition: str = NEWEST) -> type[Honest]:
    """Return an adapter that gives its clients another option than it was asked to."""

    def change(spec: ClientSpec) -> ClientSpec:
        return replace(spec, uri=spec.uri.replace(old, new))

    return making(change, edition)


NOT_THE_CLIENTS = reporting(is_client_error=False)

BROKEN: Mapping[str, type[Honest]] = {
    "it_has_a_name_and_features": Nameless,
    "what_is_not_declared_is_refused": WithMoreThanItDeclares,
    "operations_return_what_the_format_describes": answering(
        "updateOne", lambda it: {**it, "upsertedId": None}
    ),
    "bulk_writes_count_and_name_upserts_by_index": answering(
        "bulkWrite", lambda it: {**it, "upsertedIds": {}}
    ),
    "an_error_of_the_server_is_reported_in_its_words": reporting(code=None),
    "a_duplicate_key_is_reported_with_its_code": reporting(message="it failed"),
    "a_bulk_write_that_fails_reports_what_it_did": reporting(result={"insertedCount": 0}),
    "labels_come_from_the_server": reporting(labels=frozenset()),
    "a_broken_connection_is_an_error_of_the_client": NOT_THE_CLIENTS,
    "a_bulk_write_that_lost_its_connection_is_an_error_of_the_client": NOT_THE_CLIENTS,
    "what_exists_is_listed": answering("listIndexes", lambda it: [index["name"] for index in it]),
    "a_list_of_documents_is_all_of_its_batches": answering("find", lambda it: it[:2]),
    "a_call_that_waits_does_not_keep_others_waiting": Sequential,
    "what_the_driver_does_not_have_is_refused_with_a_reason": Agreeing,
    "clients_can_be_closed_twice_and_all_at_once": ClosingOnce,
    "commands_are_observed_in_order_with_their_fields": observing(numberless),
    "concerns_and_preferences_are_those_that_were_asked_for": Thoughtless,
    "what_was_observed_does_not_change_afterwards": Forgetful,
    "a_write_that_fails_by_its_reply_is_a_command_that_succeeded": observing(failed_by_its_reply),
    "connections_go_out_and_come_back": without("connectionCheckedInEvent"),
    "connecting_checks_no_connection_out": Pinging,
    "the_topology_is_known": Ignorant,
    "the_life_of_a_topology_is_observed_in_order": without("topologyClosedEvent"),
    "a_client_monitors_from_its_beginning": Lazy,
    "clients_log_what_they_were_asked_to": changed(LOG_MESSAGE, level="info"),
    "an_operations_span_holds_that_of_its_command": changed(SPAN, parent=None),
    "a_session_has_the_lsid_that_it_sends": in_state(lsid={"id": 1}),
    "sessions_of_two_clients_are_different": in_state(lsid={"id": 1}),
    "a_session_says_in_which_state_its_transaction_is": in_state(transaction="none"),
    "a_callback_runs_here_while_its_transaction_waits_there": WithoutTransaction,
    "an_error_in_a_callback_is_the_drivers_own_again": reporting(code=None),
    "a_callback_that_fails_by_itself_aborts_and_says_why": Forgiving,
    "a_change_stream_gives_the_changes_since_it_was_created": answering(
        "iterateUntilDocumentOrError", lambda it: it["fullDocument"]
    ),
    "a_change_stream_asks_for_no_batch_before_it_is_iterated": Hasty,
    "a_bucket_gives_back_what_was_uploaded": answering("download", lambda it: it[:5]),
    "a_file_is_found_by_the_name_that_it_was_given_last": answering("downloadByName", lambda it: it[:5]),
    "a_bucket_is_dropped_with_both_of_its_collections": idle(EntityKind.BUCKET, "drop"),
    "a_find_cursor_gives_one_document_at_a_time": NOT_THE_CLIENTS,
    "a_command_cursor_is_created_and_drained": idle(EntityKind.COMMAND_CURSOR, "close"),
    "a_client_bulk_write_counts_over_namespaces": answering(
        "clientBulkWrite", lambda it: {**it, "deleteResults": {}}
    ),
    "an_operation_that_takes_too_long_is_a_timeout": reporting(is_timeout_error=False),
    "a_declared_api_version_goes_with_every_command": making(lambda spec: replace(spec, server_api=None)),
    "a_pool_lends_connections_while_it_is_ready": reporting(type=None),
    "a_caller_waits_for_the_pool_and_no_other_call_waits_for_it": Sequential,
    "an_overloaded_server_is_asked_again_while_there_are_tokens": with_option(
        "adaptiveRetries=true", "adaptiveRetries=false", OF_THE_TOKEN_BUCKET
    ),
    "an_overloaded_server_is_asked_again_as_often_as_the_option_says": with_option(
        "maxAdaptiveRetries=1", "maxAdaptiveRetries=0"
    ),
    "a_jitter_of_1_waits_as_long_as_a_backoff_may_and_one_of_0_not_at_all": making(
        lambda spec: replace(spec, jitter=0)
    ),
    "backoffs_with_a_seed_are_random": making(lambda spec: replace(spec, jitter_seed=17)),
    "tokens_are_spent_by_retries_and_returned_by_successes": having_tokens(1000.0),
    "a_client_without_a_bucket_has_no_tokens": having_tokens(0.0),
}
"""For each check, an adapter that breaks what it checks."""


def verdict(adapter: type[Honest], check: Check) -> Holds:
    with AdapterChecks(adapter, virtual=True) as running:
        return verdict_of(running, check).holds


def test_every_check_has_an_adapter_that_breaks_it() -> None:
    assert BROKEN.keys() == CHECKS.keys()


@pytest.mark.parametrize("name", BROKEN)
def test_a_check_fails_for_the_adapter_that_breaks_it_and_for_no_honest_one(name: str) -> None:
    class AsItShouldBe(Honest):
        edition = BROKEN[name].edition

    assert verdict(AsItShouldBe, CHECKS[name]) is Holds.OK
    assert verdict(BROKEN[name], CHECKS[name]) is Holds.FAILED


@pytest.mark.parametrize(
    "broken",
    [
        with_option("adaptiveRetries=true", "adaptiveRetries=true&retryReads=false", OF_THE_TOKEN_BUCKET),
        with_option("adaptiveRetries=true", "adaptiveRetries=false", OF_THE_TOKEN_BUCKET),
    ],
    ids=["no retries", "no tokens"],
)
def test_an_adapter_passes_neither_without_retries_nor_without_tokens(broken: type[Honest]) -> None:
    check = CHECKS["an_overloaded_server_is_asked_again_while_there_are_tokens"]
    assert verdict(broken, check) is Holds.FAILED


def leaving_out(kind: EntityKind, *names: str) -> type[Honest]:
    """Return an adapter that makes databases or collections without some of their options."""
    field = f"{kind.value}Options"

    class LeavingOut(Honest):
        async def create(self, made: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
            options = {name: each for name, each in spec.get(field, {}).items() if name not in names}
            return await super().create(made, parent, {**spec, field: options} if field in spec else spec)

    return LeavingOut


@pytest.mark.parametrize(
    "broken",
    [
        leaving_out(EntityKind.COLLECTION, "writeConcern"),
        leaving_out(EntityKind.DATABASE, "readConcern"),
        leaving_out(EntityKind.DATABASE, "readPreference"),
    ],
    ids=["write concern", "read concern", "read preference"],
)
def test_an_adapter_that_leaves_a_concern_or_preference_out_does_not_pass(broken: type[Honest]) -> None:
    check = CHECKS["concerns_and_preferences_are_those_that_were_asked_for"]
    assert verdict(broken, check) is Holds.FAILED


IN_TURN = """
import runpy, sys, threading, types
from harness.adapters import serving

class InTurn(threading.Thread):
    def start(self):
        self.run()

serving.threading = types.SimpleNamespace(Thread=InTurn, Lock=threading.Lock)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("in_turn", [False, True], ids=["side by side", "in turn"])
def test_a_process_that_serves_one_request_after_the_other_keeps_others_waiting(*, in_turn: bool) -> None:
    program = ("-c", IN_TURN, PYTHON.words[1]) if in_turn else PYTHON.words[1:]
    check = CHECKS["a_call_that_waits_does_not_keep_others_waiting"]
    with AdapterChecks(f"cmd:{shlex.join([sys.executable, *program])}") as running:
        assert verdict_of(running, check).holds is (Holds.FAILED if in_turn else Holds.OK)

"""Oracles of command monitoring: every attempt has its events, and they tell what happened on the wire.

Command Logging and Monitoring; Retryable Writes and Client Backpressure: Command Monitoring. Servers say how
many attempts there were, the client what it told of them. More events than attempts are no breach: a command
may be told of whose message never arrived. Sensitive commands and greetings are left out, as drivers may
leave them out, and so are getMore and killCursors where the id of an operation is compared.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Final

from harness.unified.server_side.oracles.permits import is_network_error
from harness.unified.server_side.oracles.trace import ENDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.adapters.base import Event
    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.oracles.trace import Trace, TracedClient, TracedOperation

STARTED: Final = "commandStartedEvent"
SUCCEEDED: Final = "commandSucceededEvent"
FAILED: Final = "commandFailedEvent"


def every_command_that_started_ends(trace: Trace) -> Iterator[str]:
    """Command Logging and Monitoring: Guarantees; Retryable Writes: Command Monitoring."""
    for client in trace.clients:
        # Several by one id: a driver may number the requests of each thread by itself.
        open_: dict[object, list[Event]] = defaultdict(list)
        for event in client.of_kind(STARTED, SUCCEEDED, FAILED):
            key = event.fields.get("requestId")
            if event.kind == STARTED:
                open_[key].append(event)
            elif open_[key]:
                open_[key].pop(0)
            else:
                yield (
                    f"{client.name} told the end of"
                    f" {event.fields.get('commandName')} {key}, and not its start"
                )
        # While an operation of the client runs still, the end of a command may be yet to come.
        busy = any(each.step.ended is None for each in trace.operations if each.client is client)
        for event in chain.from_iterable(open_.values()):
            if not busy and _is_over(trace, client, event):
                yield f"{client.name} told the start of {event.fields.get('commandName')}, and not its end"


def _is_over(trace: Trace, client: TracedClient, event: Event) -> bool:
    """Return whether the operation of a command has ended: then the end of the command was due."""
    return any(each.client is client and each.began < event.seq < each.ended for each in trace.operations)


def every_attempt_has_events(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Command Monitoring; Client Backpressure: Command Monitoring."""
    for operation, command in trace.commands():
        if not operation.is_alone or command.name in _SECRET:
            continue
        told: dict[str, list[Event]] = {STARTED: [], SUCCEEDED: [], FAILED: []}
        for event in operation.client.during(operation, STARTED, SUCCEEDED, FAILED):
            if event.fields.get("commandName") == command.name:
                told[event.kind].append(event)
        # All commands of a name together: events name no attempt, so they are only counted.
        alike = [each for each in operation.commands if each.name == command.name]
        sent = sum(len(each.attempts) for each in alike)
        if len(told[STARTED]) < sent:
            yield f"{operation} sent {command.name} {sent} times, and told of {len(told[STARTED])}"
        numbers = [event.fields.get("requestId") for event in told[STARTED]]
        if len(set(numbers)) != len(numbers):
            yield f"{operation} told of several attempts of {command.name} with one requestId"
        failed = sum(_fails(attempt) for each in alike for attempt in each.attempts)
        if len(told[FAILED]) < failed and operation.step.ended is not None and not operation.is_timed:
            yield (
                f"{failed} attempts of {command.name} of {operation}"
                f" failed, and {len(told[FAILED])} were told of"
            )


def attempts_share_an_operation_id(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Command Monitoring (operationId). Drivers that tell none are not asked."""
    owners: dict[object, TracedOperation] = {}
    for operation, command in trace.commands():
        alike = [each for each in operation.commands if each.name == command.name]
        if not operation.is_alone or len(alike) > 1 or command.name in _SECRET | _OF_CURSORS:
            continue
        if operation.name == "withTransaction" and command.name in ENDS:
            continue  # it may commit again, which is an operation of its own about the same transaction
        started = operation.client.during(operation, STARTED)
        told = [event for event in started if event.fields.get("commandName") == command.name]
        ids = {event.fields.get("operationId") for event in told} - {None}
        if len(ids) > 1:
            yield f"{operation} told of its attempts of {command.name} with {len(ids)} operationIds"
        for number in ids:
            owner = owners.setdefault((operation.client.name, number), operation)
            if owner is not operation:
                yield f"{operation} told of {command.name} with the operationId of {owner} before it"


def _fails(attempt: JudgedAttempt) -> bool:
    """Return whether an attempt is a failed command: one with a write concern error has succeeded."""
    reply = attempt.request.reply
    return is_network_error(attempt) or reply is None or not reply.get("ok")


_OF_CURSORS: Final = frozenset({"getMore", "killCursors"})
"""Commands that may have the operationId of the one that opened the cursor."""

_SECRET: Final = frozenset({"saslStart", "saslContinue", "hello", "ping", "configureFailPoint"})

"""Rules about events: what can be seen at all, and what only luck puts in order.

Unified Test Format: expectedEventsForClient, Command monitoring: Security.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.lint.findings import LintRule, Problem
from harness.unified.observation import SENSITIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.lint.scenario import LintedScenario, NamedEntity, Test
    from mongowire.documents.marks import Marked


def _never_observed(scenario: LintedScenario) -> Iterator[Problem]:
    """Find events that cannot be seen, because the client does not observe or even hides them.

    A count of 0 and a list of no events are met by this, and let pass.
    """
    for test in scenario.tests:
        for client, event in _expected(test):
            why = _reason_hidden(client, event) if client else None
            if why:
                yield Problem(event.location, *why)


def _expected(test: Test) -> Iterator[tuple[NamedEntity | None, Marked]]:
    """Yield every event that a case wants to see, with the client that it is looked for on."""
    expectations = test.item.get("expectEvents")
    for expectation in expectations.items() if expectations else ():
        for event in expectation["events"].items():
            yield test.entities.get(expectation.value["client"]), event
    for step in test.steps:
        arguments = step.arguments
        awaited = step.name == "waitForEvent"
        counted = step.name == "assertEventCount" and arguments.get("count") != 0
        if (awaited or counted) and "client" in arguments and "event" in arguments:
            yield test.entities.get(str(arguments["client"])), step.item["arguments"]["event"]


def _reason_hidden(client: NamedEntity, event: Marked) -> tuple[str, str] | None:
    """Return why a client's scenario cannot see an event, and what to do about it."""
    (kind,) = event.value
    body = client.item.value
    if kind not in body.get("observeEvents", ()):
        return f"client {client.name!r} does not observe {kind}", f"add {kind} to its observeEvents"
    command = event.value[kind].get("commandName")
    if command in body.get("ignoreCommandMonitoringEvents", ()):
        return f"client {client.name!r} ignores the events of {command}", "expect it not, or do not ignore it"
    secret = isinstance(command, str) and command.lower() in SENSITIVE
    if secret and not body.get("observeSensitiveCommands"):
        return f"{command} is a sensitive command, which is not observed", "set observeSensitiveCommands"
    return None


def _racy_order(scenario: LintedScenario) -> Iterator[Problem]:
    """Find lists of events on a client whose operations overlap: any order may come, and one is expected."""
    for test in scenario.tests:
        racing = racing_clients(test)
        expectations = test.item.get("expectEvents") if racing else None
        for expectation in expectations.items() if expectations else ():
            client = expectation.value["client"]
            several = len(expectation.value["events"]) > 1
            if several and client in racing and not expectation.value.get("ignoreExtraEvents"):
                yield Problem(
                    expectation.location,
                    f"operations run side by side on client {client!r}, in no order",
                    "set ignoreExtraEvents, or wait for a thread or an event between them",
                )


def racing_clients(test: Test) -> set[str]:
    """Return the clients on which an operation begins while a thread may still be at work."""
    racing: set[str] = set()
    busy: dict[str, set[str]] = {}
    for step in test.steps:
        if step.name == "waitForThread":
            for threads in busy.values():
                threads.discard(str(step.arguments.get("thread")))
        # An event that is waited for puts an order between what was before it and what comes, on its client.
        elif step.name == "waitForEvent":
            busy.pop(str(step.arguments.get("client")), None)
        elif step.target is not None:
            client = step.target.client or step.target.name
            threads = busy.setdefault(client, set())
            if threads - {step.thread}:
                racing.add(client)
            if step.thread:
                threads.add(step.thread)
    return racing


def _timed_wait(scenario: LintedScenario) -> Iterator[Problem]:
    """Find waits for time to pass: too short on a slow machine, and too long on all others."""
    for step in scenario.steps:
        if step.on_runner and step.name == "wait":
            yield Problem(
                step.item.location,
                f"waits {step.arguments.get('ms')} ms, whatever happens meanwhile",
                "waitForEvent waits for what is meant",
            )


RULES: Final = (
    LintRule("unobserved-event", "A client observes the events that are expected of it.", _never_observed),
    LintRule("racy-events", "Something decides the order of the events that are expected.", _racy_order),
    LintRule("timed-wait", "A case waits for what happens, not for time to pass.", _timed_wait),
)

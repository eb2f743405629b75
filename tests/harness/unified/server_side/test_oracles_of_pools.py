"""Oracles of pools, each with a story that keeps its rule and one that breaks it.

A story is what a pool tells, `instant word …` each: `up` it is ready, `clear` it is cleared, `clear!` with
what is in use, `shut` it is closed, `ask` a check-out begins, `make` and `made` a connection, `lend` it after
milliseconds, `back` it comes, `close` it for a reason, `fail` a check-out for a reason after milliseconds.
Beside it discovery tells: its server `is` of a type, the topology is `over`; a `check` begins, or one that
waits for `news`, and is `heard` or `unheard` after milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.adapters.base import Event, Feature
from harness.adapters.deployment import Topology
from harness.unified.server_side.oracles import ORACLES, monitors
from harness.unified.server_side.oracles import pool_life as kinds
from harness.unified.server_side.oracles.pool_events import DESCRIBED, TOPOLOGY_CLOSED
from harness.unified.server_side.oracles.trace import Trace, TracedClient
from harness.unified.server_side.rules import EDITIONS, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ADDRESS: Final = "localhost:40001"
BEGIN: Final = "0 pool; 0 up; "
FIRST: Final = "1 ask; 1 make 1; 1.1 made 1 100; 1.1 lend 1 100; "
"""A first check-out, for which a connection is made."""

WORDS: Final[Mapping[str, Callable[[list[str]], tuple[str, dict[str, Any]]]]] = {
    "pool": lambda _: (kinds.POOL_CREATED, {}),
    "up": lambda _: (kinds.POOL_READY, {}),
    "clear": lambda _: (kinds.POOL_CLEARED, {"interruptInUseConnections": False}),
    "clear!": lambda _: (kinds.POOL_CLEARED, {"interruptInUseConnections": True}),
    "shut": lambda _: (kinds.POOL_CLOSED, {}),
    "ask": lambda _: (kinds.CHECK_OUT_STARTED, {}),
    "make": lambda words: (kinds.CREATED, {"connectionId": int(words[0])}),
    "made": lambda words: (kinds.READY, {"connectionId": int(words[0]), "durationMS": float(words[1])}),
    "lend": lambda words: (kinds.CHECKED_OUT, {"connectionId": int(words[0]), "durationMS": float(words[1])}),
    "back": lambda words: (kinds.CHECKED_IN, {"connectionId": int(words[0])}),
    "close": lambda words: (kinds.CLOSED, {"connectionId": int(words[0]), "reason": words[1]}),
    "is": lambda words: (DESCRIBED, {"newDescription": {"address": ADDRESS, "type": words[0]}}),
    "over": lambda _: (TOPOLOGY_CLOSED, {}),
    "check": lambda _: (monitors.STARTED, {"awaited": False}),
    "news": lambda _: (monitors.STARTED, {"awaited": True}),
    "heard": lambda words: (monitors.SUCCEEDED, {"awaited": False, "durationMS": float(words[0])}),
    "told": lambda words: (monitors.SUCCEEDED, {"awaited": True, "durationMS": float(words[0])}),
    "unheard": lambda words: (monitors.FAILED, {"awaited": False, "durationMS": float(words[0])}),
    "fail": lambda words: (kinds.CHECK_OUT_FAILED, {"reason": words[0], "durationMS": float(words[1])}),
}


@dataclass(frozen=True)
class Rule:
    """An oracle with a story that keeps its rule, and those that break it."""

    oracle: str
    kept: str
    broken: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


RULES: Final = [
    Rule(
        "pool-grammar",
        FIRST + "2 back 1; 2.1 ask; 2.1 lend 1 0; 3 back 1",
        (
            "1 ask; 1 lend 1 0",  # a connection that nobody made
            FIRST + "2 ask; 2 lend 1 0",  # one that is in use
            FIRST + "2 close 1 error",
            FIRST + "2 back 1; 2 lend 1 0",  # nobody asked
            FIRST + "2 back 1; 2 clear; 2 clear",
            "1 up",
            FIRST + "2 clear; 2 back 1; 2.1 up; 2.2 ask; 2.2 lend 1 0",  # one that is stale
            "1 ask; 1 make 1; 1 ask; 1 make 2; 1 ask; 1 make 3",  # three at once
        ),
    ),
    Rule(
        "closed-reason",
        FIRST + "2 back 1; 2.1 close 1 idle; 2.2 ask",
        (FIRST + "2 back 1; 2.05 close 1 idle", FIRST + "2 back 1; 2 close 1 stale"),
        {"maxIdleTimeMS": 100},
    ),
    Rule(
        "closed-reason", FIRST + "2 clear; 2 back 1; 2 close 1 stale", (FIRST + "2 back 1; 9 close 1 idle",)
    ),
    Rule(
        "check-out-reason",
        FIRST + "2 ask; 2.1 fail timeout 100",
        (FIRST + "2 ask; 2 shut; 2 fail timeout 0", FIRST + "2 ask; 2 fail poolClosed 0"),
        {"waitQueueTimeoutMS": 100, "maxPoolSize": 1},
    ),
    Rule(
        "check-out-cause",
        "1 ask; 1 make 1; 1.1 close 1 error; 1.1 fail connectionError 100",
        (
            FIRST + "2 ask; 2.1 fail connectionError 100",
            FIRST + "2 ask; 2.1 fail connectionError 100; 2.1 clear",
        ),
    ),
    Rule("numbers", FIRST + "2 ask; 2 make 2", ("1 ask; 1 make 0", FIRST + "2 ask; 2 make 3")),
    Rule(
        "durations",
        FIRST + "2 ask; 2.5 fail timeout 500",
        (
            "1 ask; 1 make 1; 1.1 made 1 0; 1.1 lend 1 100",
            "1 ask; 1 make 1; 1.1 made 1 100; 1.1 lend 1 0",
            FIRST + "2 ask; 2.5 fail timeout 0",
        ),
    ),
    Rule("filled", FIRST + "2 ask; 2 make 2; 2.1 made 2 100", (FIRST,), {"minPoolSize": 2}),
    Rule(
        "not-overfilled",
        FIRST + "2 back 1; 2.1 ask; 2.1 lend 1 0",
        (FIRST + "2 make 2", FIRST + "2 back 1; 2.1 ask; 2.1 make 2"),
    ),
    Rule(
        "served",
        FIRST + "2 ask; 2 make 2; 2.1 made 2 100; 2.1 lend 2 100",
        (FIRST + "2 ask; 2.1 make 2", FIRST + "2 back 1; 2.1 ask; 2.2 lend 1 100"),
    ),
    Rule(
        "closing",
        FIRST + "2 back 1; 3 close 1 poolClosed; 3 shut",
        (FIRST + "2 back 1; 3 shut; 3 close 1 poolClosed",),
    ),
    Rule(
        "stale-check-in",
        FIRST + "2 clear; 2.1 back 1; 2.1 close 1 stale; 3 up",
        (FIRST + "2 clear; 2.1 back 1; 3 up", FIRST + "2 shut; 2.1 back 1; 2.2 ask"),
    ),
    Rule(
        "fair",
        FIRST + "2 ask; 2.1 ask; 3 back 1; 3 lend 1 1000; 4 back 1; 4 lend 1 1900",
        (FIRST + "2 ask; 2.1 ask; 3 back 1; 3 lend 1 900; 4 back 1; 4 lend 1 2000",),
        {"maxPoolSize": 1},
    ),
    Rule(
        "wait-limit",
        FIRST + "2 ask; 2.1 fail timeout 100; 3 ask; 3.05 back 1; 3.05 lend 1 50",
        (
            FIRST + "2 ask; 2.5 fail timeout 50",
            FIRST + "2 ask; 2.5 back 1; 2.5 lend 1 500",
            FIRST + "2 clear; 2 ask; 2.1 up",  # it waits in a pool that is not ready
            "1 ask; 1 make 1; 1.1 fail timeout 100",  # its connection is being established
        ),
        {"waitQueueTimeoutMS": 100, "maxPoolSize": 1},
    ),
    Rule(
        "last-used",
        FIRST + "2 ask; 2 make 2; 2.1 made 2 100; 2.1 lend 2 100; 3 back 1; 4 back 2; 5 ask; 5 lend 2 0",
        (FIRST + "2 ask; 2 make 2; 2.1 made 2 100; 2.1 lend 2 100; 3 back 1; 4 back 2; 5 ask; 5 lend 1 0",),
    ),
    Rule("swept", FIRST + "2 back 1; 3 clear; 3 close 1 stale", (FIRST + "2 back 1; 3 clear",)),
    Rule(
        "swept",
        FIRST + "2 back 1; 2.1 close 1 idle",
        (FIRST + "2 back 1",),
        {"maxIdleTimeMS": 100},
    ),
    Rule(
        "failed-handshake",
        "1 ask; 1 make 1; 1.1 close 1 error; 1.1 fail connectionError 100; 2 ask",
        ("1 ask; 1 make 1; 1.1 close 1 error; 2 ask",),
    ),
    Rule(
        "interrupted",
        FIRST + "2 clear!; 2 back 1; 2 close 1 stale",
        (FIRST + "2 clear!; 5 back 1; 5 close 1 stale", FIRST + "2 clear!", "1 ask; 1 make 1; 2 clear!"),
    ),
    Rule(
        "server-first",
        "1 is RSPrimary; 2 is Unknown; 2 clear; 3 up; 3 is RSPrimary; 4 shut; 4 over",
        (
            "1 is RSPrimary; 2 clear; 2 is Unknown",  # it can still be selected
            "1 is RSPrimary; 2 is Unknown; 2 clear; 3 is RSPrimary; 3 up",  # its pool is paused
            "1 is RSPrimary; 4 over; 4 shut",
        ),
    ),
    Rule("interrupts", FIRST + "2 clear", (FIRST + "2 clear!",)),
    Rule(
        "heartbeats",
        "1 check; 1.1 heard 100; 1.1 news; 2.1 told 1000; 2.1 news",
        (
            "1 news; 1.1 told 100",  # the first of all
            "1 check; 1.1 heard 0",
            "1 check; 1.1 told 100",
            "1 check; 1.1 heard 100; 1.2 heard 100",
            "1 check; 1.1 unheard 100; 2 check; 2.1 heard 100; 3 check; 4 check",
        ),
    ),
    Rule(
        "check-pace",
        "1 check; 1.1 heard 100; 3.1 check; 3.2 unheard 100;"
        " 3.2 check; 3.3 unheard 100; 3.8 check; 3.9 heard 100",
        (
            "1 check; 1.1 heard 100; 1.2 check; 1.3 heard 100",
            "1 check; 1.1 heard 100; 3.2 check; 3.3 heard 100",
            "1 check; 1.1 heard 100; 3.1 check; 3.2 unheard 100; 3.7 check; 3.8 heard 100",
            "1 check; 1.1 unheard 100; 1.1 check; 1.2 heard 100",
        ),
        {"heartbeatFrequencyMS": 2000},
    ),
    Rule(
        "check-limit",
        "1 check; 1.1 heard 100; 1.1 news; 3.6 unheard 2500;"
        " 3.6 check; 4 heard 400; 5 check; 5.5 unheard 500",
        (
            "1 check; 1.1 heard 100; 1.1 news; 4.1 unheard 3000",
            "1 check; 1.1 heard 100; 3.1 check; 3.8 unheard 700",
            "1 check; 2.1 unheard 1100",
        ),
        {"heartbeatFrequencyMS": 2000, "connectTimeoutMS": 500},
    ),
    Rule(
        "check-result",
        "1 is RSPrimary; 2 check; 2.1 unheard 100; 2.1 is Unknown; 2.1 clear; 2.1 check; 2.2 heard 100",
        (
            "1 is RSPrimary; 2 check; 2.1 unheard 100; 2.1 clear; 2.1 check",
            "1 is RSPrimary; 2 check; 2.1 unheard 100; 2.1 is Unknown; 2.1 check",
        ),
    ),
]


def breaches(rule: Rule, story: str, *, exact: bool = True) -> list[str]:
    """Return what an oracle says of a story, which ends after ten seconds."""
    events = []
    for told in filter(None, map(str.strip, (BEGIN + story).split(";"))):
        at, word, *rest = told.split()
        kind, fields = WORDS[word](rest)
        events.append(Event(kind, {"address": ADDRESS, **fields}, float(at)))
    trace = Trace(
        edition=EDITIONS["2026-02-20"],
        timing=Timing(0.001 if exact else None),
        topology=Topology.SINGLE,
        version=(8, 2, 0),
        features=frozenset(Feature),
        operations=(),
        clients=(TracedClient("client", "app", rule.options, tuple(events)),),
        connections=(),
        ended=10.0,
    )
    return list(ORACLES[rule.oracle].breaches(trace))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.oracle)
def test_an_oracle_says_nothing_of_a_pool_that_keeps_its_rule(rule: Rule) -> None:
    assert breaches(rule, rule.kept) == []
    assert breaches(rule, rule.kept, exact=False) == []


@pytest.mark.parametrize(
    ("rule", "story"),
    [(rule, story) for rule in RULES for story in rule.broken],
    ids=lambda each: each.oracle if isinstance(each, Rule) else each,
)
def test_an_oracle_names_a_pool_that_breaks_its_rule(rule: Rule, story: str) -> None:
    assert breaches(rule, story) != []

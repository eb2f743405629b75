"""Oracles of what servers see of connections, each with a wire that keeps its rule and some that break it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from bson import ObjectId
from written_wire import Wire

from harness.adapters.base import Feature
from harness.adapters.deployment import Topology
from harness.unified.server_side.oracles import ORACLES
from harness.unified.server_side.oracles.making import unanswered_greetings
from harness.unified.server_side.oracles.trace import Trace, TracedClient
from harness.unified.server_side.rules import EDITIONS, Timing
from mongowire.compression import Compressor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Write = Callable[[Wire], object]

ZLIB: Final = Compressor.ZLIB
VERSION: Final = {"processId": ObjectId("0123456789abcdef01234567"), "counter": 6}
OTHER: Final = {**VERSION, "counter": 5}


def monitor(wire: Wire) -> int:
    """Greet as a monitor does whose server can stream."""
    number = wire.accept()
    wire.ask(number, {"hello": 1, "client": {"application": {"name": "app"}}})
    wire.answer(number, topologyVersion=VERSION)
    return number


def awaits(wire: Wire, *, streams: bool = True, **fields: Any) -> None:
    """Ask for news on a new connection, and be told twice."""
    number = monitor(wire)
    wire.wait(1)
    asked = {"hello": 1, "topologyVersion": VERSION, "maxAwaitTimeMS": 500, **fields}
    wire.ask(number, {name: value for name, value in asked.items() if value is not None}, streams=streams)
    for _ in range(2):
        wire.answer(number, more=True, topologyVersion=VERSION)


def checks(wire: Wire, *gaps: float, times: int = 1, **fields: Any) -> None:
    """Say hello again and again, on several connections at once."""
    numbers = [monitor(wire) for _ in range(times)]
    for gap in gaps:
        wire.wait(gap)
        for number in numbers:
            wire.say(number, "hello", **fields)


def greets(wire: Wire, size: int) -> None:
    """Greet with metadata of some bytes, and use the connection."""
    number = wire.accept()
    wire.ask(number, {"hello": 1, "client": {"application": {"name": "app"}, "platform": "p" * (size - 60)}})
    wire.answer(number)
    wire.say(number, "find")


def packs(
    wire: Wire, name: str, *, agreed: tuple[str, ...] = ("zlib",), wanted: tuple[str, ...] = ("zlib",)
) -> None:
    """Send a compressed command on a new connection."""
    number = wire.accept()
    wire.ask(number, {"hello": 1, "client": {"application": {"name": "app"}}, "compression": list(wanted)})
    wire.answer(number, compression=list(agreed))
    wire.ask(number, {name: 1}, compressor=ZLIB)
    wire.answer(number)


def greets_otherwise(wire: Wire) -> None:
    """Say on a second connection what was not said on the first."""
    greets(wire, 100)
    greets(wire, 101)


def measures(wire: Wire, *gaps: float, anew: bool = False) -> None:
    """Have a connection wait for news, and measure round trips beside it, on a new one each if `anew`."""
    news = monitor(wire)
    wire.ask(news, {"hello": 1, "topologyVersion": VERSION, "maxAwaitTimeMS": 500}, streams=True)
    number = monitor(wire)
    for gap in gaps:
        wire.wait(gap)
        if anew:
            wire.close(number)
            number = monitor(wire)
        else:
            wire.say(number, "hello")


def refused(wire: Wire, *, goes_on: bool) -> None:
    """Check once more after a check that was refused, on the same connection or on another."""
    number = monitor(wire)
    wire.ask(number, {"hello": 1})
    wire.answer(number, ok=0, code=8000)
    if not goes_on:
        wire.close(number)
        number = monitor(wire)
    wire.say(number, "hello")


def loses(wire: Wire, *, cancels: bool, before: str = "find", twice: bool = False) -> None:
    """Lose a connection of a pool under a request while a check waits for news."""
    lost = [wire.accept() for _ in range(1 + twice)]
    news = monitor(wire)
    wire.ask(news, {"hello": 1, "topologyVersion": VERSION, "maxAwaitTimeMS": 500}, streams=True)
    for number in lost:
        wire.ask(number, {"hello": 1, "client": {"application": {"name": "app"}}, "loadBalanced": False})
        if before != "hello":
            wire.answer(number)
            wire.ask(number, {before: 1})
    wire.close(lost[0], "server")
    if cancels:
        wire.close(news)
    for number in lost[1:]:
        news = monitor(wire)
        wire.ask(news, {"hello": 1, "topologyVersion": VERSION, "maxAwaitTimeMS": 500}, streams=True)
        wire.close(number, "server")
    wire.wait(1)
    wire.accept()


@dataclass(frozen=True)
class Seen:
    """An oracle with a wire that keeps its rule, and those that break it."""

    oracle: str
    kept: Write
    broken: tuple[Write, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


WIRES: Final = [
    Seen(
        "monitor-hellos",
        awaits,
        (
            lambda wire: awaits(wire, streams=False),
            lambda wire: awaits(wire, maxAwaitTimeMS=10_000),
            lambda wire: awaits(wire, maxAwaitTimeMS=None),
            lambda wire: awaits(wire, topologyVersion=OTHER),
            lambda wire: awaits(wire, client={"application": {"name": "app"}}),
            lambda wire: awaits(wire, apiVersion="1"),
        ),
        {"heartbeatFrequencyMS": 500},
    ),
    Seen("monitor-hellos", lambda wire: checks(wire, 1), (awaits,), {"serverMonitoringMode": "poll"}),
    Seen(
        "monitor-connections", lambda wire: checks(wire, 1, times=2), (lambda wire: checks(wire, 1, times=3),)
    ),
    Seen(
        "round-trips",
        lambda wire: measures(wire, 0.4, 0.4, 0.4),
        (
            lambda wire: measures(wire, 0.4, 0.6, 0.4),
            lambda wire: measures(wire, 0.4, 0.4, 0.4, 0.4, anew=True),
        ),
        {"heartbeatFrequencyMS": 500},
    ),
    Seen(
        "refused-check",
        lambda wire: refused(wire, goes_on=False),
        (lambda wire: refused(wire, goes_on=True),),
        {"serverMonitoringMode": "poll"},
    ),
    Seen(
        "cancelled-check",
        lambda wire: loses(wire, cancels=True),
        (
            lambda wire: loses(wire, cancels=False),
            lambda wire: loses(wire, cancels=False, before="saslContinue"),
        ),
    ),
    # A greeting that is lost is overload, and a second error of one outage is no news.
    Seen("cancelled-check", lambda wire: loses(wire, cancels=False, before="hello"), ()),
    Seen("cancelled-check", lambda wire: loses(wire, cancels=True, twice=True), ()),
    Seen("check-pace", lambda wire: checks(wire, 0.6, 0.6), (lambda wire: checks(wire, 0.6, 0.3),)),
    Seen("metadata", lambda wire: greets(wire, 500), (lambda wire: greets(wire, 600), greets_otherwise)),
    Seen(
        "compression",
        lambda wire: packs(wire, "find"),
        (
            lambda wire: packs(wire, "find", agreed=()),
            lambda wire: packs(wire, "find", agreed=("zlib", "snappy"), wanted=("snappy", "zlib")),
            lambda wire: packs(wire, "saslContinue"),
            lambda wire: packs(wire, "createUser"),
        ),
    ),
]


def breaches(seen: Seen, write: Write) -> list[str]:
    """Return what an oracle says of a wire."""
    wire = Wire()
    write(wire)
    trace = Trace(
        edition=EDITIONS["2026-02-20"],
        timing=Timing(0.001),
        topology=Topology.REPLICA_SET,
        version=(8, 2, 0),
        features=frozenset(Feature),
        operations=(),
        clients=(TracedClient("client", "app", seen.options),),
        connections=tuple(wire.seen()),
        ended=wire.now,
    )
    return list(ORACLES[seen.oracle].breaches(trace))


@pytest.mark.parametrize("seen", WIRES, ids=lambda each: each.oracle)
def test_an_oracle_says_nothing_of_connections_that_keep_its_rule(seen: Seen) -> None:
    assert breaches(seen, seen.kept) == []


@pytest.mark.parametrize(
    ("seen", "write"),
    [(seen, write) for seen in WIRES for write in seen.broken],
    ids=lambda each: each.oracle if isinstance(each, Seen) else "",
)
def test_an_oracle_names_connections_that_break_its_rule(seen: Seen, write: Write) -> None:
    assert breaches(seen, write) != []


@pytest.mark.parametrize(
    ("waits", "by", "counts"),
    [(True, "client", False), (True, "the server stops", True), (False, "client", True)],
    ids=["a check that its monitor cancels", "a check that was lost", "a greeting that was given up"],
)
def test_who_cancels_a_check_of_its_own_leaves_no_greeting_unanswered(
    by: str, *, waits: bool, counts: bool
) -> None:
    wire = Wire()
    number = monitor(wire)
    wire.ask(number, {"hello": 1} | ({"topologyVersion": VERSION, "maxAwaitTimeMS": 500} if waits else {}))
    wire.close(number, by)
    assert bool(unanswered_greetings(wire.seen())) is counts

"""From a seed to a schedule: everything is drawn from one sequence of random numbers, and nothing else.

The seeds that are recorded (failures, wrong drivers that an oracle hears) mean their schedules, so every
draw counts: one more, one fewer or one in another order gives other schedules to all seeds that come by it.
What draws from a `Random` of its own, as the concerns do, can change without that. Python seeds from a text
without its hash seed, so a seed means the same in every process.

A kind of case (`_KINDS`) is a function that yields operations, and may change the options of the client,
where these would keep it from what it is for. Times are in milliseconds, as the format has them.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.deployment import Topology
from harness.authoring.swarm import faults
from harness.authoring.swarm.schedule import Step, SwarmSchedule
from harness.authoring.swarm.work import (
    CLIENT,
    OTHERS,
    READS,
    SESSION,
    WRITES,
    Numbers,
    call,
    commands_of,
    left_cursor,
    opened_cursor,
    pause,
    repeat,
    transaction,
    within,
)
from harness.deployments.targets import has_auth, profile_of, topology_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.authoring.swarm.work import Operation


# Cases of several threads: they wait for one another's connections, and something goes wrong meanwhile.
#
# What makes a server slow is a rule, so that a fail point may fail something else at the same time.


THREADS: Final = 5
"""Threads that a case may have."""

PINNED: Final = 3
"""Connections that a pool needs behind a load balancer, where a cursor and a transaction keep one each."""


def on_thread(number: int, operation: Operation) -> Operation:
    """Return the step that has a thread run an operation."""
    arguments = {"thread": f"thread{number}", "operation": operation}
    return {"name": "runOnThread", "object": "testRunner", "arguments": arguments}


def side_by_side(numbers: Numbers, target: str, options: dict[str, Any]) -> Iterator[Operation]:
    """Yield operations of threads in a small pool, while the server is slow and something disturbs them."""
    dice = numbers.dice
    _small_pool(numbers, target, options)
    if dice.random() < 0.6:  # noqa: PLR2004
        yield call("find", filter={"_id": numbers.held()})
    for round_ in range(dice.randint(1, 3)):
        yield faults.slow(["find"], dice.choice((20, 60, 100, 300)), times=dice.choice((1, 3, 6, 12)))
        disturbances = list(_disturbed(numbers))
        threads = dice.randint(2, THREADS)
        spread = dice.random() < 0.6  # noqa: PLR2004 - they begin one after the other, or all at once
        at = dice.randrange(threads)
        for number in range(threads):
            limit = {"timeoutMS": dice.choice((30, 100, 400))} if dice.random() < 0.15 else {}  # noqa: PLR2004
            filter_ = {"_id": numbers.held()}
            yield on_thread(number, call("find", filter=filter_, comment=f"thread{number} {round_}", **limit))
            if spread:
                yield pause(dice.choice((5, 15, 40)))
            if number == at:
                yield from disturbances
        yield pause(dice.choice((50, 150, 300, 1300)))
    yield call("find", filter={"_id": numbers.held()})
    if dice.random() < 0.4:  # noqa: PLR2004
        yield pause(dice.choice((150, 1300)))
    if dice.random() < 0.4:  # noqa: PLR2004
        yield call("close", CLIENT)


def _small_pool(numbers: Numbers, target: str, options: dict[str, Any]) -> None:
    """Draw options with which threads wait for one another."""
    dice = numbers.dice
    # A deadline would end the waits that this is about.
    options.pop("timeoutMS", None)
    least = PINNED if topology_of(target) is Topology.LOAD_BALANCED else 1
    sizes = {"maxPoolSize": max(least, dice.choice((1, 1, 2, 2, 3)))} if dice.random() < 0.6 else {}  # noqa: PLR2004
    options |= sizes
    if dice.random() < 0.4:  # noqa: PLR2004
        options["waitQueueTimeoutMS"] = dice.choice((30, 80, 200))
    if dice.random() < 0.25:  # noqa: PLR2004
        options["maxIdleTimeMS"] = dice.choice((50, 100, 250))
    if options.get("minPoolSize", 0) > options.get("maxPoolSize", 100) > 0:
        options["minPoolSize"] = options["maxPoolSize"]


def _disturbed(numbers: Numbers) -> Iterator[Operation]:
    """Yield what goes wrong while threads are under way: nothing, a clear, failing handshakes, the end."""
    dice = numbers.dice
    what = dice.choices(("nothing", "clear", "handshakes", "fault", "close"), (3, 4, 4, 4, 1))[0]
    if what == "clear":
        how: dict[str, Any] = dice.choice(
            ({"closeConnection": True}, {"errorCode": 91}, {"errorCode": 11600})
        )
        yield faults.fail({"times": 1}, ["count"], **how)
        yield call("estimatedDocumentCount")
    elif what == "handshakes":
        yield from faults.KINDS["handshake"][1](dice, ["hello"])
    elif what == "fault":
        yield from faults.KINDS[dice.choice(("sequence", "lost", "state-change", "cut"))][1](dice, ["find"])
    elif what == "close":
        yield pause(dice.choice((5, 40)))
        yield call("close", CLIENT)


def interrupted(numbers: Numbers, _target: str, options: dict[str, Any]) -> Iterator[Operation]:
    """Yield reads that a server is slow to answer, while it fails the check of its monitor or is late for it.

    A check that times out interrupts what is in use and what is being established; one that fails does not.
    """
    dice = numbers.dice
    for name in ("timeoutMS", "maxIdleTimeMS", "waitQueueTimeoutMS", "readPreference"):
        options.pop(name, None)
    # The shortest interval that clients may have, and a time after which a check that is late has timed out.
    options |= {
        "heartbeatFrequencyMS": 500,
        "connectTimeoutMS": dice.choice((400, 600)),
        "serverMonitoringMode": "poll",
    }
    yield call("find", filter={"_id": numbers.held()})
    threads = dice.randint(1, THREADS - 1)
    yield faults.slow(["find"], dice.choice((1500, 2500)), times=threads)
    for number in range(threads):
        yield on_thread(number, call("find", filter={"_id": numbers.held()}, comment=f"thread{number}"))
    yield pause(100)
    how: dict[str, Any] = dice.choice(
        (
            {"blockConnection": True, "blockTimeMS": 2000},
            {"blockConnection": True, "blockTimeMS": 2000},
            {"closeConnection": True},
            {"errorCode": 91},
        )
    )
    pending = dice.random() < 0.5  # noqa: PLR2004 - connections are being established as well
    yield faults.fail({"times": 1 + pending}, ["hello", "isMaster", "ismaster"], **how)
    if pending:
        yield on_thread(threads, call("find", filter={"_id": numbers.held()}, comment=f"thread{threads}"))
    yield pause(dice.choice((1300, 3000)))
    yield call("find", filter={"_id": numbers.held()})
    if dice.random() < 0.3:  # noqa: PLR2004 - their errors are raised, and tell why
        options["retryReads"] = False


TARGETS: Final[Mapping[str, int]] = {
    "replicaset": 9,
    "sharded": 6,
    "load-balanced": 3,
    "single": 2,
    "replicaset+auth": 2,
    "replicaset@4.2": 2,
    "sharded@4.2": 1,
    "replicaset@9.0": 3,
}
"""The deployments that are drawn, each with its weight."""

RELEASED: Final = tuple(name for name in TARGETS if not name.endswith("@4.2"))
"""Those that released drivers connect to: they need servers from 4.4 on."""

_FAULT: Final = 0.6
"""The share of operations that meet a fault."""


def draw(seed: int, *, edition: str, targets: Sequence[str] = ()) -> SwarmSchedule:
    """Return the schedule of a seed, on one of `targets` where they are given."""
    dice = Random(f"swarm {seed}")  # noqa: S311 - a schedule is no secret
    weights = {name: TARGETS.get(name, 1) for name in targets} or TARGETS
    target = dice.choices(list(weights), list(weights.values()))[0]
    numbers = Numbers(dice)
    kind = dice.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
    options = _options(dice, edition, target)
    traits: dict[str, Any] = {"useMultipleMongoses": dice.random() < 0.6}  # noqa: PLR2004
    if dice.random() < 0.4:  # noqa: PLR2004
        traits["pushbackd"] = {"jitter": dice.choice((0, 1, 1))}
    # What inherits the concerns of a connection string has to say them.
    other = Random(f"swarm {seed}: concerns")  # noqa: S311 - a schedule is no secret
    for name, (chance, values) in _CONCERNS.items():
        if other.random() < chance:
            options[name] = other.choice(values)
    steps = [Step.of(step) for step in _KINDS[kind][1](numbers, target, options)]
    return SwarmSchedule(
        seed=seed,
        target=target,
        edition=edition,
        options=tuple((name, json.dumps(value)) for name, value in options.items()),
        traits=tuple((name, json.dumps(value)) for name, value in traits.items()),
        steps=tuple(steps),
    )


def _options(dice: Random, edition: str, target: str) -> dict[str, Any]:
    """Return options of a connection string; most are left as they are."""
    chances: dict[str, tuple[float, Sequence[Any]]] = {
        "retryReads": (0.2, (False,)),
        "retryWrites": (0.2, (False,)),
        "maxPoolSize": (0.25, (1, 2, 3, 0)),
        "minPoolSize": (0.2, (1, 2, 3)),
        "maxConnecting": (0.25, (1, 3)),
        "maxIdleTimeMS": (0.15, (100, 250)),
        "waitQueueTimeoutMS": (0.15, (50, 150)),
        "timeoutMS": (0.18, (150, 400, 1500)),
        "readPreference": (0.3, ("secondaryPreferred", "nearest", "primaryPreferred")),
    }
    of_edition = edition == "2026-02-20"
    # Some have an option of the other edition, which is to have no effect.
    chances["adaptiveRetries"] = 0.35 if of_edition else 0.05, (True,)
    chances["maxAdaptiveRetries"] = 0.05 if of_edition else 0.35, (0, 1, 3)
    chances["enableOverloadRetargeting"] = 0.05 if of_edition else 0.35, (True,)
    # Longer than the second that a step-down takes; with the usual thirty, a case in real time could take
    # minutes.
    options: dict[str, Any] = {"serverSelectionTimeoutMS": 3000}
    options |= {
        name: dice.choice(values) for name, (chance, values) in chances.items() if dice.random() < chance
    }
    if dice.random() < _QUIET:
        options |= QUIET_MONITORS
    if of_edition and options.get("adaptiveRetries"):
        options.pop("timeoutMS", None)  # tokens are counted where every attempt is seen
    if 0 < options.get("maxPoolSize", 100) < options.get("minPoolSize", 0):
        options["minPoolSize"] = options["maxPoolSize"]
    if topology_of(target) is Topology.LOAD_BALANCED and 0 < options.get("maxPoolSize", 100) < PINNED:
        options["maxPoolSize"] = PINNED
    return options


QUIET_MONITORS: Final = {"serverMonitoringMode": "poll", "heartbeatFrequencyMS": 30_000}
"""Options of a client whose monitors ask so seldom that faults of handshakes meet its pools."""

_QUIET: Final = 0.4


_CONCERNS: Final[Mapping[str, tuple[float, Sequence[Any]]]] = {
    "readConcernLevel": (0.12, ("local", "majority")),
    "w": (0.12, (1, "majority")),
}
"""Concerns of a connection string, and how often they are there."""


def _one_by_one(numbers: Numbers, target: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield operations one after the other, most of which meet a fault."""
    dice = numbers.dice
    has_cursor = dice.random() < 0.12  # noqa: PLR2004
    if has_cursor:
        yield opened_cursor()
    in_session = False
    for _ in range(dice.randint(4, 10)):
        if dice.random() < 0.2 and topology_of(target) is not Topology.SINGLE:  # noqa: PLR2004
            in_session = True
            yield from _transaction(numbers, target)
            continue
        table = dice.choices((READS, WRITES, OTHERS), (4, 6, 2))[0]
        operation = table[dice.choice(list(table))](numbers)
        yield from _with_fault(numbers, target, operation)
        if dice.random() < 0.1:  # noqa: PLR2004
            yield pause(dice.choice((50, 300, 1300)))
    for step in left_cursor(numbers) if has_cursor else ():
        yield from _with_fault(numbers, target, step)
    if dice.random() < 0.3 and not options.get("adaptiveRetries"):  # noqa: PLR2004
        if in_session:
            yield call("endSession", SESSION)
        yield from _with_fault(numbers, target, call("close", CLIENT))


def _with_fault(numbers: Numbers, target: str, operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an operation, mostly with a fault before it."""
    if numbers.dice.random() < _FAULT:
        yield from _faults(numbers, target, commands_of(operation))
    yield operation


def _transaction(numbers: Numbers, target: str) -> Iterator[dict[str, Any]]:
    """Yield a transaction, one of whose statements meets a fault."""
    statements = transaction(numbers)
    which = numbers.dice.randrange(len(statements))
    for index, statement in enumerate(statements):
        if index == which:
            yield from _faults(numbers, target, commands_of(statement))
        yield statement


def _faults(numbers: Numbers, target: str, commands: Sequence[str]) -> list[dict[str, Any]]:
    dice = numbers.dice
    kinds = {name: (weight, make) for name, (weight, make) in faults.KINDS.items()}
    if has_auth(target):
        kinds["authentication"] = 12, faults.RARE["authentication"]
    if topology_of(target) is Topology.REPLICA_SET:
        kinds["step-down"] = 1, faults.RARE["step-down"]
    if profile_of(target) == "9.0":
        kinds["advised"] = 12, faults.RARE["advised"]
    name = dice.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
    return kinds[name][1](dice, commands)


def _again_and_again(numbers: Numbers, _target: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one operation that is refused so often that the spread of its backoffs can be judged.

    With a token bucket it goes on until that is empty, and with what a few successes give it.
    """
    dice = numbers.dice
    for name in ("timeoutMS", "maxAdaptiveRetries", "retryReads", "minPoolSize", "maxIdleTimeMS"):
        options.pop(name, None)
    operation = call("find", filter={"_id": numbers.held()})
    base = {"baseBackoffMS": dice.choice((20, 50, 100))} if dice.random() < 0.3 else {}  # noqa: PLR2004
    refused = faults.refuse_all(["find"], **base)
    yield refused
    # More than the 60 backoffs from which on their spread is judged.
    if not options.get("adaptiveRetries"):
        yield repeat(80, operation)
        return
    yield repeat(dice.choice((205, 240)), operation)
    yield faults.NO_RULES
    yield repeat(dice.choice((3, 7, 9, 12)), operation)
    yield refused
    yield repeat(3, operation)


def _for_long(numbers: Numbers, target: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what takes minutes: sessions expire meanwhile, or a transaction begins anew and anew."""
    dice = numbers.dice
    options.pop("timeoutMS", None)
    if "maxIdleTimeMS" in options:
        options.pop("minPoolSize", None)  # a pool that is refilled four times a second shows nothing new
    options |= QUIET_MONITORS
    if dice.random() < 0.4 or topology_of(target) is Topology.SINGLE:  # noqa: PLR2004
        yield call("find", filter={"_id": numbers.held()})
        # Sessions expire after 30 minutes (1,800,000 ms), and are not lent in the last of them.
        yield pause(dice.choice((60_000, 1_700_000, 1_770_000, 1_900_000)))
        yield call("find", filter={"_id": numbers.held()})
        yield call("insertOne", document={"_id": numbers.new()})
        return
    yield faults.transient(["insert"], times=dice.choice((150, 250)))
    yield call(
        "withTransaction", SESSION, callback=[within(call("insertOne", document={"_id": numbers.new()}))]
    )
    yield faults.NO_RULES
    yield call("find", filter={"_id": numbers.held()})


_KINDS: Final = {
    "one by one": (66, _one_by_one),
    "side by side": (25, side_by_side),
    "interrupted": (6, interrupted),
    "again and again": (3, _again_and_again),
    "for long": (3, _for_long),
}
"""What a case is like, each with its weight."""

"""Cases of several threads: they wait for one another's connections, and something goes wrong meanwhile.

What makes a server slow is a rule, so that a fail point may fail something else at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.authoring.swarm import faults
from harness.authoring.swarm.work import CLIENT, call, pause
from harness.deployments.targets import topology_of
from harness.unified.deployment import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.authoring.swarm.work import Numbers, Operation

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

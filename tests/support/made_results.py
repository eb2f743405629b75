"""Results that nobody ran, for tests of reports: they are made, so they can be as odd as a test wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.planning.plan import Settings
from harness.planning.result import Moment, Result, ResultStatus, Row
from harness.report.results_file import RunHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = "</script><img src=x onerror=alert(1)> & \"quotes\" 'too' {{data}} \x1b[31m \ud800 ]]> <!--"
"""What no description should be, and some will be."""

REAL = RunHeader(
    "2026-11-21T12:00:00+00:00", "0.1.0", Settings(seed=7, commands=(("node", "node adapter.js"),))
)
VIRTUAL = RunHeader("2026-11-21T13:00:00+00:00", "0.1.0", Settings(time="virtual"))

_NODE, _ADDRESS, _CONNECTION = "node0", "localhost:40001", "localhost:40001 connection 4"

COMPARISON = (
    Row("client0", "same", "commandStartedEvent insert {}", 'commandStartedEvent insert {"insert": "c"}', 41),
    Row("client0", "differs", "commandStartedEvent insert 1", "commandStartedEvent insert 2", 46, "is 2"),
    Row("client0", "missing", "commandSucceededEvent insert", None, 51),
)


def asked(at: float, link: int, *, name: str = "insert", client: str = "client0") -> Moment:
    """Return a client's word that it sends a command."""
    return Moment(at, "client", client, "commandStartedEvent", name, link, f'{name} {{"{name}": "coll"}}')


def served(at: float, link: int, outcome: str, *, name: str = "insert", server: str = _NODE) -> Moment:
    """Return a server's word that it dealt with a command."""
    said = f"{name} on db → {outcome} (connection 6)"
    return Moment(at, "server", server, "commandFinished", name, link, said)


def answered(
    at: float, link: int, *, name: str = "insert", client: str = "client0", well: bool = True
) -> Moment:
    """Return a client's word that a command succeeded or failed."""
    kind = "commandSucceededEvent" if well else "commandFailedEvent"
    return Moment(at, "client", client, kind, name, link, f'{name} {{"ok": {int(well)}}}')


def hit(at: float, effect: str, *, name: str = "insert") -> Moment:
    """Return a server's word that a fail point fired."""
    said = f"failCommand on {name}: {effect} (connection 6)"
    return Moment(at, "server", _NODE, "failPointHit", name, None, said)


def marked(at: float, kind: str, *, source: str = "client0", side: str = "client", text: str = "") -> Moment:
    """Return anything else that is said."""
    return Moment(at, side, source, kind, "", None, text)


def retried(*, wait: float = 0.2) -> tuple[Moment, ...]:
    """Return the timeline of an insert that is refused, waits, and succeeds with its second attempt."""
    again = wait + 0.003
    document = 'insertOne {"document": {"_id": 1}}'
    result = 'insertOne returned {"insertedId": 1}'
    return (
        Moment(0.0, "test", "collection0", "operation", "insertOne", None, document),
        marked(0.0001, "connectionCheckOutStartedEvent", text=_ADDRESS),
        marked(0.0002, "connectionCheckedOutEvent", text=_CONNECTION),
        asked(0.0005, 12),
        hit(0.001, "error 462"),
        served(0.0015, 12, "error 462"),
        answered(0.002, 12, well=False),
        marked(0.0025, "connectionCheckedInEvent", text=_CONNECTION),
        asked(again, 13),
        served(again + 0.001, 13, "ok"),
        answered(again + 0.002, 13),
        Moment(again + 0.003, "test", "collection0", "operationEnded", "insertOne", None, result),
    )


def result(
    case: str = "insert again",
    status: ResultStatus = ResultStatus.PASSED,
    *,
    group: str = "retryable-writes/insertOne",
    adapter: str = "reference",
    topology: str = "replicaset",
    edition: str = "2026-07-08",
    **facts: Any,
) -> Result:
    """Return a result, of which only what matters need be said."""
    usual = {"duration_ms": 12.5, "file": f"{group}.yml", "line": 31, "server_version": "8.2.3"}
    return Result(f"{group}::{case}", status, topology, adapter, edition, **{**usual, **facts})


def failed(case: str = "insert once", **facts: Any) -> Result:
    """Return a failure that explains itself in every way."""
    told = {
        "reason": "event 2 of client0 is not what was expected",
        "mismatch": "events[1].command.txnNumber: must be 1, is 2",
        "expected": '{"insert": "coll", "txnNumber": 1}',
        "actual": '{"insert": "coll", "txnNumber": 2}',
        "comparison": COMPARISON,
        "causes": ("The driver took a new transaction number for the retry.",),
        "timeline": retried(),
    }
    return result(case, ResultStatus.FAILED, **{**told, **facts})


def every_status(**facts: Any) -> Iterator[Result]:
    """Yield one result for each way in which a case ends, and one that is hostile."""
    yield result(timeline=retried(), **facts)
    yield failed(**facts)
    yield result("is skipped", ResultStatus.SKIPPED, reason="needs topology sharded", **facts)
    yield failed("fails as known", **facts).becomes(ResultStatus.KNOWN_FAILING, "PYTHON-1")
    yield result("passes for once", ResultStatus.UNEXPECTED_PASS, reason="it passed", **facts)
    hostile = tuple(moment._replace(text=HOSTILE, source=HOSTILE) for moment in retried())
    yield failed(HOSTILE, **{**facts, "reason": HOSTILE, "timeline": hostile, "actual": HOSTILE})

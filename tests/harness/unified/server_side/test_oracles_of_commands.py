"""Oracles of commands, each with a history that keeps its rule and those that break it.

A history is a list of operations, each with what it sent. A request is written as what it says and what came
of it: a reply, or `LOST` where the server closed the connection.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any, Final

import pytest
from bson import Binary, Int64

from harness.adapters.base import ErrorReport, Feature, OperationFailed
from harness.adapters.deployment import Topology
from harness.unified.account import PerformedOperation
from harness.unified.model import Operation
from harness.unified.server_side.connection_judge import lives_of
from harness.unified.server_side.oracles import ORACLES
from harness.unified.server_side.oracles.trace import Trace, TracedClient, TracedOperation, commands_of
from harness.unified.server_side.rules import EDITIONS, Timing
from harness.unified.server_side.seen import SeenConnection, SeenRequest
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Command = dict[str, Any]

HEARD: Final = Path(__file__).parents[2] / "authoring/swarm/heard.jsonl"
OK: Final = {"ok": 1}
LOST: Final = None
LSID: Final = {"id": Binary(b"1" * 16, 4)}
OTHER_LSID: Final = {"id": Binary(b"2" * 16, 4)}


def failed(code: int, *labels: str, **more: Any) -> Command:
    """Return a reply that is an error."""
    return {"ok": 0, "code": code, "errmsg": f"error {code}", "errorLabels": list(labels), **more}


OVERLOAD: Final = failed(462, "SystemOverloadedError", "RetryableError")
STEPPED_DOWN: Final = failed(6, "RetryableWriteError")


@dataclass(frozen=True)
class Sent:
    """A request: its command, its reply, when it came and how long the reply took, and where to."""

    command: Command
    reply: Command | None = field(default_factory=lambda: dict(OK))
    at: float = 1.0
    server: str = "node0"
    took: float = 0.001


@dataclass(frozen=True)
class Done:
    """An operation with what it sent, until `ended`; the error that the application got, if any."""

    name: str
    sent: tuple[Sent, ...]
    error: ErrorReport | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    began: float = 1.0
    ended: float = 1.1


@dataclass(frozen=True)
class History:
    """An oracle with a history that keeps its rule, and those that break it."""

    oracle: str
    kept: tuple[Done, ...]
    broken: tuple[tuple[Done, ...], ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    topology: Topology = Topology.REPLICA_SET
    tokens: tuple[float | None, float | None] = (None, None)
    """Those in the bucket at the end, of what keeps the rule and of what breaks it."""


def find(*replies: Command | None, gap: float = 0.0, **more: Any) -> Done:
    """Return a read with an attempt for each reply, one after the other."""
    sent = tuple(
        Sent({"find": "stock", **more}, reply, 1.0 + index * (gap + 0.002))
        for index, reply in enumerate(replies)
    )
    return Done("find", sent, ended=sent[-1].at + 0.01)


OPENED: Final = Sent({"find": "stock"}, {"ok": 1, "cursor": {"id": 7}})


def transacted(*replies: Command | None) -> Done:
    """Return a transaction whose commit has an attempt for each reply."""
    sent = tuple(
        Sent(
            {"commitTransaction": 1, "lsid": LSID, "txnNumber": Int64(1), "autocommit": False},
            reply,
            2 + index / 100,
        )
        for index, reply in enumerate(replies)
    )
    return Done("withTransaction", sent, began=2.0, ended=3.0)


def insert(*replies: Command | None, numbers: Sequence[int | None] = (1, 1, 1), **more: Any) -> Done:
    """Return a write with an attempt for each reply, with a transaction number each."""
    sent = tuple(
        Sent(
            {"insert": "stock", "lsid": LSID}
            | ({} if numbers[index] is None else {"txnNumber": Int64(numbers[index] or 0)})
            | more,
            reply,
            1.0 + index * 0.002,
        )
        for index, reply in enumerate(replies)
    )
    return Done("insertOne", sent)


def raised(done: Done, report: ErrorReport) -> Done:
    """Return an operation that ended with an error."""
    return Done(done.name, done.sent, report, done.arguments, done.began, done.ended)


def later_ended(done: Done, wait: float) -> Done:
    """Return an operation that ended so many seconds later."""
    return Done(done.name, done.sent, done.error, done.arguments, done.began, done.ended + wait)


def greeted(*replies: Command) -> Done:
    """Return a connection with a hello for each reply, and a command."""
    sent = [Sent({"hello": 1, "loadBalanced": True}, reply, 1 + at / 100) for at, reply in enumerate(replies)]
    return Done("find", (*sent, Sent({"find": "stock"}, at=2.0)))


def logged_in(*replies: Command) -> Done:
    """Return a connection with a step of its login for each reply."""
    steps = [Sent({"saslContinue": 1}, reply, 1.1 + at / 100) for at, reply in enumerate(replies)]
    return Done("find", (Sent({"hello": 1, "speculativeAuthenticate": {}}), *steps))


def said(code: int, *labels: str, **more: Any) -> ErrorReport:
    """Return the error that an application got of a reply."""
    reply = failed(code, *labels)
    return ErrorReport(f"error {code}", code=code, labels=frozenset(labels), response=reply, **more)


def within(
    name: str, reply: Command | None = OK, *, number: int = 1, starts: bool = False, **more: Any
) -> Sent:
    """Return a request of a transaction."""
    begins = {"startTransaction": True} if starts else {}
    command = {name: "stock", "lsid": LSID, "txnNumber": Int64(number), "autocommit": False}
    return Sent({**command, **begins, **more}, reply)


BIT: Final = "RetryableWriteError"
COMMIT: Final = {"commitTransaction": 1, "lsid": LSID, "txnNumber": Int64(1), "autocommit": False}
MAJORITY: Final = {"writeConcern": {"w": "majority"}}
NEAREST: Final[dict[str, Any]] = {"$readPreference": {"mode": "nearest"}}
SECONDARY: Final[dict[str, Any]] = {"$readPreference": {"mode": "secondary"}}
UNKNOWN: Final = "UnknownTransactionCommitResult"
TRANSIENT: Final = "TransientTransactionError"


def committed(code: int, *labels: str) -> Done:
    """Return a commit whose reply has the error of a write concern."""
    reply = {"ok": 1, "writeConcernError": {"code": code, "errmsg": "no"}}
    error = ErrorReport("no", code=code, labels=frozenset(labels), response=reply)
    return Done("commitTransaction", (Sent(COMMIT, reply),), error)


def in_transaction(took: float, *begun: float, error: bool = True) -> Done:
    """Return a withTransaction that began at these instants."""
    sent = tuple(
        Sent({**within("insert", number=index, starts=True).command}, failed(112, TRANSIENT), at)
        for index, at in enumerate(begun, 1)
    )
    report = said(112, TRANSIENT) if error else None
    return Done("withTransaction", sent, report, ended=1.0 + took)


def later(done: Done, at: float, **more: Any) -> Done:
    """Return an operation that begins at another instant."""
    sent = tuple(Sent({**each.command, **more}, each.reply, at, each.server, each.took) for each in done.sent)
    return Done(done.name, sent, done.error, done.arguments, at, at + 0.1)


def elsewhere(done: Done, *servers: str) -> Done:
    """Return an operation whose attempts went to these servers."""
    sent = tuple(
        Sent(each.command, each.reply, each.at, server, each.took)
        for each, server in zip(done.sent, servers, strict=True)
    )
    return Done(done.name, sent, done.error, done.arguments, done.began, done.ended)


HISTORIES: Final = [
    History(
        "retried",
        (find(LOST, OK), insert(STEPPED_DOWN, OK), find(OVERLOAD, OK)),
        ((find(failed(8000), OK),), (insert(failed(6), OK),), (find(failed(462, "RetryableError"), OK),)),
    ),
    History("retried", (find(OVERLOAD),), ((find(OVERLOAD, OK),), (find(LOST, OK),)), {"retryReads": False}),
    History(
        "limit",
        (find(LOST, LOST), find(*[OVERLOAD] * 6)),
        ((find(LOST, LOST, OK),), (find(*[OVERLOAD] * 7),)),
    ),
    History("given-up", (find(LOST, OK), find(*[OVERLOAD] * 6)), ((find(LOST),), (find(*[OVERLOAD] * 5),))),
    History(
        "transaction-id",
        (insert(LOST, OK),),
        ((insert(LOST, OK, numbers=(1, 2)),), (insert(LOST, OK, numbers=(1, None)),)),
    ),
    History(
        "new-number",
        (insert(OK), insert(OK, numbers=(2,))),
        ((insert(OK), insert(OK)), (insert(OK, numbers=(2,)), insert(OK))),
    ),
    History("number-type", (insert(OK),), ((insert(OK, numbers=(0,)),), (insert(OK, txnNumber=1),))),
    History(
        "numbered",
        (insert(OK), find(OK)),
        ((insert(OK, numbers=(None,)),), (find(OK, txnNumber=Int64(1)),)),
    ),
    History("numbered", (insert(OK, numbers=(None,)),), ((insert(OK),),), {"retryWrites": False}),
    History(
        "start",
        (Done("insertOne", (within("insert", starts=True),)), Done("find", (within("find"),))),
        (
            (
                Done("insertOne", (within("insert", starts=True),)),
                Done("find", (within("find", starts=True),)),
            ),
        ),
    ),
    History(
        "commit",
        (Done("commitTransaction", (Sent(COMMIT, LOST), Sent({**COMMIT, **MAJORITY}, at=1.01))),),
        ((Done("commitTransaction", (Sent(COMMIT, LOST), Sent(COMMIT, at=1.01))),),),
    ),
    History(
        "dirty-session",
        (find(LOST, LOST, lsid=LSID), later(find(OK, lsid=OTHER_LSID), 2.0)),
        ((find(LOST, LOST, lsid=LSID), later(find(OK, lsid=LSID), 2.0)),),
    ),
    History(
        "expired-session",
        (find(OK, lsid=LSID), later(find(OK, lsid=LSID), 1000.0), later(find(OK, lsid=OTHER_LSID), 9000.0)),
        ((find(OK, lsid=LSID), later(find(OK, lsid=LSID), 1761.0)),),
    ),
    History(
        "backoff",
        (find(OVERLOAD, OVERLOAD, OK, gap=0.05),),
        ((find(OVERLOAD, OK, gap=0.15),),),
    ),
    History("no-wait", (find(failed(134), OK),), ((find(failed(134), OK, gap=0.05),),)),
    History(
        "dice",
        (find(OVERLOAD, OK, gap=0.05), find(OVERLOAD, OK, gap=0.06), *[find(OVERLOAD, OK, gap=0.07)] * 3),
        (tuple(find(OVERLOAD, OK, gap=0.05) for _ in range(5)),),
    ),
    History(
        "some-wait",
        (find(OVERLOAD, OK, gap=0.05), *[find(OVERLOAD, OK, gap=0.001)] * 5),
        (tuple(find(OVERLOAD, OK, gap=0.001) for _ in range(6)),),
    ),
    History(
        "ends-at-once",
        (later_ended(find(*[OVERLOAD] * 6), -0.008),),
        ((later_ended(find(*[OVERLOAD] * 6), 0.2),),),
    ),
    History(
        "handshake-once",
        (logged_in(OVERLOAD), logged_in(OK, OK)),
        ((logged_in(OVERLOAD, OK),), (greeted(OVERLOAD, OK),)),
    ),
    History("deadline", (find(OK),), ((Done("find", find(OK).sent, ended=2.0),),), {"timeoutMS": 500}),
    History(
        "with-transaction",
        (in_transaction(119.8, 1.0, 60.0), in_transaction(30.0, 1.0, 20.0, error=False)),
        ((in_transaction(31.0, 1.0, 20.0),), (in_transaction(200.0, 1.0, 150.0),)),
    ),
    History(
        "commit-result",
        (committed(64, UNKNOWN), committed(100), committed(79)),
        ((committed(64),), (committed(100, UNKNOWN),), (committed(79, UNKNOWN),)),
    ),
    History(
        "read-preference",
        (find(OK, **NEAREST), insert(OK)),
        ((find(OK),), (find(OK, **SECONDARY),)),
        {"readPreference": "nearest"},
    ),
    History(
        "read-preference",
        (find(OK),),
        ((find(OK, **NEAREST),),),
        {"readPreference": "nearest"},
        Topology.SINGLE,
    ),
    History(
        "concerns",
        (find(OK, readConcern={"level": "majority"}), insert(OK, writeConcern={"w": "majority"})),
        ((find(OK),), (insert(OK),), (insert(OK, writeConcern={"w": 1}),)),
        {"readConcernLevel": "majority", "w": "majority"},
    ),
    History("concerns", (find(OK),), ((find(OK, readConcern={"level": "majority"}),),)),
    History(
        "outcome",
        (find(OK), raised(find(failed(8000)), said(8000))),
        ((find(failed(8000)),), (raised(find(OK), said(8000)),)),
    ),
    History(
        "error",
        (raised(insert(STEPPED_DOWN, failed(91, "NoWritesPerformed")), said(6, BIT)),),
        ((raised(insert(STEPPED_DOWN, failed(91, "NoWritesPerformed")), said(91, "NoWritesPerformed")),),),
    ),
    History(
        "error-address",
        (raised(find(failed(8000)), said(8000, address="localhost:40001")), raised(find(LOST), said(6))),
        (
            (raised(find(failed(8000)), said(8000, address="localhost:40002")),),
            (raised(Done("bulkWrite", find(failed(8000)).sent), said(8000, address="localhost:40002")),),
        ),
    ),
    History(
        "labels",
        (
            raised(find(failed(462, "RetryableError")), said(462, "RetryableError")),
            # The sentence about lost connections speaks of a client with retryWrites, and of no command.
            raised(find(LOST), ErrorReport("lost", is_client_error=True, labels=frozenset({BIT}))),
        ),
        (
            (raised(find(failed(462, "RetryableError")), said(462)),),
            (raised(find(failed(8000)), said(8000, BIT)),),
        ),
    ),
    History(
        "transient",
        (
            Done(
                "find",
                (within("find", LOST),),
                ErrorReport("lost", is_client_error=True, labels=frozenset({TRANSIENT})),
            ),
        ),
        ((Done("find", (within("find", LOST),), ErrorReport("lost", is_client_error=True)),),),
    ),
    History(
        "tokens",
        (find(OVERLOAD, OVERLOAD, OK, gap=0.05),),
        ((find(OVERLOAD, OVERLOAD, OK, gap=0.05),),),
        {"adaptiveRetries": True},
        tokens=(999.1, 1000.0),
    ),
    History(
        "tokens",  # of a commit nobody can tell whether it is retried, or begun anew
        (find(OVERLOAD, OK, gap=0.05), transacted(STEPPED_DOWN, STEPPED_DOWN, OK)),
        ((find(OVERLOAD, OK, gap=0.05), transacted(OK)),),
        {"adaptiveRetries": True},
        tokens=(999.3, 999.3),
    ),
    History(
        "newest-session",
        (find(OK, lsid=LSID), later(find(OK, lsid=LSID), 2.0), later(find(OK, lsid=OTHER_LSID), 9000.0)),
        ((find(OK, lsid=LSID), later(find(OK, lsid=OTHER_LSID), 2.0)),),
    ),
    History(
        "cursor-server",
        (Done("find", (OPENED, Sent({"getMore": 7}, {"ok": 1, "cursor": {"id": 0}}, at=1.1))),),
        (
            (Done("find", (OPENED, Sent({"getMore": 7}, at=1.1, server="node1"))),),
            (
                Done("createFindCursor", (OPENED,)),
                Done("close", (Sent({"killCursors": "stock", "cursors": [7]}, at=1.1, server="node1"),)),
            ),
        ),
    ),
    History(
        "bulk-ends",
        (Done("bulkWrite", (insert(failed(8000)).sent[0],)),),
        ((Done("bulkWrite", (insert(failed(8000)).sent[0], Sent({"update": "stock"}, at=1.1))),),),
    ),
    History(
        "shared-session",
        (find(OK, lsid=LSID), later(find(OK, lsid=LSID), 2.0)),
        (
            (
                Done("find", (Sent({"find": 1, "lsid": LSID}, at=1.0, took=5.0),)),
                later(find(OK, lsid=LSID), 2.0),
            ),
        ),
    ),
    History(
        "avoided",
        (elsewhere(find(OVERLOAD, OK, **NEAREST), "node0", "node1"),),
        ((elsewhere(find(OVERLOAD, OK, **NEAREST), "node0", "node0"),),),
        {"readPreference": "nearest"},
    ),
]


def seen(sent: Sent) -> SeenRequest:
    """Return a request as the servers' record has it."""
    ended = sent.at + sent.took
    return SeenRequest(
        seq=round(sent.at * 1e6),
        at=sent.at,
        connection=1,
        server=sent.server,
        role="primary",
        request_id=round(sent.at * 1e6),
        size=100,
        command=sent.command,
        reply=sent.reply,
        end="server" if sent.reply is None else "reply",
        ended=ended,
        ended_seq=ended * 1e6,
        app_name="app",
    )


def breaches(history: History, done: Sequence[Done], tokens: float | None) -> list[str]:
    """Return what an oracle says of operations."""
    timing = Timing(0.001)
    client = TracedClient("client", "app", history.options, tokens=tokens)
    operations = []
    for each in done:
        operation = Operation(each.name, "collection", each.arguments, Location(Path("x.yml"), 1, 1))
        step = PerformedOperation(
            operation, each.began, each.ended, round(each.began * 1e6), round(each.ended * 1e6)
        )
        step.error = None if each.error is None else OperationFailed(each.error)
        operations.append(
            TracedOperation(step, client, commands_of([seen(sent) for sent in each.sent], timing))
        )
    requests = tuple(seen(sent) for each in done for sent in each.sent)
    connection = SeenConnection(1, "node0", "", 0.0, 0.0, requests=requests, app_name="app")
    trace = Trace(
        edition=EDITIONS["2026-02-20"],
        timing=timing,
        topology=history.topology,
        version=(8, 2, 0),
        features=frozenset(Feature),
        operations=tuple(operations),
        clients=(client,),
        connections=tuple(lives_of([connection])),
        ended=inf,
        addresses={"node0": "localhost:40001", "node1": "localhost:40002"},
    )
    return list(ORACLES[history.oracle].breaches(trace))


@pytest.mark.parametrize("history", HISTORIES, ids=lambda each: each.oracle)
def test_an_oracle_says_nothing_of_commands_that_keep_its_rule(history: History) -> None:
    assert breaches(history, history.kept, history.tokens[0]) == []


@pytest.mark.parametrize(
    ("history", "done"),
    [(history, done) for history in HISTORIES for done in history.broken],
    ids=lambda each: each.oracle if isinstance(each, History) else "",
)
def test_an_oracle_names_commands_that_break_its_rule(history: History, done: tuple[Done, ...]) -> None:
    assert breaches(history, done, history.tokens[1]) != []


ONE_WAY: Final = frozenset(
    {"backoff-connection", "broken-reason", "cleared", "cluster-time", "data", "ended-commands"}
    | {"ended-sessions", "establishing", "handshake", "idle", "interrupted-again", "jitter", "let-be"}
    | {"max-connecting", "max-pool-size", "not-cleared", "one-request", "pool-log", "pool-options"}
    | {"retargeting", "socket", "told-attempts", "told-interruption", "unacknowledged"}
)
"""Oracles without a history that they must report and one that they must not; `tests/support/heard.py` looks
for a wrong driver of the catalogue that breaks the rule of one in drawn schedules."""


def test_every_oracle_is_tested_both_ways() -> None:
    heard = {json.loads(line)["oracle"] for line in HEARD.read_text(encoding="utf-8").splitlines()}
    of_pools = run_path(str(Path(__file__).with_name("test_oracles_of_pools.py")), run_name="stories")[
        "RULES"
    ]
    of_wires = run_path(str(Path(__file__).with_name("test_oracles_of_connections.py")), run_name="wires")[
        "WIRES"
    ]
    both = heard | {each.oracle for each in (*of_pools, *of_wires, *HISTORIES)}
    assert ORACLES.keys() - both == ONE_WAY

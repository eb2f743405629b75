"""The rules about what is left: sessions and cursors that could have been closed, tokens that were earned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from swarm_histories import ADDRESS, heard, past, told

from driver import events
from driver.errors import NetworkError, ServerError
from harness.sim.swarm.history import Limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.sim.swarm.history import RunHistory

SESSION = b"s" * 16
LSID = {"id": SESSION}
LABELS = ["SystemOverloadedError", "RetryableError"]
LOST, BUSY = NetworkError("lost"), ServerError("busy", labels=LABELS)
REFUSED = ServerError("no")
"""An error without labels."""
OK: dict[str, Any] = {"ok": 1}
CHECK_OUT = events.ConnectionCheckOutFailedEvent(ADDRESS, "connectionError", 0.1, LOST)


def said(*series: Any, **ending: Any) -> RunHistory:
    """Return a history with commands, each with its end, and other events.

    A command is (document, end) or (document, end, operation): the end is a reply, an error or None.
    """
    told_of: list[events.DriverEvent] = []
    for number, each in enumerate(series):
        if isinstance(each, events.DriverEvent):
            told_of.append(each)
            continue
        command, end, operation = (*each, number) if len(each) == 2 else each
        told_of += _events(command, end, number, operation)
    return past(events=heard(*((float(at), event) for at, event in enumerate(told_of))), **ending)


def _events(command: Mapping[str, Any], end: Any, request: int, operation: int) -> list[events.DriverEvent]:
    identity = (next(iter(command)), "d", request, operation, ADDRESS, 1, 1, None)
    found: list[events.DriverEvent] = [events.CommandStartedEvent(*identity, command=command)]
    if isinstance(end, Exception):
        found.append(events.CommandFailedEvent(*identity, failure=end))
    elif end is not None:
        found.append(events.CommandSucceededEvent(*identity, reply=end))
    return found


# --- sessions and cursors ---

USE = {"insert": "c", "lsid": LSID}
END = {"endSessions": [LSID]}
OPEN, MORE, KILL = {"find": "c"}, {"getMore": 7, "collection": "c"}, {"killCursors": "c", "cursors": [7]}
OPENED = OK | {"cursor": {"id": 7, "firstBatch": []}}
CONCERN = OK | {"writeConcernError": {"code": 91}}
LEFT: dict[str, Any] = {"sessions": (SESSION,)}
HELD: dict[str, Any] = {"cursors": (("node0", 7),)}

LEFT_FOR_A_REASON: dict[str, RunHistory] = {
    "a session in which a command was lost": said((USE, OK), (USE, LOST), **LEFT),
    "a session in which a command never ended": said((USE, None), **LEFT),
    "a session whose end was lost": said((USE, OK), (END, LOST), **LEFT),
    "a session whose end was refused": said((USE, OK), (END, REFUSED), **LEFT),
    "a session of a client that knew no server": said((USE, OK), **LEFT, lonely=frozenset({1})),
    "a session of somebody else": said(**LEFT),
    "a cursor whose getMore was lost": said((OPEN, OPENED), (MORE, LOST), **HELD),
    "a cursor whose end was refused": said((OPEN, OPENED), (KILL, BUSY), **HELD),
    "a cursor for whose end there was no connection": said((OPEN, OPENED), CHECK_OUT, **HELD),
    "a cursor that came with an error of its write concern": said((OPEN, OPENED | CONCERN), **HELD),
    "a cursor whose getMore made the server unknown": said((OPEN, OPENED), (MORE, OPENED | CONCERN), **HELD),
    "a cursor that the client does not know of": said((OPEN, LOST), **HELD),
}
LEFT_WITHOUT: dict[str, tuple[RunHistory, str]] = {
    "a session is not ended": (said((USE, OK), **LEFT), f"a session in use: {SESSION.hex()} of client 1"),
    "a session that was ended is there": (said((USE, OK), (END, OK), **LEFT), "a session in use"),
    "a session is not ended after an error that was answered": (said((USE, BUSY), **LEFT), "in use"),
    "a cursor is not closed": (said((OPEN, OPENED), (MORE, OPENED), **HELD), "7 of client 1 on node0"),
    "a cursor is not closed after another error of a write concern": (
        said((OPEN, OPENED), (MORE, OPENED | {"writeConcernError": {"code": 64}}), **HELD),
        "7 of client 1 on node0",
    ),
    "a cursor that was closed is there": (said((OPEN, OPENED), (KILL, OK), **HELD), "holds a cursor"),
}


@pytest.mark.parametrize("history", LEFT_FOR_A_REASON.values(), ids=LEFT_FOR_A_REASON)
def test_may_be_left(history: RunHistory) -> None:
    assert told("leftovers", history) == []


@pytest.mark.parametrize(("history", "text"), LEFT_WITHOUT.values(), ids=LEFT_WITHOUT)
def test_something_is_left_where(history: RunHistory, text: str) -> None:
    assert any(text in each for each in told("leftovers", history)), told("leftovers", history)


# --- tokens ---

PING = {"ping": 1}
PAID = ((PING, BUSY, 1), (PING, BUSY, 1), (PING, BUSY, 1))
"""An overload, and two retries that met another: 998 tokens, and one less if a third one was paid for."""


def bucket(tokens: float, *series: Any) -> RunHistory:
    return said(*series, tokens={1: tokens})


TOKENS_HOLD: dict[str, RunHistory] = {
    "a full bucket": bucket(1000, (PING, OK), (PING, OK)),
    "a retry after an overload, which takes one": bucket(999, (PING, BUSY, 1), (PING, BUSY, 1)),
    "a retry that was paid for and found no server": bucket(998, (PING, BUSY, 1), (PING, BUSY, 1)),
    "a success, which earns a tenth": bucket(998.1, *PAID, (PING, OK)),
    "a retry that succeeds, which gives back its token": bucket(998.1, *PAID, (PING, OK, 1)),
    "a retry that fails for another reason, which gives back its token": bucket(998, *PAID, (PING, LOST, 1)),
    "another command of an operation, which is no retry": bucket(998.1, *PAID, ({"hello": 1}, OK, 1)),
    "a command after a success, which is no retry": bucket(998.2, *PAID, (PING, OK, 2), (PING, OK, 2)),
    "an attempt without a connection": bucket(1000, *PAID, CHECK_OUT),
    "an error of a write concern": bucket(998, *PAID, (PING, CONCERN)),
    "a command that never ended": bucket(997, *PAID, (PING, None)),
    "no bucket": said(*PAID),
}
TOKENS_BREAK: dict[str, tuple[RunHistory, str]] = {
    "a bucket has more tokens than fit": (bucket(1001), "client 1 has 1001 tokens for retries, and 1000 by"),
    "a retry was free": (bucket(1000, *PAID), "1000 tokens for retries, and 997 to 999 by its events"),
    "a success earned nothing": (bucket(997, *PAID, (PING, OK, 1)), "997 tokens for retries, and 998.1 by"),
    "a success earned too much": (bucket(1000, *PAID, (PING, OK, 1)), "1000 tokens for retries"),
    "a first attempt paid": (bucket(999, (PING, OK)), "999 tokens for retries, and 1000 by"),
}


@pytest.mark.parametrize("history", TOKENS_HOLD.values(), ids=TOKENS_HOLD)
def test_the_tokens_of_a_client_are_right_with(history: RunHistory) -> None:
    assert told("tokens", history) == []


@pytest.mark.parametrize(("history", "text"), TOKENS_BREAK.values(), ids=TOKENS_BREAK)
def test_the_tokens_of_a_client_are_wrong_where(history: RunHistory, text: str) -> None:
    assert any(text in each for each in told("tokens", history)), told("tokens", history)


@pytest.mark.parametrize(
    ("admitted", "left", "credit", "complaints"),
    [(12, 2.0, 0, 0), (14, 0.0, 0, 0), (12, 2.5, 0, 1), (15, 0.0, 0, 1), (15, 0.0, 1, 0)],
)
def test_a_limiter_admits_what_it_had_and_what_accrued(
    admitted: int, left: float, credit: int, complaints: int
) -> None:
    limit = Limit(
        kind="requests",
        server="node0",
        rate=5.0,
        start=1.0,
        end=3.0,
        available_at_start=4.0,
        available_at_end=left,
        admitted=admitted,
        credit=credit,
    )
    found = told("tokens", past(limits=(limit,)))
    assert len(found) == complaints
    assert all(f"admitted {admitted} and has {left:g} tokens left, of" in each for each in found)

"""Outcomes of trials without a process: requests, documents and an end, as a hunt records them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.hunt.baseline import Baseline
from harness.hunt.faults import BY_NAME
from harness.hunt.places import Place, Request
from harness.hunt.program import Ended
from harness.hunt.trial import Outcome
from harness.hunt.wire import Strike

INSERT = Place("shop", "shop.orders insert {_id}", 1)
PAY = Place("shop", "shop.payments insert {_id}", 1)
COMMANDS: dict[Place, dict[str, Any]] = {
    INSERT: {"insert": "orders", "documents": [{"_id": 1}], "$db": "shop", "txnNumber": 1},
    PAY: {"insert": "payments", "documents": [{"_id": 1}], "$db": "shop", "txnNumber": 2},
}
CLEAN: dict[str, list[dict[str, Any]]] = {"shop.orders": [{"_id": 1}], "shop.payments": [{"_id": 1}]}


def asked(place: Place, number: int, *, struck: str = "", at: float = 0.0) -> Request:
    """Return a request that was answered, unless a fault struck it."""
    request = Request(place, COMMANDS[place], 1, at, number, 1, "primary", struck=struck)
    request.reply = None if struck else {"ok": 1, "n": 1}
    return request


def outcome(fault: str = "", place: Place = INSERT, *, code: int | None = 0, **facts: Any) -> Outcome:
    """Return the outcome of a trial: one fault at one place, and what came of it."""
    strikes = (Strike(BY_NAME[fault], place),) if fault else ()
    requests = [asked(each, number) for number, each in enumerate((INSERT, PAY), 1)]
    for request in requests:
        if fault and request.place == place:
            request.struck, request.reply = fault, None
    said = {
        "contents": CLEAN,
        "requests": requests,
        "net": Counter(),
        "idle": 0.0,
        "after": 0.0,
        "open_transactions": 0,
        "open_cursors": 0,
        "connections": 3,
        "unreached": [],
        **facts,
    }
    ended = Ended(code, said.pop("seconds", 1.0), said.pop("output", ""), said.pop("errors", ""))
    return Outcome(strikes, ended, **said)


def baseline(**facts: Any) -> Baseline:
    """Return the baseline of two clean runs."""
    return Baseline.of([outcome(**facts), outcome(**facts)])

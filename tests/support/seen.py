"""Requests as servers saw them, written short."""

from __future__ import annotations

from itertools import count
from typing import Any

from harness.unified.server_side.seen import SeenRequest

OVERLOADED = {"ok": 0, "code": 462, "errorLabels": ["SystemOverloadedError", "RetryableError"]}
OK = {"ok": 1}
LSID = {"id": b"one"}

_seq = count(1)


def request(
    at: float = 0.0, reply: dict[str, Any] | None = OK, *, took: float = 0.0, **fields: Any
) -> SeenRequest:
    """Return a find that was answered after `took` seconds, or never; `command` has fields of its own."""
    command = {"find": "stock", "$db": "pushbackd", "lsid": LSID, **fields.pop("command", {})}
    facts: dict[str, Any] = {
        "seq": next(_seq),
        "connection": 1,
        "server": "node0",
        "role": "primary",
        "request_id": 1,
        "size": 100,
        "command": {name: value for name, value in command.items() if value is not None},
        "reply": reply,
        "end": "open" if reply is None else "reply",
        "ended": at if reply is None else at + took,
    }
    return SeenRequest(**(facts | {"at": at} | fields))


def requests(*gaps: float, reply: dict[str, Any] | None = None) -> list[SeenRequest]:
    """Return attempts that met overload, each so many seconds after the one before; the first at 0."""
    at, sent = 0.0, [request(0.0, reply or OVERLOADED)]
    for gap in gaps:
        at += gap
        sent.append(request(at, reply or OVERLOADED))
    return sent

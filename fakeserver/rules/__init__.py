"""Rules: scripted behaviour for requests that meet conditions.

    cluster.control.when(command="find", nth=2).then(error(462), times=2, duration="5s")

The functions here write the effects of a rule, each as the document that stands for it in YAML, on the wire
and over HTTP: `error(462)` is `{"error": 462}`. docs/RULES.md has every condition and effect.

    parsing      a document -> `Rule`, strict
    rule         what a rule asks of a request, and what it does
    attempts     the operation that a request belongs to, and the number of its attempt
    book         the rules of a deployment: what a request meets, and what comes of it
    holding      requests that are held until a test answers them

Nothing here waits or knows the pipeline: `stages.rules` performs what the book decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "close",
    "delay",
    "error",
    "fields",
    "label",
    "let_pass",
    "reply",
    "sequence",
    "silence",
    "write_concern_error",
]

Effect = dict[str, Any]


def error(
    code: int | str,
    *,
    labels: Sequence[str] | None = None,
    message: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Effect:
    """Answer with an error, by its code or the code's name.

    `labels` replace those that the server computes; `extra` holds more fields of the reply.
    """
    more = {"labels": labels, "message": message, "extra": extra}
    return {"error": code, **{name: value for name, value in more.items() if value is not None}}


def delay(time: str) -> Effect:
    """Have the request wait for a time with its unit, such as `"200ms"`."""
    return {"delay": time}


def close() -> Effect:
    """Close the connection without an answer."""
    return {"close": True}


def silence() -> Effect:
    """Give no answer, and leave the connection open."""
    return {"silence": True}


def reply(document: Mapping[str, Any]) -> Effect:
    """Answer with a document; `ok` and the cluster time are added where it has none."""
    return {"reply": document}


def label(*labels: str) -> Effect:
    """Add error labels to whatever the server answers."""
    return {"label": list(labels)}


def fields(**values: Any) -> Effect:
    """Run the command, and set fields of its reply, such as the limits in `hello`; None removes one."""
    return {"fields": values}


def write_concern_error(
    code: int | str, *, message: str | None = None, labels: Sequence[str] | None = None
) -> Effect:
    """Run the command, and add a write concern error to its reply."""
    found: Effect = {"writeConcernError": {"code": code} | ({} if message is None else {"errmsg": message})}
    return found if labels is None else {**found, "labels": labels}


def let_pass() -> Effect:
    """Let the request pass, past the rules that follow."""
    return {"pass": True}


def sequence(*steps: Effect | Sequence[Effect], per: str = "rule") -> Effect:
    """Give each request that meets the conditions the next step; after the last one, requests pass.

    A step is an effect, or a list of effects. `per` says what has a count of its own: `operation`,
    `connection`, `application`, or the `rule` as a whole.
    """
    return {"sequence": list(steps), "per": per}

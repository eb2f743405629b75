"""Answers that an attempt may meet: a table of them, and the fault that is a sequence of them.

A fail point says one thing as often as it is asked. What drivers get wrong is often the second error, which
is another one than the first, so the answers of one operation are drawn one by one, on whatever server it
comes to.

A rule can say a sequence and is kept for the whole deployment, where a fail point belongs to one server; so
the second answer reaches the retry also where that goes to another mongos. Weights are relative to one
another, and an answer that does not fit the commands is left out of the draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    Effects: TypeAlias = list[dict[str, Any]]
    """The effects of one step of a rule (docs/RULES.md)."""

STATE_CHANGES: Final = (10107, 13435, 11602, 13436, 189)
SHUTDOWNS: Final = (91, 11600)
RETRYABLE: Final = (6, 7, 89, 262, 9001, 134)
"""Codes that may be retried and say nothing of the server; 134 for reads alone."""

FINAL: Final = (2, 13, 20, 50, 112, 8000, 11601)
"""Codes that are not retried."""

BASES: Final = (0, 10, 20, 50, 300, 20_000)
"""Milliseconds of `baseBackoffMS`: none, short ones, and one that is cut off."""

_OVERLOAD: Final = (Label.SYSTEM_OVERLOADED, Label.RETRYABLE)
_WRITTEN: Final[Sequence[Sequence[str]]] = (
    (),
    (Label.RETRYABLE_WRITE,),
    (Label.RETRYABLE_WRITE, Label.NO_WRITES_PERFORMED),
    (Label.NO_WRITES_PERFORMED,),
)
"""Labels by which a server says whether a write may be retried and whether it was begun."""

WRITES: Final = frozenset(
    {"insert", "update", "delete", "findAndModify", "bulkWrite", "commitTransaction", "abortTransaction"}
)
"""Commands whose replies may have the error of a write concern."""


def _error(code: int, labels: Sequence[str] | None = None, **extra: Any) -> Effects:
    error: dict[str, Any] = {"error": code}
    if labels is not None:
        error["labels"] = list(labels)
    return [error | ({"extra": extra} if extra else {})]


def _overload(dice: Random) -> Effects:
    """Refuse for overload, mostly before anything was written; some say how long to wait."""
    labels = [*_OVERLOAD, *([Label.NO_WRITES_PERFORMED] if dice.random() < 0.6 else [])]  # noqa: PLR2004
    advice = {"baseBackoffMS": dice.choice(BASES)} if dice.random() < 0.35 else {}  # noqa: PLR2004
    return _error(dice.choice((462, 462, 462, 6)), labels, **advice)


def _half_overload(dice: Random) -> Effects:
    """Give one of the labels of overload, or neither."""
    return _error(462, dice.choice(((Label.SYSTEM_OVERLOADED,), (Label.RETRYABLE,), ())))


def _labelled(dice: Random) -> Effects:
    """Fail with any code, labelled in any way."""
    return _error(dice.choice((*RETRYABLE, *FINAL)), dice.choice(_WRITTEN))


def _write_concern(dice: Random) -> Effects:
    code = dice.choice((64, 79, 91, 100, 11600, 10107, 6, 50))
    labels = dice.choice((None, None, *_WRITTEN))
    return [{"writeConcernError": {"code": code} | ({} if labels is None else {"labels": list(labels)})}]


ANSWERS: Final[Mapping[str, tuple[int, Callable[[Random], Effects]]]] = {
    "overload": (8, _overload),
    "half-overload": (2, _half_overload),
    "state-change": (2, lambda dice: _error(dice.choice(STATE_CHANGES))),
    "shutdown": (1, lambda dice: _error(dice.choice(SHUTDOWNS))),
    "retryable": (4, lambda dice: _error(dice.choice(RETRYABLE))),
    "labelled": (3, _labelled),
    "final": (2, lambda dice: _error(dice.choice(FINAL))),
    "lost": (4, lambda _: [{"close": True}]),
    "write-concern": (3, _write_concern),
    "pass": (1, lambda _: [{"pass": True}]),
}
"""Each answer with its weight. Labels that are not given are those that a server computes."""


def sequence(dice: Random, commands: Sequence[str], app_name: str) -> dict[str, Any]:
    """Return the rule that gives the next attempts of some commands an answer each."""
    kinds = {
        name: weight
        for name, (weight, _) in ANSWERS.items()
        if name != "write-concern" or WRITES & {*commands}
    }
    drawn = dice.choices(list(kinds), list(kinds.values()), k=dice.choice((1, 2, 2, 3, 4, 6)))
    if dice.random() < 0.3:  # noqa: PLR2004
        drawn = drawn[:1] * len(drawn)  # the same thing again and again is what an outage says
    steps = [ANSWERS[name][1](dice) for name in drawn]
    return {"when": {"command": list(commands), "appName": app_name}, "sequence": steps}

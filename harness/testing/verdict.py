"""A verdict on one part of an interface: whether it holds, what was expected, an error too, and what came.

`check-adapter` prints one `Verdict` a line. `expected_and_got` makes two sentences out of a bare `assert`
that failed, as pytest does by rewriting, but afterwards: it finds the statement in the source file and
evaluates both sides of its comparison in the frame where it failed. `raises` stands in for pytest's, so
that a user needs no test framework to run a contract.
"""

from __future__ import annotations

import ast
import linecache
import re
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

ErrorT = TypeVar("ErrorT", bound=BaseException)

# Characters: a reply of a server in full would hide the line that says what is wrong with it.
_WIDTH: Final = 300


class Holds(StrEnum):
    """Whether a part holds. An adapter that says that it lacks something is not wrong."""

    OK = "ok"
    FAILED = "FAILED"
    NOT_DECLARED = "not declared"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A part of the interface, in a few words. `note` says more of one that holds or is not declared."""

    part: str
    holds: Holds
    note: str = ""
    expected: str = ""
    got: str = ""

    def __str__(self) -> str:
        lines = [f"{self.holds:<12}  {self.part}{f': {_short(self.note)}' if self.note else ''}"]
        if self.holds is Holds.FAILED:
            lines += [f"{'':14}expected  {_short(self.expected)}", f"{'':14}got       {_short(self.got)}"]
        return "\n".join(lines)


def _short(text: str) -> str:
    """Return a text in one line of some length."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]} …"


def expected_and_got(error: AssertionError) -> tuple[str, str]:
    """Return both sides of the `assert` that failed, which has no message of its own.

    The values are those of the frame in which it stands; nothing that waits is run again.
    """
    place = error.__traceback__
    # The innermost frame: a check may have called another function, whose `assert` it was.
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    statement = _statement(place) if place else None
    if str(error) or place is None or statement is None:
        return "", str(error)
    test = statement.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        actual, wanted = (_value(side, place) for side in (test.left, test.comparators[0]))
        return f"{ast.unparse(test.left)} == {wanted}", actual
    return ast.unparse(test), "it does not hold"


def _statement(place: TracebackType) -> ast.Assert | None:
    """Return the `assert` in which a frame stopped, None where it stopped elsewhere.

    An error may also come from a function that is no check; then its own words have to do.
    """
    lines = linecache.getlines(place.tb_frame.f_code.co_filename)
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.Assert) and node.lineno <= place.tb_lineno <= (node.end_lineno or 0):
            return node
    return None


def _value(side: ast.expr, place: TracebackType) -> str:
    """Return what one side of a comparison is, as text; its source where it cannot be evaluated once more.

    An `await` would ask the adapter again, and may answer otherwise or never.
    """
    text = ast.unparse(side)
    if any(isinstance(node, ast.Await) for node in ast.walk(side)):
        return text
    try:
        value = eval(text, place.tb_frame.f_globals, place.tb_frame.f_locals)  # noqa: S307 - our own source
    except Exception:  # noqa: BLE001 - then the text has to do
        return text
    return repr(value)


# An error that is expected, without a test framework.


class Raised(Generic[ErrorT]):
    """The error that a block has raised; there is none before its end."""

    error: ErrorT


@contextmanager
def raises(kind: type[ErrorT], match: str = "") -> Iterator[Raised[ErrorT]]:
    """Expect that the block raises an error of a kind, whose text has a match of a regular expression."""
    raised = Raised[ErrorT]()
    try:
        yield raised
    except kind as error:
        # An error of the right class with other words is often another mistake, which must not pass for the
        # expected one.
        if not re.search(match, str(error)):
            raise AssertionError(f"{error!r} has no match of {match!r}") from error
        raised.error = error
        return
    raise AssertionError(f"{kind.__name__} was not raised")

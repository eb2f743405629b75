"""Judges `expectAttempts`: the attempts of operations against what is expected of them. Pure.

An element selects requests by command, namespace, application name, comment and session; what it says holds
for each operation that sent any of these. The number of attempts is judged before the attempts one by one:
one attempt too many says more than what it carried.

`sections` calls `judge` for each element with the operations that sent its commands; one table of checks
(`_CHECKS`) then looks at each attempt, in the order in which a reader asks: how did it end, where did it go,
when, and only then what it carried. A check returns None where there is nothing to compare with (a gap before
the first attempt), so that `each` and `retries` need no exceptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.unified.matching.matcher import Entities, Mismatch, match, missing
from harness.unified.model import UNSET
from harness.unified.server_side.attempt import attempts_of
from harness.unified.server_side.jitter import why_not_uniform
from harness.unified.server_side.model import UNCOMPRESSED, GapRule, Range
from harness.unified.server_side.rules import Timing, attempts_expected, gap_expected
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.model import ExpectedAttempt, ExpectedAttempts
    from harness.unified.server_side.rules import JudgedEdition
    from harness.unified.server_side.seen import SeenRequest
    from mongowire.documents.marks import Location


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a judge knows beside the attempts.

    `servers` are the names of all that clients have connected to; `uri_options` returns the options of the
    clients with an application name.
    """

    edition: JudgedEdition
    timing: Timing
    entities: Entities
    servers: frozenset[str] = frozenset()
    uri_options: Callable[[str | None], Mapping[str, Any]] = lambda _: {}


@dataclass(frozen=True, slots=True)
class SeenOperation:
    """An operation of the scenario by its name, with its attempts."""

    name: str
    attempts: tuple[JudgedAttempt, ...]

    @classmethod
    def of(cls, name: str, requests: Sequence[SeenRequest], timing: Timing) -> SeenOperation:
        """Return an operation with its requests, which are in order."""
        return cls(name, attempts_of(requests, timing))


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference of attempts from what is expected, with its operation and attempt, if any.

    `mismatch` has a path below `location`.
    """

    mismatch: Mismatch
    location: Location
    operation: int | None = None
    attempt: int | None = None

    def __str__(self) -> str:
        where = "" if self.operation is None else f"operation {self.operation + 1}, "
        where += "" if self.attempt is None else f"attempt {self.attempt + 1}, "
        return f"{where}{self.mismatch}"


def is_selected(expected: ExpectedAttempts, request: SeenRequest, lsid: Mapping[str, Any] | None) -> bool:
    """Return whether an element is about a request; `lsid` is that of the element's session, if any.

    Another element of the same case may select the same request; each judges it by itself.
    """
    command = request.command
    namespace = f"{command.get('$db')}.{command.get(request.name)}"
    return (
        request.name in expected.commands
        and expected.namespace in (None, namespace)
        and expected.app_name in (None, request.app_name)
        and (expected.comment is UNSET or command.get("comment", missing) == expected.comment)
        and (lsid is None or command.get("lsid") == lsid)
    )


def judge(expected: ExpectedAttempts, operations: Sequence[SeenOperation], facts: Facts) -> Divergence | None:
    """Return where the operations first differ from an element of `expectAttempts`, or None."""
    # The number of operations first: with another number, the attempts below are those of other operations
    # than the author meant.
    found = _operations(expected, operations)
    for index, operation in enumerate(operations):
        found = found or _operation(expected, operation, index, facts)
    return found or _jitter(expected, operations, facts)


def _operations(expected: ExpectedAttempts, operations: Sequence[SeenOperation]) -> Divergence | None:
    wanted = expected.operations
    if wanted is None or len(operations) in wanted:
        return None
    commands = " or ".join(expected.commands)
    why = f"{wanted} operations were to send {commands}, {len(operations)} did"
    return Divergence(Mismatch("operations", str(wanted), len(operations), why), expected.location)


def _operation(
    expected: ExpectedAttempts, operation: SeenOperation, index: int, facts: Facts
) -> Divergence | None:
    attempts = operation.attempts
    found = _number(expected, attempts, facts)
    if found is not None:
        return Divergence(found, expected.location, index)
    for attempt in range(len(attempts)):
        for wanted in expected_of(expected, attempt, len(attempts)):
            found = differs(wanted, attempts, attempt, facts)
            if found is not None:
                return Divergence(found, wanted.location, index, attempt)
    return None


def _number(expected: ExpectedAttempts, attempts: Sequence[JudgedAttempt], facts: Facts) -> Mismatch | None:
    """Judge how many attempts an operation had."""
    sent = len(attempts)
    if expected.count is not None:
        options = facts.uri_options(attempts[0].request.app_name)
        wanted = attempts_expected(expected.count, facts.edition, options)
        rule = "" if expected.count == wanted else f" ({expected.count})"
        if sent not in wanted:
            why = f"the operation had {_attempts(sent)}, {wanted} expected{rule}"
            return Mismatch("count", str(wanted), sent, why)
    if expected.attempts is not None and sent != len(expected.attempts):
        why = f"the operation had {_attempts(sent)}, {len(expected.attempts)} expected"
        return Mismatch("attempts", len(expected.attempts), sent, why)
    return None


def _attempts(number: int) -> str:
    return f"{number} attempt{'s' * (number != 1)}"


def expected_of(expected: ExpectedAttempts, index: int, count: int) -> Sequence[ExpectedAttempt]:
    """Return all that an element expects of the attempt at an index, of so many."""
    about = [
        expected.attempts[index] if expected.attempts and index < len(expected.attempts) else None,
        expected.first if index == 0 else expected.retries,
        expected.each,
        expected.last if index == count - 1 else None,
    ]
    return [each for each in about if each is not None]


def differs(
    wanted: ExpectedAttempt, attempts: Sequence[JudgedAttempt], index: int, facts: Facts
) -> Mismatch | None:
    """Return where an attempt first differs from what is expected of it, or None."""
    looked = _Look(wanted, attempts, index, facts)
    return next(filter(None, (check(looked) for check in _CHECKS)), None)


@dataclass(frozen=True, slots=True)
class _Look:
    """One attempt beside what is expected of it."""

    wanted: ExpectedAttempt
    attempts: Sequence[JudgedAttempt]
    index: int
    facts: Facts

    @property
    def attempt(self) -> JudgedAttempt:
        return self.attempts[self.index]

    @property
    def request(self) -> SeenRequest:
        return self.attempt.request

    @property
    def before(self) -> JudgedAttempt | None:
        """The attempt before it."""
        return self.attempts[self.index - 1] if self.index else None


def _meets(look: _Look) -> Mismatch | None:
    wanted, ends = look.wanted.meets, look.attempt.ends
    # The name of an error stands for its number.
    numbers = {_CODES.get(end, end) if isinstance(end, str) else end for end in wanted}
    if not wanted or not numbers.isdisjoint(ends):
        return None
    names = " or ".join(map(str, wanted))
    return Mismatch("meets", names, look.attempt.met, f"met {look.attempt.met}, {names} expected")


_CODES: Final = {code.code_name: int(code) for code in ErrorCode}


def _on(look: _Look) -> Mismatch | None:
    wanted, request, before = look.wanted.on, look.request, look.before
    if wanted is None or (before is None and wanted in ("same", "another")):
        return None
    match wanted:
        case "primary" | "secondary" | "mongos":
            held, actual = request.role == wanted, f"{request.server}, a {request.role}"
        case "same" | "another":
            assert before is not None
            is_same = request.server == before.request.server
            held, actual = is_same == (wanted == "same"), f"{request.server}, after {before.request.server}"
        case "not overloaded":
            # Servers that no client has connected to count for nothing: the client may not know them.
            others = look.facts.servers - look.attempt.overloaded
            held = not others or request.server not in look.attempt.overloaded
            actual = f"{request.server}, which had answered that it was overloaded"
        case _:
            held, actual = request.server == wanted, request.server
    return None if held else Mismatch("on", wanted, actual, f"came to {actual}; {wanted} expected")


def _gap(look: _Look) -> Mismatch | None:
    wanted, attempt, before, facts = look.wanted.gap, look.attempt, look.before, look.facts
    if wanted is None or before is None or attempt.gap is None:
        return None
    bounds = gap_expected(
        wanted,
        facts.edition,
        retry=attempt.retry,
        transaction=attempt.transaction,
        reply=before.request.reply or {},
    )
    allowed, gap = facts.timing.tolerated(bounds), attempt.gap
    # Two ranges that meet: a client on a new connection may have waited for any time of its own range.
    if gap.most >= allowed.least and gap.least <= allowed.most:
        return None
    rule = f" ({wanted}, {facts.edition.name})" if isinstance(wanted, GapRule) else ""
    # The end that is nearer to what was allowed: the message accuses of no more than is certain.
    seconds = gap.most if gap.most < allowed.least else gap.least
    why = f"began {milliseconds(seconds)} after the end of the attempt before, {in_ms(bounds)} expected{rule}"
    return Mismatch("gap", in_ms(bounds), milliseconds(seconds), why)


def in_ms(seconds: Range) -> str:
    """Return a range of seconds in milliseconds."""
    return f"{Range(round(seconds.least * 1000, 3), round(seconds.most * 1000, 3))} ms"


def milliseconds(seconds: float) -> str:
    """Return seconds in milliseconds, three digits after the point at most."""
    return f"{round(seconds * 1000, 3) + 0.0:g} ms"


def _connection(look: _Look) -> Mismatch | None:
    wanted, before = look.wanted.connection, look.before
    if wanted is None or before is None:
        return None
    actual = "same" if before.request.connection == look.request.connection else "another"
    why = f"came on {actual} connection{'' if actual == 'another' else ' as the attempt before'}"
    return None if actual == wanted else Mismatch("connection", wanted, actual, why)


def _carries(look: _Look) -> Mismatch | None:
    if look.wanted.carries is None:
        return None
    found = match(look.wanted.carries, look.request.command, entities=look.facts.entities)
    return None if found is None else found.below("carries")


def _same(look: _Look) -> Mismatch | None:
    for path in look.wanted.same:
        first, here = (value_at(each.request.command, path) for each in (look.attempts[0], look.attempt))
        if first != here:
            return Mismatch("same", first, here, f"{path} is not that of the first attempt")
    return None


def _newer(look: _Look) -> Mismatch | None:
    if look.before is None:
        return None
    for path in look.wanted.newer:
        before, here = (value_at(each.request.command, path) for each in (look.before, look.attempt))
        if here is missing:
            return Mismatch("newer", before, here, f"{path} is missing")
        # Absent before is allowed: a client hears its first cluster time from a reply.
        if before is not missing and not _is_newer(here, before):
            return Mismatch("newer", before, here, f"{path} is not newer than in the attempt before")
    return None


def _is_newer(here: Any, before: Any) -> bool:
    """Return whether a value is greater; of cluster times, what is in them (`clusterTime`)."""
    if isinstance(here, dict) and isinstance(before, dict):
        here, before = here.get("clusterTime"), before.get("clusterTime")
    try:
        return bool(here > before)
    except TypeError:
        return False


def _omits(look: _Look) -> Mismatch | None:
    for path in look.wanted.omits:
        here = value_at(look.request.command, path)
        if here is not missing:
            return Mismatch("omits", missing, here, f"{path} is not expected here")
    return None


def _size(look: _Look) -> Mismatch | None:
    most, size = look.wanted.size_max, look.request.size
    if most is None or size <= most:
        return None
    return Mismatch("size.max", most, size, f"the message has {size} bytes, {most} are allowed")


def _compressor(look: _Look) -> Mismatch | None:
    wanted, actual = look.wanted.compressor, look.request.compressor or UNCOMPRESSED
    if wanted is None or wanted == actual:
        return None
    return Mismatch("compressor", wanted, actual, f"the message was compressed by {actual}")


_CHECKS: Final[Sequence[Callable[[_Look], Mismatch | None]]] = (
    _meets,
    _on,
    _gap,
    _connection,
    _carries,
    _same,
    _newer,
    _omits,
    _size,
    _compressor,
)


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, `missing` where there is none; of lists by number, from 0.

    A name that is not decimal leads nowhere in a list, so that `endSessions.id` is missing and not the first
    element's.
    """
    value: Any = document
    for name in path.split("."):
        if isinstance(value, list):
            value = dict(enumerate(value)).get(int(name), missing) if name.isdecimal() else missing
        else:
            value = value.get(name, missing) if isinstance(value, dict) else missing
    return value


def _jitter(
    expected: ExpectedAttempts, operations: Sequence[SeenOperation], facts: Facts
) -> Divergence | None:
    """Judge the spread of all backoffs together, and of those before each retry."""
    # A delayed message lengthens a gap by chance, which looks like another distribution.
    if expected.jitter is None or facts.timing.is_disturbed:
        return None
    why = why_not_uniform([operation.attempts for operation in operations], facts.edition)
    return (
        None if why is None else Divergence(Mismatch("jitter", expected.jitter, why, why), expected.location)
    )

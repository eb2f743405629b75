"""`expectConnections`: whether the connections that servers saw are those that a scenario expects.

`seen` has connections with their requests; `lives_of`, at the end of this file, says what each was for, and
the checks of `_Judge` compare groups of them. The same function judges twice: again and again by
`settle_connections` until it finds nothing or a second has passed, and once by `check_connections` at the
end. The oracles of connections and monitors use the lives, and so agree with this section on what is a
monitor's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from harness.unified.errors import ScenarioError
from harness.unified.matching.matcher import Mismatch, match
from harness.unified.outcome import CaseFailedError
from harness.unified.server_side.comparison import SectionComparison, SectionRow, as_text, whole_ms
from harness.unified.server_side.metrics import server_names
from harness.unified.server_side.rules import EDITIONS
from harness.unified.server_side.seen import connections_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.unified.matching.matcher import Entities
    from harness.unified.operations.spec import Context
    from harness.unified.server_side.model import ExpectedConnection, ExpectedConnections, Range
    from harness.unified.server_side.seen import SeenConnection, SeenRequest
    from mongowire.documents.marks import Location


PATIENCE: Final = 1.0
"""Seconds after the operations within which connections have to be as expected."""

_RULE: Final = "rule: "


class Wrong(NamedTuple):
    """The reason for which an expectation does not hold, as words and values; with the connections."""

    reason: str
    mismatch: Mismatch
    shown_by: tuple[ConnectionLife, ...] = ()


@dataclass(frozen=True, slots=True)
class WrongConnections:
    """The first expectation that does not hold, and the connections that it is about."""

    wrong: Wrong
    expected: ExpectedConnections
    connections: tuple[ConnectionLife, ...]
    about: str


async def settle_connections(context: Context, expected: Sequence[ExpectedConnections]) -> None:
    """Wait until the connections are as expected, for `PATIENCE` at most.

    A connection that a client has closed is open on the server until the news has travelled, and monitors
    close theirs in the background.
    """
    if expected:
        record = context.deployment.wire_record
        await context.wait_until(
            lambda: _judged(context, expected, connections_of(record.entries)) is None, within=PATIENCE
        )


def check_connections(context: Context, expected: Sequence[ExpectedConnections]) -> None:
    """Judge the section. Raises `CaseFailedError` for the first expectation that does not hold."""
    wrong = _judged(context, expected, context.seen.connections)
    if wrong is not None:
        context.comparisons.append(ConnectionComparison(wrong))
        raise CaseFailedError(
            f"servers saw other connections: {wrong.wrong.reason}",
            location=wrong.expected.location,
            mismatch=wrong.wrong.mismatch,
        )


def _judged(
    context: Context, expected: Sequence[ExpectedConnections], connections: Sequence[SeenConnection]
) -> WrongConnections | None:
    return judge_connections(
        expected,
        lives_of(connections),
        servers=server_names(context.deployment),
        rules={"backpressure": EDITIONS[context.edition].backpressure},
        entities=context.entities,
    )


@dataclass(frozen=True)
class ConnectionComparison(SectionComparison):
    """The connections that an expectation is about, beside what is expected, for a reader of a failure."""

    found: WrongConnections
    section = "connections"

    @property
    def name(self) -> str:
        """The connections in words."""
        return self.found.about.removeprefix(" of ").strip() or "all clients"

    def rows(self) -> Iterator[SectionRow]:
        """Yield what is expected, then each connection, marked where it shows that it does not hold."""
        wrong, line = self.found.wrong, self.found.expected.location.line
        mismatch = wrong.mismatch
        yield SectionRow(
            "differs", f"{mismatch.path}: {as_text(mismatch.expected)}", as_text(mismatch.actual), line
        )
        # Instants in messages count from the first connection: those of the clock would say nothing to a
        # reader.
        began = min((each.seen.accepted for each in self.found.connections), default=0.0)
        for each in self.found.connections:
            text = described(each, began)
            shows = any(each is one for one in wrong.shown_by)
            yield SectionRow("differs", None, text) if shows else SectionRow("same", text, text)


def described(connection: ConnectionLife, began: float) -> str:
    """Return the life of a connection as one line; instants are in ms from `began`."""
    seen, established = connection.seen, connection.established - connection.seen.accepted
    handshake = "never established" if established == inf else f"established in {whole_ms(established)}"
    carried = ", ".join((*connection.authentication, *connection.commands[1:])) or "no command"
    ended = "left open"
    if connection.closed_by != NOBODY:
        ended = f"closed by the {connection.closed_by} at {whole_ms(seen.closed - began)}"
    return f"{connection.name}, at {whole_ms(seen.accepted - began)}: {handshake}; {carried}; {ended}"


def judge_connections(
    expected: Sequence[ExpectedConnections],
    connections: Sequence[ConnectionLife],
    *,
    servers: Sequence[str],
    rules: Mapping[str, Any],
    entities: Entities,
) -> WrongConnections | None:
    """Return the first expectation that does not hold, or None.

    `servers` names all servers, for `on: each`; `rules` holds the edition's value of each rule that a
    handshake's field may name. Raises `ScenarioError` for another rule.
    """
    for each in expected:
        for about, selected in _selected(each, connections, servers):
            judge = _Judge(each, selected, about, rules, entities)
            wrong = next(filter(None, (check(judge) for check in _CHECKS)), None)
            if wrong is not None:
                return WrongConnections(wrong, each, tuple(selected), about)
    return None


def _selected(
    expected: ExpectedConnections, connections: Sequence[ConnectionLife], servers: Sequence[str]
) -> Iterator[tuple[str, list[ConnectionLife]]]:
    """Yield the groups of connections that an expectation is about, each with the words for it."""
    of_client = [
        each
        for each in connections
        if each.is_monitoring == expected.monitoring and expected.app_name in (None, each.seen.app_name)
    ]
    whose = f" of {expected.app_name}" if expected.app_name else ""
    if expected.on == "each":
        for name in servers:
            yield f"{whose} to {name}", [each for each in of_client if each.seen.server == name]
    elif expected.on is None:
        yield whose, of_client
    else:
        chosen = [each for each in of_client if expected.on in (each.seen.server, each.role)]
        yield f"{whose} to {expected.on}", chosen


@dataclass(frozen=True, slots=True)
class _Judge:
    """One expectation and one group of connections, each check of which is a method."""

    expected: ExpectedConnections
    connections: Sequence[ConnectionLife]
    about: str
    rules: Mapping[str, Any]
    entities: Entities

    def established(self) -> Wrong | None:
        return self._number("established", self.expected.established, self.connections, "established")

    def at_once(self) -> Wrong | None:
        at_once = _peak(self.connections, lambda each: each.establishing_ended_seq)
        what = f"being established at the same time{_named(at_once)}"
        return self._number("atOnce", self.expected.at_once, at_once, what)

    def open(self) -> Wrong | None:
        at_once = _peak(self.connections, lambda each: each.seen.closed_seq)
        return self._number("open", self.expected.open, at_once, "open at the same time")

    def open_at_end(self) -> Wrong | None:
        left = [each for each in self.connections if each.closed_by == NOBODY]
        what = f"open at the end{_named(left)}"
        return self._number("openAtEnd", self.expected.open_at_end, left, what)

    def idle(self) -> Wrong | None:
        wanted = self.expected.idle
        for each in self.connections if wanted is not None else ():
            if wanted is not None and each.idle not in wanted:
                why = f"was idle for {each.idle:.3f} s before a command, expected {wanted} s"
                return Wrong(f"{each.name} {why}", Mismatch("idle", f"{wanted} s", each.idle, why), (each,))
        return None

    def each(self) -> Wrong | None:
        if self.expected.each is None:
            return None
        found = (self._one(self.expected.each, connection, "each") for connection in self.connections)
        return next(filter(None, found), None)

    def listed(self) -> Wrong | None:
        wanted = self.expected.connections
        if wanted is None:
            return None
        # One by one before the number: the first connection that differs says more than that there is one too
        # many.
        for index, (expected, seen) in enumerate(zip(wanted, self.connections, strict=False)):
            found = self._one(expected, seen, f"connections[{index}]")
            if found is not None:
                return found
        number = len(wanted)
        count = len(self.connections)
        if count == number:
            return None
        why = f"expected {number} connections{self.about}, {count} were established"
        return Wrong(why, Mismatch("connections", number, count, why), tuple(self.connections[number:]))

    def closed_in_order(self) -> Wrong | None:
        wanted = self.expected.closed_in_order
        if wanted is None:
            return None
        # Those that are still open have no place in the order and are not missed in it.
        closed = [index for index, each in enumerate(self.connections) if each.closed_by != NOBODY]
        order = sorted(closed, key=lambda index: self.connections[index].seen.closed_seq)
        if order == list(wanted):
            return None
        why = f"connections{self.about} were closed in the order {_list(order)}, expected {_list(wanted)}"
        return Wrong(why, Mismatch("closedInOrder", list(wanted), order, why))

    def _number(
        self, field: str, wanted: Range | None, counted: Sequence[ConnectionLife], what: str
    ) -> Wrong | None:
        count = len(counted)
        if wanted is None or count in wanted:
            return None
        noun, verb = ("connection", "was") if count == 1 else ("connections", "were")
        why = f"{count} {noun}{self.about} {verb} {what}, expected {wanted}"
        mismatch = Mismatch(field, f"{wanted}", count, f"expected {wanted}, there were {count}")
        return Wrong(why, mismatch, tuple(counted))

    def _one(self, expected: ExpectedConnection, seen: ConnectionLife, path: str) -> Wrong | None:
        """Compare one connection: the handshake, what it carried, and who closed it."""
        if expected.hello is not None:
            wanted = _by_rules(expected.hello, self.rules, expected.location)
            found = match(wanted, dict(seen.hello), entities=self.entities)
            if found is not None:
                why = f"the handshake of {seen.name} is not as expected: {found}"
                return Wrong(why, found.below(f"{path}.hello"), (seen,))
        listed = (
            ("authentication", expected.authentication, seen.authentication, "authenticated by"),
            ("commands", expected.commands, seen.commands, "carried"),
            ("compressed", expected.compressed, seen.compressed, "compressed"),
        )
        for field, names, actual, verb in listed:
            if names is not None and names != actual:
                why = f"{seen.name} {verb} {_list(actual)}, expected {_list(names)}"
                return Wrong(why, Mismatch(f"{path}.{field}", list(names), list(actual), why), (seen,))
        if expected.closed_by not in (None, seen.closed_by):
            why = f"{seen.name} was closed by {seen.closed_by}, expected {expected.closed_by}"
            mismatch = Mismatch(f"{path}.closedBy", expected.closed_by, seen.closed_by, why)
            return Wrong(why, mismatch, (seen,))
        if expected.streamed not in (None, seen.is_streamed):
            allowed = "allowed" if seen.is_streamed else "did not allow"
            why = f"{seen.name} {allowed} several replies to a request"
            return Wrong(why, Mismatch(f"{path}.streamed", expected.streamed, seen.is_streamed, why), (seen,))
        return None


_CHECKS: Final[Sequence[Callable[[_Judge], Wrong | None]]] = (
    _Judge.established,
    _Judge.at_once,
    _Judge.open,
    _Judge.open_at_end,
    _Judge.idle,
    _Judge.each,
    _Judge.listed,
    _Judge.closed_in_order,
)


def _peak(
    connections: Sequence[ConnectionLife], end: Callable[[ConnectionLife], float]
) -> list[ConnectionLife]:
    """Return the connections that were, at the time when most were, between their acceptance and `end`.

    Order decides and not instants: what ended before another began was not there at the same time.
    """
    most: list[ConnectionLife] = []
    # The number of connections can only rise when one begins, so only those moments are looked at.
    for begun in connections:
        moment = begun.seen.accepted_seq
        now = [each for each in connections if each.seen.accepted_seq <= moment < end(each)]
        most = now if len(now) > len(most) else most
    return most


def _by_rules(value: Any, rules: Mapping[str, Any], location: Location) -> Any:
    """Return an expected handshake with the edition's values in the place of rules."""
    if isinstance(value, dict):
        return {name: _by_rules(member, rules, location) for name, member in value.items()}
    if isinstance(value, str) and value.startswith(_RULE):
        name = value.removeprefix(_RULE)
        if name not in rules:
            known = f"one of {', '.join(rules)}"
            raise ScenarioError(f"there is no rule {name!r} for a handshake", location=location, fix=known)
        return rules[name]
    return value


def _named(connections: Sequence[ConnectionLife]) -> str:
    numbers = ", ".join(str(each.seen.number) for each in connections)
    return f" ({numbers})" if numbers else ""


def _list(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names)) or "nothing"


# The connections of a case as `expectConnections` speaks of them: what each was for, and what became of it.
#
# A connection of a pool and one of a monitor begin alike: with a handshake. What tells them apart is what
# they carry. Monitors say hello and nothing else, also again and again; connections of pools authenticate,
# declare a load balancer, or carry commands. A connection that was made for a pool and never used looks
# like a monitor's.


HELLO: Final = "hello"
NOBODY: Final = "nobody"
_HELLOS: Final = frozenset({HELLO, "isMaster", "ismaster"})
_AUTHENTICATION: Final = frozenset({"saslStart", "saslContinue", "authenticate", "getnonce"})
_LEFT_OUT: Final = (HELLO, "configureFailPoint", "endSessions")
"""Commands of monitors, of the runner, and of clients that are closed: no operation sends them."""

_OF_POOLS: Final = ("speculativeAuthenticate", "loadBalanced")
"""Fields of a handshake that monitors do not send."""


@dataclass(frozen=True, slots=True)
class ConnectionLife:
    """A connection, from its acceptance to its end.

    `hello` is the first command. `established_seq` is when the handshake's last command was answered,
    authentication included, infinite while it was not; `established` the instant. `commands` and
    `authentication` are names in their order: a legacy hello counts as `hello`; later ones, endSessions and
    the runner's configureFailPoint are left out. `idle` is the longest time in seconds that it was idle
    before a command. `role` is the server's at the handshake.
    """

    seen: SeenConnection
    role: str
    hello: Mapping[str, Any]
    commands: tuple[str, ...]
    authentication: tuple[str, ...]
    established: float
    established_seq: float
    idle: float
    is_monitoring: bool

    @property
    def name(self) -> str:
        """Return the words for it."""
        return f"connection {self.seen.number} to {self.seen.server}"

    @property
    def closed_by(self) -> str:
        """Return the side that closed it: client, server or nobody."""
        return self.seen.closed_by or NOBODY

    @property
    def compressed(self) -> tuple[str, ...]:
        """Return the names of the commands whose messages were compressed."""
        return tuple(_name(request) for request in self.seen.requests if request.compressor is not None)

    @property
    def is_streamed(self) -> bool:
        """Whether the server might send several replies to one of its commands."""
        return any(request.exhaust_allowed for request in self.seen.requests)

    @property
    def establishing_ended_seq(self) -> float:
        """Return when its establishment ended, however it did; infinite while it goes on."""
        return min(self.established_seq, self.seen.closed_seq)


def lives_of(connections: Iterable[SeenConnection]) -> list[ConnectionLife]:
    """Return the connections on which anything was said, in the order of their acceptance."""
    return [_life(connection) for connection in connections if connection.requests]


def _life(seen: SeenConnection) -> ConnectionLife:
    names = list(map(_name, seen.requests))
    # The first command is the handshake whatever its name; authentication is what follows it without a break.
    hello, later = seen.requests[0], list(zip(names[1:], seen.requests[1:], strict=True))
    authentication = [(name, request) for name, request in takewhile(_authenticates, later)]
    # Where credentials came with the hello (speculative authentication), its reply may be the last.
    last = authentication[-1][1] if authentication else hello
    # Authentication counts as use: monitors never log in.
    used = any(name != HELLO for name in names)
    # The longest time between a reply and the next command; what has no reply ends at once.
    gaps = (
        following.at - (request.ended if request.ended <= following.at else request.at)
        for request, following in pairwise(seen.requests)
        if _counts(_name(following))
    )
    idle = max(gaps, default=0.0)
    return ConnectionLife(
        seen=seen,
        role=hello.role,
        hello=hello.command,
        commands=(names[0], *(name for name, _ in later[len(authentication) :] if _counts(name))),
        authentication=tuple(name for name, _ in authentication),
        established=last.ended if last.end == "reply" else inf,
        established_seq=last.ended_seq if last.end == "reply" else inf,
        idle=idle,
        is_monitoring=not used and not any(hello.command.get(name) for name in _OF_POOLS),
    )


def _name(request: SeenRequest) -> str:
    return HELLO if request.name in _HELLOS else request.name


def _authenticates(step: tuple[str, SeenRequest]) -> bool:
    return step[0] in _AUTHENTICATION


def _counts(name: str) -> bool:
    return name not in _LEFT_OUT

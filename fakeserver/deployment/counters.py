"""The counters of a server: totals for `serverStatus`, and the events of a second for its log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import Int64

from fakeserver.admission.rate_limiter import MovingAverage
from fakeserver.deployment.logs.log_lines import counted_line, rejected_line
from fakeserver.deployment.records.events import FailPointHit, FaultHit, RuleHit
from fakeserver.waiting.bystanders import aside, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.deployment.server import Server

_STATEMENTS: Final = {"insert": "documents", "update": "updates", "delete": "deletes"}
"""Commands that are counted by statement, and the field that holds the statements."""


_MOST_NAMES: Final = 10_000
"""The collections whose use is counted; the one that was used first makes room."""
_KINDS: Final[Mapping[str, str]] = {
    "find": "queries",
    "getMore": "getmore",
    "insert": "insert",
    "update": "update",
    "delete": "remove",
}
_LOCKS: Final[Mapping[str, str]] = {"read": "readLock", "write": "writeLock"}

_LATENCIES: Final = ("reads", "writes", "commands", "transactions")
_HALF_STEPS: Final = 2048
"""The microseconds from which on a histogram has a bound between two powers of two."""


def _least(micros: int) -> int:
    """Return the lower bound of a histogram's row."""
    if micros <= 1:
        return 0
    power = 1 << (micros.bit_length() - 1)
    between = power + power // 2
    return between if power >= _HALF_STEPS and micros >= between else power


Usage: TypeAlias = "dict[tuple[str, str], list[float]]"
"""The number of commands and their seconds, by the kind and the name of a command."""


@dataclass(slots=True)
class Counters:
    """Totals since the server began. Bytes are those on the wire."""

    commands: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    authentications: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """By mechanism, and whether they succeeded."""
    usage: dict[tuple[str, str], Usage] = field(default_factory=dict)
    """By the database and the name of each collection that commands have named."""
    handshakes: dict[str, MovingAverage] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0
    connections: int = 0
    ttl_passes: int = 0
    ttl_deleted: int = 0

    def completed(self, part: str, seconds: float) -> None:
        """Add the time from a connection's beginning to the end of a part of its handshake."""
        self.handshakes.setdefault(part, MovingAverage()).add(seconds)

    def by_handshake(self) -> dict[str, Any]:
        """As `serverStatus.metrics.network`: averages of the recent handshakes, 0 before the first."""
        averages = {part: each.value or 0.0 for part, each in self.handshakes.items()}
        return {
            f"averageTimeToCompleted{part}Micros": averages.get(part, 0.0) * 1e6
            for part in ("TLSHandshake", "Hello", "Auth")
        }

    def count(self, name: str, command: Mapping[str, Any]) -> None:
        """Count a command that is about to run."""
        self.commands[name] += 1
        batch = _STATEMENTS.get(name)
        if batch is not None:
            self.statements[name] += len(command.get(batch, ()))

    def counter(self, name: str) -> Callable[[Any], None]:
        """Return the function that counts a command of a name."""
        commands, batch = self.commands, _STATEMENTS.get(name)

        def count(_command: Any) -> None:
            commands[name] += 1

        return count if batch is None else partial(self.count, name)

    def user(self, name: str, kind: str) -> Callable[[str, Mapping[str, Any], float], None] | None:
        """Return the function that counts the use of a collection by commands of a name and a kind.

        It takes the database, the command and the seconds that it took. None for commands that use no data.
        """
        if kind not in _LOCKS:
            return None
        usage, which = self.usage, (kind, name)
        by_field = name == "getMore"

        def use(db: str, command: Mapping[str, Any], seconds: float) -> None:
            collection = command.get("collection") if by_field else next(iter(command.values()))
            if type(collection) is not str:
                return
            key = (db, collection)
            commands = usage.get(key)
            if commands is None:
                if len(usage) == _MOST_NAMES:
                    del usage[next(iter(usage))]
                commands = usage[key] = {}
            counted = commands.get(which)
            if counted is None:
                commands[which] = [1, seconds]
            else:
                counted[0] += 1
                counted[1] += seconds

        return use

    def by_collection(self, db: str, name: str) -> dict[str, Any]:
        """Return the use of a collection, as `top` has it: the microseconds and the number of commands.

        A command takes a microsecond at least, also by a clock that knows no shorter time than a millisecond.
        """
        shown = {
            kind: {"time": Int64(0), "count": Int64(0)}
            for kind in ("total", *_LOCKS.values(), *_KINDS.values(), "commands")
        }
        for (kind, command), (count, seconds) in self.usage.get((db, name), {}).items():
            used = {"time": max(int(seconds * 1e6), int(count)), "count": int(count)}
            for each in ("total", _LOCKS[kind], _KINDS.get(command, "commands")):
                shown[each] = {field: Int64(shown[each][field] + number) for field, number in used.items()}
        return shown

    def latencies(self, db: str, name: str, *, histograms: bool) -> dict[str, Any]:
        """Return the latencies of a collection, as `$collStats` has them.

        A histogram counts the commands of a name by their mean, in its smallest number of microseconds.
        """
        shown: dict[str, dict[str, int]] = {each: {"latency": 0, "ops": 0} for each in _LATENCIES}
        rows: dict[str, Counter[int]] = {each: Counter() for each in _LATENCIES}
        for (kind, _command), (count, seconds) in self.usage.get((db, name), {}).items():
            total = max(int(seconds * 1e6), int(count))
            shown[f"{kind}s"]["latency"] += total
            shown[f"{kind}s"]["ops"] += int(count)
            rows[f"{kind}s"][_least(total // int(count))] += int(count)
        found: dict[str, Any] = {}
        for each, numbers in shown.items():
            found[each] = {field: Int64(number) for field, number in numbers.items()}
            found[each]["queryableEncryptionLatencyMicros"] = Int64(0)
            if histograms:
                found[each]["histogram"] = [
                    {"micros": Int64(least), "count": Int64(count)}
                    for least, count in sorted(rows[each].items())
                ]
        return found

    def count_failure(self, name: str) -> None:
        """Count a command that ran and failed."""
        self.failures[name] += 1

    def opcounters(self) -> dict[str, Any]:
        """As `serverStatus.opcounters`."""
        commands = self.commands
        counted = {"find": "query", "getMore": "getmore"}
        others = sum(n for name, n in commands.items() if name not in counted and name not in _STATEMENTS)
        return {
            "insert": Int64(self.statements["insert"]),
            "query": Int64(commands["find"]),
            "update": Int64(self.statements["update"]),
            "delete": Int64(self.statements["delete"]),
            "getmore": Int64(commands["getMore"]),
            "command": Int64(others),
        }

    def by_document(self) -> dict[str, Any]:
        """As `serverStatus.metrics.document`."""
        return {kind: Int64(self.documents[kind]) for kind in ("deleted", "inserted", "returned", "updated")}

    def asserts(self) -> dict[str, Any]:
        """As `serverStatus.asserts`: what fails is a client's request."""
        none = dict.fromkeys(("regular", "warning", "msg", "tripwire", "rollovers"), 0)
        return {**none, "user": sum(self.failures.values())}

    def network(self) -> dict[str, Any]:
        """As `serverStatus.network`."""
        return {
            "bytesIn": Int64(self.bytes_in),
            "bytesOut": Int64(self.bytes_out),
            "numRequests": Int64(self.requests),
        }

    def by_command(self) -> dict[str, Any]:
        """As `serverStatus.metrics.commands`."""
        return {
            name: {"failed": Int64(self.failures[name]), "total": Int64(total)}
            for name, total in sorted(self.commands.items())
        }


# Events that may come thousands of times a second: each is logged once a second, with how often it came.


Counted: TypeAlias = FailPointHit | FaultHit | RuleHit | str

_ABOUT: Final[Mapping[type, Callable[[Any], tuple[str, ...]]]] = {
    FailPointHit: itemgetter(0, 1, 3),
    RuleHit: itemgetter(0, 1, 3),
    FaultHit: itemgetter(0, 2, 3),
}
"""The fields of an event but its connection."""
_TALLY_SECONDS: Final = 1.0
_MOST_DIFFERENT: Final = 100
"""The different messages of a period; the next one ends it early."""


class LogTally:
    """The events of one server's current second: hits, and rejections by the name of the mechanism."""

    def __init__(self, node: Server) -> None:
        self._node = node
        self._counts: dict[object, int] = {}
        self._first: dict[object, Counted] = {}

    def add(self, what: Counted) -> None:
        """Count an event. Those of different connections are alike."""
        try:
            self._add(what)
        except Exception as error:  # noqa: BLE001 -- it looks on
            tell("the tally of the log", error)

    def _add(self, what: Counted) -> None:
        key = what if isinstance(what, str) else (type(what), _ABOUT[type(what)](what))
        count = self._counts.get(key)
        if count is not None:
            self._counts[key] = count + 1
            return
        if len(self._counts) == _MOST_DIFFERENT:
            self.flush()
        if not self._counts:
            self._node.spawn(self._end_of_period())
        self._counts[key], self._first[key] = 1, what

    async def _end_of_period(self) -> None:
        clock = self._node.clock
        await clock.sleep_until(clock.now() + _TALLY_SECONDS)
        self.flush()

    def flush(self) -> None:
        """Log what was counted."""
        with aside("the tally of the log"):
            counts, self._counts = self._counts, {}
            first, self._first = self._first, {}
            for key, count in counts.items():
                what = first[key]
                line = rejected_line(what) if isinstance(what, str) else counted_line(what)
                self._node.log.write(
                    line.component,
                    line.number,
                    line.message,
                    context=line.context,
                    severity=line.severity,
                    attr={**line.attr, "count": count},
                )

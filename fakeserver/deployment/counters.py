"""The counters of a server, for `serverStatus`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.admission.moving_average import MovingAverage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_STATEMENTS: Final = {"insert": "documents", "update": "updates", "delete": "deletes"}
"""Commands that are counted by statement, and the field that holds the statements."""


@dataclass(slots=True)
class Counters:
    """Totals since the server began. Bytes are those on the wire."""

    commands: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    authentications: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """By mechanism, and whether they succeeded."""
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

"""The search of a journal: what is wanted of a record, and how the others differ from it.

A criterion that is not given is met by every record. One that is about requests is met by no other event.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.privileges import JOURNAL
from fakeserver.deployment.records.events import CommandFinished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fakeserver.deployment.records.journal import Journal
    from fakeserver.deployment.records.record import Record

REQUEST: Final = "commandFinished"
COLLECTION: Final = JOURNAL.collection
"""The collection of `local` as which clients read the journal."""
BACKGROUND: Final = frozenset(
    {
        *("hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "endSessions"),
        *("buildInfo", "buildinfo", "pushbackd"),
    }
)
"""The commands of drivers and of the control, which are counted only where they are asked for."""
ERROR: Final = "error"
"""The outcome of any error code."""

_ANY: Final = ".*"
_NEAREST: Final = 3
_LOOKED_AT: Final = 1000


@dataclass(frozen=True, slots=True)
class Criteria:
    """What is wanted of a record. `matches` judges the command document.

    A `namespace` may end with `.*`. An `outcome` is `ok`, `error`, `disconnect`, `silence` or a code.
    """

    kinds: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    namespace: str | None = None
    app_name: str | None = None
    node: str | None = None
    connection: int | None = None
    outcome: str | int | None = None
    verdict: str | None = None
    matches: Callable[[Mapping[str, Any]], bool] | None = None

    def found_in(self, journal: Journal, *, since: int = 0, newest_first: bool = False) -> Iterator[Record]:
        """Yield the records that are wanted; the others are mostly not even made."""
        kinds, commands = self.kinds or None, self.commands or None
        records = journal.select(since=since, kinds=kinds, commands=commands, newest_first=newest_first)
        if self == Criteria(self.kinds):
            return records
        return filter(self.meets, records)

    def meets(self, record: Record) -> bool:
        """Return whether a record is what is wanted."""
        return self.node in {None, record.source} and not any(True for _ in self.differences(record))

    def differences(self, record: Record) -> Iterable[str]:
        """Yield how a record differs from what is wanted, one sentence for each field."""
        found = record.to_document()
        kind = found["kind"]
        if self.kinds and kind not in self.kinds:
            yield f"kind is {kind}"
        wanted = self.commands
        if wanted and found.get("command") not in wanted:
            yield f"command is {found.get('command', 'unknown')}"
        if self.namespace is not None and not covers(self.namespace, found.get("namespace")):
            yield f"namespace is {found.get('namespace', 'unknown')}"
        for name, each in (
            ("appName", self.app_name),
            ("node", self.node),
            ("connection", self.connection),
            ("verdict", self.verdict),
        ):
            if each is not None and found.get(name) != each:
                yield f"{name} is {found.get(name, 'unknown')}"
        outcome = found.get("outcome")
        is_wanted = isinstance(outcome, int) if self.outcome == ERROR else outcome == self.outcome
        if self.outcome is not None and not is_wanted:
            yield f"outcome is {found.get('outcome', 'unknown')}"
        if self.matches is not None:
            command = None if record.exchange is None else record.exchange.request
            if command is None:
                yield "its document is not kept"
            elif not self.matches(command):
                yield "its document does not match"

    def __str__(self) -> str:
        words = [" or ".join(sorted(self.commands))] if self.commands else []
        words += ["requests" if self.kinds <= {REQUEST} else " or ".join(sorted(self.kinds))]
        words += [f"on {self.namespace}"] if self.namespace else []
        words += [f"of {self.app_name}"] if self.app_name else []
        words += [f"at {self.node}"] if self.node else []
        words += [f"by conn{self.connection}"] if self.connection is not None else []
        words += [f"with outcome {self.outcome}"] if self.outcome is not None else []
        words += [self.verdict] if self.verdict else []
        words += ["with a document that matches"] if self.matches else []
        return " ".join(words)


def covers(pattern: str, namespace: str | None) -> bool:
    """Return whether a namespace is the one of a pattern, `shop.orders`, or one of `shop.*`."""
    if namespace is None:
        return False
    return namespace.startswith(pattern[:-1]) if pattern.endswith(_ANY) else namespace == pattern


def is_counted(record: Record, criteria: Criteria) -> bool:
    """Return whether a record counts where requests are counted: drivers' own commands must be asked for."""
    event = record.event
    if not isinstance(event, CommandFinished):
        return bool(criteria.kinds)
    return bool(criteria.commands) or bool(criteria.kinds) or event.name not in BACKGROUND


def near_misses(criteria: Criteria, journal: Journal, since: int = 0) -> list[str]:
    """Return the requests that differ least from what was wanted, the newest first, with the difference.

    It looks at the newest requests alone, so that a long journal holds nobody up.
    """
    requests = journal.select(since=since, kinds={REQUEST}, newest_first=True)
    counted = (record for record in requests if is_counted(record, Criteria()))
    missed = []
    for record in islice(counted, _LOOKED_AT):
        differences = list(criteria.differences(record))
        if differences:
            missed.append((len(differences), record, differences))
    least = min((number for number, _, _ in missed), default=0)
    nearest = [each for each in missed if each[0] == least][:_NEAREST]
    lines = []
    for _, record, differences in nearest:
        found = record.to_document()
        about = f"{found.get('command', 'an unread request')} {found.get('namespace', '')}".rstrip()
        outcome = f"{found['outcome']} at {record.source}"
        lines.append(f"#{record.seq} {about} -> {outcome}: {', '.join(differences)}")
    return lines

"""The operations of clients, with their attempts, as a journal shows them.

A server sees requests and no operations; `fakeserver.rules.rule` says which requests are attempts of one.
A read that an application repeats by itself after an error looks the same, and counts as another attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from fakeserver.deployment.records.events import CommandFinished
from fakeserver.deployment.records.journal_search import BACKGROUND
from fakeserver.rules.rule import Attempts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fakeserver.deployment.records.record import Record


class Attempt(NamedTuple):
    """One request of an operation; `arrived` and `ended` are instants, `outcome` is `CommandFinished`'s."""

    seq: int
    node: str
    connection: int
    arrived: float
    ended: float
    outcome: str | int


@dataclass(slots=True)
class ClientOperation:
    """An operation of a client, with its attempts in order."""

    command: str
    namespace: str | None
    app_name: str | None
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def gaps(self) -> list[float]:
        """The seconds from the end of each attempt to the arrival of the next."""
        return [round(later.arrived - earlier.ended, 6) for earlier, later in pairwise(self.attempts)]

    def to_document(self, began: float) -> dict[str, Any]:
        """Return it as a document; instants are seconds since `began`."""
        gaps = [None, *self.gaps]
        return {
            "command": self.command,
            "namespace": self.namespace,
            "appName": self.app_name,
            "outcome": self.attempts[-1].outcome,
            "gaps": self.gaps,
            "attempts": [
                {
                    "seq": each.seq,
                    "at": round(each.arrived - began, 6),
                    "node": each.node,
                    "connection": each.connection,
                    "outcome": each.outcome,
                    "gap": gap,
                }
                for each, gap in zip(self.attempts, gaps, strict=True)
            ],
        }


def operations_of(records: Iterable[Record]) -> list[ClientOperation]:
    """Return the operations that requests are attempts of, in the order of their first attempts.

    Left out are drivers' own commands, and requests whose documents are not kept.
    """
    attempts = Attempts()
    found: dict[int, ClientOperation] = {}
    for record in records:
        event = record.event
        command = None if record.exchange is None else record.exchange.request
        if command is None or not isinstance(event, CommandFinished):
            continue
        name = next(iter(command), "")
        if name in BACKGROUND:
            continue
        document = record.to_document()
        session = document.get("lsid", (record.source, event.connection))
        counted = attempts.of(name, command, session=session, txn_number=command.get("txnNumber"))
        operation = found.setdefault(
            counted.number, ClientOperation(name, document.get("namespace"), document.get("appName"))
        )
        operation.attempts.append(_attempt(record, event))
        if not _failed(event):
            attempts.succeeded(counted)
    return list(found.values())


def retried(records: Sequence[Record]) -> Sequence[Record]:
    """Return the requests that may be attempts of operations with several, without decoding any.

    Left out are the commands of a session that all succeeded and have no number.
    """
    groups: dict[Any, list[CommandFinished]] = {}
    for record in records:
        groups.setdefault(_group(record), []).append(_finished(record))
    if any(not event.name for group in groups.values() for event in group):
        return records  # what was not read may belong to any of them
    again = {
        key
        for key, group in groups.items()
        if len(group) > 1 and any(_failed(event) or event.txn_number is not None for event in group)
    }
    return [record for record in records if _group(record) in again]


def _group(record: Record) -> Any:
    event = _finished(record)
    return event.lsid or (record.source, event.connection), event.name


def _finished(record: Record) -> CommandFinished:
    assert isinstance(record.event, CommandFinished)
    return record.event


def _failed(event: CommandFinished) -> bool:
    return event.outcome != "ok" or event.write_concern_error is not None


def _attempt(record: Record, event: CommandFinished) -> Attempt:
    arrived = record.at if record.details is None else record.details.arrived
    return Attempt(record.seq, record.source, event.connection, arrived, record.at, event.outcome)

"""What a run applied, from the oplog: net changes of numbers, for what was applied twice.

Retries that the server recognised and transactions that were aborted are not in the oplog. Changes are summed
by document and field, so that a compensation takes back what it compensates.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.hunt.documents import SPARED, is_counter, is_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fakeserver.storage.port.engine import Changed
    from fakeserver.storage.port.oplog import OplogEntry


class Field(NamedTuple):
    """A number of a document, by names that are the same in every run."""

    namespace: str
    document: str
    path: str


def net_changes(entries: Iterable[OplogEntry]) -> Counter[Field]:
    """Return by how much updates have changed the numbers of documents with a stable `_id`."""
    found: Counter[Field] = Counter()
    for entry in entries:
        for written in entry.changes:
            namespace = str(written.ns)
            if written.ns.db in SPARED or written.ns.collection.startswith("$cmd"):
                continue
            for path, change in _deltas(written.change):
                assert written.change.after is not None
                found[Field(namespace, repr(written.change.after.get("_id")), path)] += change
    return found


def _deltas(change: Changed) -> Iterator[tuple[str, Any]]:
    before, after = change.before, change.after
    if before is None or after is None or is_id(after.get("_id")):
        return
    numbers = dict(_numbers(before))
    for path, value in _numbers(after):
        if path in numbers and value != numbers[path]:
            yield path, value - numbers[path]


def _numbers(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _numbers(value, f"{path}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and not is_counter(name):
            yield path, value

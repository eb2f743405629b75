"""Every operation of the format, in one explicit table.

A row (`spec.OperationSpec`) says on which kinds of entity an operation can be called, which arguments it
takes, which features of the driver it needs, how its result is compared, and which function runs it. The
files hold rows by target:

- `client` (also sessions and client-side encryption), `database` (also GridFS buckets), `collection` (also
  cursors): nearly all rows are made by `family` and forwarded to the adapter unchanged.
- `testrunner` has the operations of the runner itself, `loop` those that hold others.
- `models` checks what stands inside bulk writes, `spec` is the row, the context of a running case, and the
  helpers that make rows.

The runner calls `look_up`, checks names by the row, and awaits `row.run(context, call)`. A function that has
operations in its arguments runs them by `context.execute`, which is the runner's own: this room imports no
runner. An operation that is called on several kinds stands once with several targets; the same name on two
kinds with other arguments are two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.unified.errors import ScenarioError
from harness.unified.operations import client, collection, database, loop, testrunner
from harness.unified.operations.spec import Context, OperationSpec, ResultComparison, merge
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.adapters.base import EntityKind

__all__ = ["OPERATIONS", "Context", "OperationSpec", "ResultComparison", "look_up"]

OPERATIONS: Final[Mapping[tuple[EntityKind, str], OperationSpec]] = merge(
    testrunner.TABLE,
    loop.TABLE,
    loop.REPEAT,
    testrunner.RETRY_TOKENS,
    client.TABLE,
    client.ENCRYPTION,
    database.TABLE,
    collection.TABLE,
    client.SESSION_TABLE,
    collection.CURSOR_TABLE,
    database.BUCKET_TABLE,
)


def look_up(kind: EntityKind, name: str) -> OperationSpec:
    """Return the operation of a kind of entity. Raises `ScenarioError` when it has none of the name."""
    found = OPERATIONS.get((kind, name))
    if found is not None:
        return found
    known = [known for target, known in OPERATIONS if target is kind]
    fix = did_you_mean(name, known, f"operations: {', '.join(known) or 'none'}")
    raise ScenarioError(f"a {kind.value} has no operation {name!r}", fix=fix)

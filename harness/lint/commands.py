"""Server commands that an operation may send, for the rules about fail points.

Fail points match commands, while a case names operations: a rule that asks whether a fail point can be hit
needs the way from the one to the other. The table is generous. It has every command that some driver may send
for an operation, such as both of a count, since a warning about a fail point that is hit would be worse than
none about one that is not.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from fakeserver.waiting.first_use import at_first_use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.lint.scenario import LintedScenario, OperationUse


# Importing all commands takes a moment, which a file without fail points need not wait for.
_table = at_first_use("fakeserver.commands.default_table")

MONITORING: Final = frozenset({"hello", "isMaster", "ismaster"})
"""Commands that monitors send again and again."""

BACKGROUND: Final = MONITORING | {"ping", "saslStart", "saslContinue", "authenticate", "endSessions"}
"""Commands that drivers send when nobody asks."""

_MODIFY: Final = "findAndModify"
# Each operation with a cursor may go on with it, or end it early.
_CURSOR: Final = "getMore killCursors"

_COMMANDS: Final[Mapping[str, str]] = {
    "abortTransaction": "abortTransaction",
    "aggregate": f"aggregate {_CURSOR}",
    "clientBulkWrite": f"bulkWrite {_CURSOR}",
    "close": f"{_CURSOR} abortTransaction",
    "commitTransaction": "commitTransaction",
    "count": "count",
    "countDocuments": f"aggregate {_CURSOR}",
    "createChangeStream": f"aggregate {_CURSOR}",
    "createCollection": "create createIndexes",
    "createFindCursor": f"find {_CURSOR}",
    "createIndex": "createIndexes",
    "createIndexes": "createIndexes",
    "createSearchIndex": "createSearchIndexes",
    "createSearchIndexes": "createSearchIndexes",
    "delete": "delete",
    "deleteByName": f"find delete {_CURSOR}",
    "deleteMany": "delete",
    "deleteOne": "delete",
    "distinct": "distinct",
    "download": f"find {_CURSOR}",
    "downloadByName": f"find {_CURSOR}",
    "drop": "drop",
    "dropCollection": "drop",
    "dropDatabase": "dropDatabase",
    "dropIndex": "dropIndexes",
    "dropIndexes": "dropIndexes",
    "dropSearchIndex": "dropSearchIndex",
    "endSession": "abortTransaction",
    "estimatedDocumentCount": "count aggregate",
    "find": f"find {_CURSOR}",
    "findOne": f"find {_CURSOR}",
    "findOneAndDelete": _MODIFY,
    "findOneAndReplace": _MODIFY,
    "findOneAndUpdate": _MODIFY,
    "insertMany": "insert",
    "insertOne": "insert",
    "iterateOnce": f"aggregate find {_CURSOR}",
    "iterateUntilDocumentOrError": f"aggregate find {_CURSOR}",
    "listCollectionNames": f"listCollections {_CURSOR}",
    "listCollectionObjects": f"listCollections {_CURSOR}",
    "listCollections": f"listCollections {_CURSOR}",
    "listDatabaseNames": "listDatabases",
    "listDatabaseObjects": "listDatabases",
    "listDatabases": "listDatabases",
    "listIndexNames": f"listIndexes {_CURSOR}",
    "listIndexes": f"listIndexes {_CURSOR}",
    "listSearchIndexes": f"aggregate {_CURSOR}",
    "mapReduce": f"mapReduce mapreduce {_CURSOR}",
    "modifyCollection": "collMod",
    "rename": "renameCollection update",
    "renameByName": f"find update {_CURSOR}",
    "replaceOne": "update",
    "startTransaction": "",
    "updateMany": "update",
    "updateOne": "update",
    "updateSearchIndex": "updateSearchIndex",
    "upload": "insert find createIndexes listIndexes delete",
    "uploadWithId": "insert find createIndexes listIndexes delete",
    "withTransaction": "commitTransaction abortTransaction",
}

_WRITES: Final[Mapping[str, str]] = {
    "insertOne": "insert",
    "updateOne": "update",
    "updateMany": "update",
    "replaceOne": "update",
    "deleteOne": "delete",
    "deleteMany": "delete",
}

_NOTHING: Final[frozenset[str]] = frozenset()


def is_command(name: str) -> bool:
    """Return whether a server has a command of a name: one that operations send, or any other."""
    return name in _SENT or name in all_commands()


_SENT: Final = BACKGROUND.union(*(commands.split() for commands in _COMMANDS.values()))


@cache
def all_commands() -> frozenset[str]:
    """Return the names of all commands, with their aliases."""
    return _SENT.union(_table.default_table().commands)


def commands_of(step: OperationUse) -> frozenset[str] | None:
    """Return the commands that an operation may send, or None when nobody can know.

    The runner's own operations send none that count: a fail point is set by one, and assertions are made by
    another client.
    """
    if step.on_runner:
        return _NOTHING
    if step.name == "bulkWrite":
        models = step.arguments.get("requests")
        if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
            return None  # in a skipped case they may have any shape
        return frozenset(_WRITES[kind] for model in models for kind in model if kind in _WRITES)
    # The command is the first field. A cursor may come of it, so that the commands of cursors are among those
    # sent.
    if step.name in ("runCommand", "runCursorCommand", "createCommandCursor"):
        command = step.arguments.get("command")
        if not isinstance(command, dict) or not command:
            return None
        return frozenset({next(iter(command)), *_CURSOR.split()})
    return frozenset(_COMMANDS[step.name].split()) if step.name in _COMMANDS else None


# Since when operations and special operators exist, where the schema of a file cannot tell.
#
# Unified Test Format: Test Format; the appendix with its changes.


OPERATIONS: Final[Mapping[str, int]] = {
    "loop": 2,
    "assertNumberConnectionsCheckedOut": 3,
    "createCommandCursor": 3,
    "createFindCursor": 3,
    "createEntities": 9,
    "iterateOnce": 9,
    "assertEventCount": 10,
    "assertTopologyType": 10,
    "recordTopologyDescription": 10,
    "runOnThread": 10,
    "wait": 10,
    "waitForEvent": 10,
    "waitForPrimaryChange": 10,
    "waitForThread": 10,
    "getSnapshotTime": 27,
}
OPERATORS: Final[Mapping[str, int]] = {
    "$$lte": 9,
    "$$matchAsDocument": 13,
    "$$matchAsRoot": 13,
}


def needs(scenario: LintedScenario) -> Iterator[tuple[int, str]]:
    """Yield the minor versions that a file needs, and what for."""
    for step in scenario.steps:
        if step.name in OPERATIONS:
            yield OPERATIONS[step.name], step.name
    for test in scenario.tests:
        for operator in test.operators:
            if operator.name in OPERATORS:
                yield OPERATORS[operator.name], operator.name

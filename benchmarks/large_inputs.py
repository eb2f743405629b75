"""Large inputs for everything that the server has, made from the server's own tables.

`cases(size)` returns at least one case for each expression, accumulator, window function, stage, query
operator, update operator, command and kind of index. What is in a table and has no case is an error
(`unbuilt`), so that a new operator must be thought of; `NONE_NEEDED` says why some are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from benchmarks.large_commands import command_cases
from benchmarks.large_expressions import (
    accumulator_cases,
    accumulator_names,
    document_cases,
    expression_cases,
    window_cases,
)
from benchmarks.large_statements import (
    index_cases,
    query_cases,
    special_query_cases,
    stage_cases,
    update_cases,
)
from fakeserver.commands.default_table import default_table
from fakeserver.storage.expressions import compiler
from fakeserver.storage.filters import match_operators, matching
from fakeserver.storage.stages import pipeline_stages, window_functions
from fakeserver.storage.updates import update_operators

if TYPE_CHECKING:
    from benchmarks.large_documents import Case

_NOTHING_LARGE: Final = "neither what it is given nor what it looks at can be large"
_ALONE: Final = "it changes the deployment itself, so that it is no neighbour of other cases"
_NO_CLIENT: Final = "it is a step of a conversation that a client of ours does not hold"
_SMALL: Final = """
abortTransaction buildInfo commitTransaction connectionStatus endSessions fsync fsyncUnlock getnonce
getCmdLineOpts getDefaultRWConcern getShardMap hello hostInfo invalidateUserCache isMaster isdbgrid
killAllSessions killAllSessionsByPattern killCursors killOp killSessions logRotate logout ping
planCacheClear profile refreshLogicalSessionCacheNow refreshSessions replSetFreeze replSetGetConfig
replSetGetRBID replSetGetStatus replSetMaintenance setDefaultRWConcern startSession testDeprecation
testDeprecationInVersion2 testVersion2 whatsmyuri waitForFailPoint flushRouterConfig balancerStart
balancerStatus balancerStop enableSharding listShards checkMetadataConsistency shardCollection
connPoolStats getParameter setParameter createSearchIndexes dropSearchIndex updateSearchIndex
listSearchIndexes configureFailPoint createUser updateUser dropUser createRole updateRole dropRole
autoCompact cleanupStructuredEncryptionData compactStructuredEncryptionData dropConnections
getClusterParameter setClusterParameter lockInfo planCacheSetFilter planCacheListFilters planCacheClearFilters
setQuerySettings removeQuerySettings setUserWriteBlockMode setIndexCommitQuorum rotateCertificates
grantRolesToUser revokeRolesFromUser grantRolesToRole revokeRolesFromRole grantPrivilegesToRole
revokePrivilegesFromRole rolesInfo usersInfo dropAllUsersFromDatabase dropAllRolesFromDatabase
"""
"""Commands that have nothing large."""
NONE_NEEDED: Final[dict[str, str]] = {
    **{f"command {name}": _NOTHING_LARGE for name in _SMALL.split()},
    **dict.fromkeys(
        (f"command {name}" for name in ["replSetReconfig", "replSetStepDown", "replSetStepUp", "shutdown"]),
        _ALONE,
    ),
    "command setFeatureCompatibilityVersion": _ALONE,
    "command pushbackd": "it is the door to the verbs of the control listener, which are no commands",
    **dict.fromkeys(
        (f"command {name}" for name in ["authenticate", "saslStart", "saslContinue"]), _NO_CLIENT
    ),
    "stage $changeStreamSplitLargeEvent": "it has a case of $changeStream",
    "stage $listSessions": _NOTHING_LARGE,
    "stage $listClusterCatalog": _NOTHING_LARGE,
    "stage $shardedDataDistribution": _NOTHING_LARGE,
    "stage $listSearchIndexes": _NOTHING_LARGE,
    "stage $querySettings": _NOTHING_LARGE,
    "query operator $text": "it has cases of its own",
    **{
        f"query operator ${name}": "a part of a DBRef, which is read as a value"
        for name in ("ref", "id", "db")
    },
}
"""What needs no case, with the reason."""


def cases(size: int) -> list[Case]:
    """Return all cases, for inputs of so many elements. Raises `LookupError` for what has none."""
    made = [
        *expression_cases(size), *document_cases(size), *accumulator_cases(size), *window_cases(size),
        *stage_cases(size), *query_cases(size), *special_query_cases(size), *update_cases(size),
        *index_cases(size), *command_cases(size),
    ]  # fmt: skip
    missing = unbuilt({f"{case.kind} {case.name}" for case in made})
    if missing:
        raise LookupError(f"no large input is made for {', '.join(missing)}: write one in large_inputs")
    return made


def unbuilt(built: set[str]) -> list[str]:
    """Return what the server's tables have, and neither a case nor a reason for none is there for."""
    return [name for name in everything() if name not in built and name not in NONE_NEEDED]


def everything() -> list[str]:
    """Return all that the server's tables have, with its kind."""
    stages = {
        *pipeline_stages._STAGES,  # noqa: SLF001
        *pipeline_stages.STAGES_OF_COMMANDS,
    } - pipeline_stages.UNSUPPORTED_STAGES
    queries = {
        *matching._TOP_LEVEL,  # noqa: SLF001
        *matching._COMPOUND,  # noqa: SLF001
        *match_operators.LEAF_OPERATORS,
        *match_operators.OPERATORS,
    }
    tables: dict[str, Any] = {
        "expression": (*compiler.FUNCTIONS.functions, *compiler._FORMS),  # noqa: SLF001
        "accumulator": accumulator_names(),
        "window function": window_functions._FUNCTIONS,  # noqa: SLF001
        "stage": sorted(stages),
        "query operator": sorted(queries),
        "update operator": update_operators.OPERATORS,
        "command": [spec.name for spec in default_table()],
    }
    return [f"{kind} {name}" for kind, names in tables.items() for name in names]

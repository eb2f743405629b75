"""Since which release there are fields, stages and operators, by wire version; commands say it themselves.

A release does not know what is newer: a field is unknown to it, a stage unrecognised. What its last patch
release took over from a newer one it knows, as tools count on: such rows name the patch release.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fakeserver.errors import CommandError
from fakeserver.idl.fields import (
    GENERIC,
    NUMBERS,
    OUT_OF_RANGE_BEFORE_80,
    UNKNOWN,
    Field,
    FieldError,
    Fields,
    type_name,
)
from fakeserver.profile import WIRE_42, WIRE_44, WIRE_50, WIRE_60, WIRE_70, WIRE_80, WIRE_82, WIRE_90
from fakeserver.storage.values.printing import show, show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.idl.fields import Words


_WRITES: Final[Mapping[str, int]] = {
    "collectionUUID": WIRE_60,
    "encryptionInformation": WIRE_60,
    "bypassEmptyTsReplacement": WIRE_50,  # 8.1, with a patch release of each since 5.0
}

FIELDS: Final[Mapping[str, Mapping[str, int]]] = {
    "find": {
        "allowDiskUse": WIRE_44,
        "mirrored": WIRE_44,
        "let": WIRE_50,
        "collectionUUID": WIRE_60,
        "encryptionInformation": WIRE_60,
        "includeQueryStatsMetrics": WIRE_82,
    },
    "getMore": {"includeQueryStatsMetrics": WIRE_82},
    "aggregate": {
        "let": WIRE_50,
        "collectionUUID": WIRE_60,
        "encryptionInformation": WIRE_60,
        "includeQueryStatsMetrics": WIRE_82,
    },
    "count": {
        "mirrored": WIRE_44,
        "collectionUUID": WIRE_60,
        "encryptionInformation": WIRE_60,
        "includeQueryStatsMetrics": WIRE_82,
    },
    "distinct": {
        "mirrored": WIRE_44,
        "collectionUUID": WIRE_60,
        "encryptionInformation": WIRE_60,
        "hint": WIRE_80,
        "includeQueryStatsMetrics": WIRE_82,
    },
    "insert": _WRITES,
    "update": {
        **_WRITES,
        "let": WIRE_50,
        "updates.upsertSupplied": WIRE_44,
        "updates.sampleId": WIRE_70,
        "updates.sort": WIRE_80,
    },
    "delete": {**_WRITES, "let": WIRE_50, "deletes.hint": WIRE_44, "deletes.sampleId": WIRE_70},
    "findAndModify": {
        "hint": WIRE_44,
        "let": WIRE_50,
        "collectionUUID": WIRE_60,
        "encryptionInformation": WIRE_60,
        "sampleId": WIRE_70,
        "bypassEmptyTsReplacement": WIRE_50,
    },
    "create": {
        "timeseries": WIRE_50,
        "expireAfterSeconds": WIRE_50,
        "clusteredIndex": WIRE_60,
        "changeStreamPreAndPostImages": WIRE_60,
        "encryptedFields": WIRE_60,
    },
    "createIndexes": {"commitQuorum": WIRE_44, "collectionUUID": WIRE_60},
    "dropIndexes": {"collectionUUID": WIRE_60},
    "drop": {"collectionUUID": WIRE_60},
    "renameCollection": {"collectionUUID": WIRE_60},
    "collMod": {
        "index.hidden": WIRE_44,
        "timeseries": WIRE_50,
        "expireAfterSeconds": WIRE_50,
        "changeStreamPreAndPostImages": WIRE_60,
        "index.prepareUnique": WIRE_60,
        "index.unique": WIRE_60,
        "cappedSize": WIRE_60,
        "cappedMax": WIRE_60,
        "dryRun": WIRE_60,
        "collectionUUID": WIRE_60,
    },
    "compact": {"dryRun": WIRE_80, "freeSpaceTargetMB": WIRE_80},
    "profile": {"filter": WIRE_50},
    "setFeatureCompatibilityVersion": {"confirm": WIRE_70},
    "$changeStream": {"showExpandedEvents": WIRE_60, "fullDocumentBeforeChange": WIRE_60},
}
"""Fields of commands, and of objects in them behind a dot."""

ARGUMENTS: Final[Mapping[str, int]] = {
    "comment": WIRE_44,
    "apiVersion": WIRE_50,
    "apiStrict": WIRE_50,
    "apiDeprecationErrors": WIRE_50,
    "mayBypassWriteBlocking": WIRE_60,
    "rawData": WIRE_82,
}
"""Arguments of every command."""

STRICT: Final = frozenset(
    {
        *("find", "getMore", "aggregate", "count", "distinct"),
        *("insert", "update", "delete", "findAndModify"),
        *("create", "createIndexes", "collMod"),
    }
)
"""Commands that every release refuses newer arguments of. Until 4.4 the others passed over them."""

TEXT_COMMENTS: Final[Mapping[str, int]] = {
    "find": WIRE_42,
    "aggregate": WIRE_42,
    "count": WIRE_42,  # 5.0, 4.4.14
    "distinct": WIRE_42,  # 5.0, 4.4.14
}
"""Commands whose comment must be a string, and the last release of which that is true."""

IN_TRANSACTIONS: Final[Mapping[str, int]] = {"create": WIRE_44, "createIndexes": WIRE_44}
"""Commands that a transaction may hold since some release."""

STAGES: Final[Mapping[str, int]] = {
    "$unionWith": WIRE_44,
    "$setWindowFields": WIRE_50,
    "$densify": WIRE_60,
    "$documents": WIRE_60,
    "$fill": WIRE_60,
    "$changeStreamSplitLargeEvent": WIRE_60,  # 7.0, 6.0.9
    "$listSearchIndexes": WIRE_60,  # 7.0, 6.0.7
    "$vectorSearch": WIRE_60,  # 7.0.2, 6.0.11
    "$listSampledQueries": WIRE_70,
    "$shardedDataDistribution": WIRE_60,
    "$rankFusion": WIRE_80,
    "$score": WIRE_82,
    "$scoreFusion": WIRE_82,
    "$querySettings": WIRE_80,
    "$queryStats": WIRE_80,
    "$listClusterCatalog": WIRE_80,
}
"""Stages of pipelines."""

EXPRESSIONS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("$binarySize", "$bsonSize", "$first", "$function", "$isNumber", "$last"), WIRE_44),
    **dict.fromkeys(("$rand", "$replaceAll", "$replaceOne"), WIRE_44),
    **dict.fromkeys(("$dateAdd", "$dateDiff", "$dateSubtract", "$dateTrunc"), WIRE_50),
    **dict.fromkeys(("$getField", "$setField", "$unsetField"), WIRE_50),
    **dict.fromkeys(("$firstN", "$lastN", "$maxN", "$minN", "$sortArray"), WIRE_60),
    **dict.fromkeys(("$tsIncrement", "$tsSecond"), WIRE_60),
    **dict.fromkeys(("$bitAnd", "$bitNot", "$bitOr", "$bitXor", "$median", "$percentile"), WIRE_70),
    "$toUUID": WIRE_80,
    "$sigmoid": WIRE_82,  # 8.1
    **dict.fromkeys(
        ("$encStrContains", "$encStrEndsWith", "$encStrNormalizedEq", "$encStrStartsWith"), WIRE_82
    ),
    **dict.fromkeys(("$createObjectId", "$createUUID", "$hash", "$hexHash", "$subtype"), WIRE_90),  # 8.3
    **dict.fromkeys(("$deserializeEJSON", "$serializeEJSON", "$toArray", "$toObject"), WIRE_90),
    **dict.fromkeys(("$similarityCosine", "$similarityDotProduct", "$similarityEuclidean"), WIRE_90),
}
"""Expressions."""

OPERANDS: Final[Mapping[str, Mapping[str, int]]] = {
    "$convert": {"format": WIRE_80, "base": WIRE_82, "byteOrder": WIRE_82},
    "$filter": {"limit": WIRE_60, "arrayIndexAs": WIRE_90},  # 5.2, 8.3
    "$map": {"arrayIndexAs": WIRE_90},
    "$reduce": {"arrayIndexAs": WIRE_90},
}
"""Named arguments of expressions."""

INDEX_VARIABLE: Final = WIRE_90
"""Since when `$$IDX` is the place of an element (8.3)."""
VECTORS: Final = WIRE_90
"""Since when `$convert` makes vectors of arrays, and back."""

ACCUMULATORS: Final[Mapping[str, int]] = {
    "$accumulator": WIRE_44,
    "$count": WIRE_50,
    **dict.fromkeys(("$bottom", "$bottomN", "$top", "$topN"), WIRE_60),
    **dict.fromkeys(("$firstN", "$lastN", "$maxN", "$minN"), WIRE_60),
    **dict.fromkeys(("$median", "$percentile"), WIRE_70),
    **dict.fromkeys(("$concatArrays", "$setUnion"), WIRE_82),
}
"""Accumulators."""

WINDOWS: Final[Mapping[str, int]] = {
    **{name: since for name, since in ACCUMULATORS.items() if name != "$accumulator"},
    **dict.fromkeys(("$linearFill", "$locf"), WIRE_60),
    "$minMaxScaler": WIRE_82,
}
"""Window functions; there are no others before `$setWindowFields`."""

IMAGES: Final = WIRE_60
"""Since when a change stream's `fullDocument` may be `whenAvailable` or `required`."""


def fit(spec: CommandSpec, wire_version: int) -> CommandSpec:
    """Return a command as a release knows it: without what is newer, and with its words."""
    if wire_version < IN_TRANSACTIONS.get(spec.name, 0):
        spec = replace(spec, in_transaction=False)
    if spec.fields is None:
        return spec
    fields = _without(spec.fields, _newer(spec.name, wire_version))
    if wire_version < WIRE_80:
        fields = _with_old_ranges(fields)
    if wire_version <= TEXT_COMMENTS.get(spec.name, 0):
        fields = fields.plus(Field("comment", "string"))
    generic = GENERIC
    if wire_version > WIRE_44 or spec.name in STRICT:
        generic -= {argument for argument, since in ARGUMENTS.items() if since > wire_version}
    return replace(spec, fields=replace(fields, generic=generic, words=words_of(spec.name, wire_version)))


def fit_fields(fields: Fields, name: str, wire_version: int) -> Fields:
    """Return the fields of a stage as a release knows them."""
    return _without(fields, _newer(name, wire_version))


def _newer(name: str, wire_version: int) -> frozenset[str]:
    return frozenset(path for path, since in FIELDS.get(name, {}).items() if since > wire_version)


def _with_old_ranges(fields: Fields) -> Fields:
    """Return fields with the code that a number out of its range had before 8.0."""
    kept = [
        replace(
            each,
            of=_with_old_ranges(each.of) if isinstance(each.of, Fields) else each.of,
            out_of_range=OUT_OF_RANGE_BEFORE_80,
        )
        for each in fields.by_name.values()
    ]
    return Fields.of(*kept, strict=fields.strict, target=fields.target)


def _without(fields: Fields, paths: frozenset[str], prefix: str = "") -> Fields:
    if not paths:
        return fields
    kept = []
    for each in fields.by_name.values():
        path = f"{prefix}{each.name}"
        if path in paths:
            continue
        if isinstance(each.of, Fields) and any(other.startswith(f"{path}.") for other in paths):
            kept.append(replace(each, of=_without(each.of, paths, f"{path}.")))
        else:
            kept.append(each)
    return Fields.of(*kept, strict=fields.strict, target=fields.target)


# Refusals of fields in the words of releases that parsed some commands by hand (until 4.4, some until 4.2).
#
# Later ones have every command's parser from its declaration, and `fakeserver.idl.fields` has those words.


_UNKNOWN_TO_FIND_AND_MODIFY: Final = 51177
_AGGREGATE_TYPES: Final[Mapping[str, str]] = {
    "allowDiskUse": "a boolean",
    "collation": "an object",
    "comment": "a string",
    "explain": "a boolean",
}
_INDEX_FIELD: Final = 2
"""The parts of the path of a field within collMod's `index`, after the command's name."""


def _find(error: FieldError, command: Mapping[str, Any]) -> CommandError:
    *_, name = error.names
    if name == "hint" and error.value is not UNKNOWN:
        return _failed_to_parse("hint must be either a string or nested object")
    if error.value is UNKNOWN:
        return _failed_to_parse(f"Failed to parse: {show_document(command)}. Unrecognized field '{name}'.")
    if set(NUMBERS) <= set(error.expected) and "bool" not in error.expected:
        return _failed_to_parse(f"Failed to parse: {show_document(command)}. '{name}' field must be numeric.")
    return _failed_to_parse(
        f"Failed to parse: {name}: {show(error.value)}. '{name}' field must be of BSON type "
        f"{error.expected[0]}."
    )


def _get_more(error: FieldError, command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    return _failed_to_parse(
        f"Failed to parse: {show_document(command)}. Unrecognized field '{error.names[-1]}'."
    )


def _aggregate(error: FieldError, _command: Mapping[str, Any]) -> CommandError:
    *above, name = error.names
    if above:
        return error
    if error.value is UNKNOWN:
        return _failed_to_parse(f"unrecognized field '{name}'")
    if name == "hint":
        return _failed_to_parse(
            "hint must be specified as a string representing an index name, or an object representing an "
            "index's key pattern"
        )
    if name not in _AGGREGATE_TYPES:
        return error
    return CommandError(
        ErrorCode.TYPE_MISMATCH,
        f"{name} must be {_AGGREGATE_TYPES[name]}, not a {type_name(error.value)}",
    )


def _find_and_modify(error: FieldError, _command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    return CommandError(_UNKNOWN_TO_FIND_AND_MODIFY, f"BSON field '{error.names[-1]}' is an unknown field.")


def _create_indexes(error: FieldError, _command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    return CommandError(
        ErrorCode.BAD_VALUE, f"Invalid field specified for createIndexes command: {error.names[-1]}"
    )


def _coll_mod(error: FieldError, _command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    name = error.names[-1]
    if len(error.names) == _INDEX_FIELD:
        return CommandError(ErrorCode.INVALID_OPTIONS, f"Unrecognized field '{name}' in 'index' option")
    return CommandError(ErrorCode.INVALID_OPTIONS, f"unknown option to collMod: {name}")


def _create(error: FieldError, command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    options = dict(list(command.items())[1:])
    return CommandError(
        ErrorCode.INVALID_OPTIONS,
        f"The field '{error.names[-1]}' is not a valid collection option. Options: {show_document(options)}",
    )


def _failed_to_parse(message: str) -> CommandError:
    return CommandError(ErrorCode.FAILED_TO_PARSE, message)


_BY_HAND: Final[Mapping[str, tuple[int, Words]]] = {
    "find": (WIRE_44, _find),
    "getMore": (WIRE_44, _get_more),
    "aggregate": (WIRE_44, _aggregate),
    "findAndModify": (WIRE_44, _find_and_modify),
    "createIndexes": (WIRE_44, _create_indexes),
    "collMod": (WIRE_44, _coll_mod),
    "create": (WIRE_42, _create),
}
"""The last release that parsed a command by hand, and its words."""


def words_of(name: str, wire_version: int) -> Words | None:
    """Return how a release refuses the fields of a command, None for the words of all others."""
    until, words = _BY_HAND.get(name, (0, None))
    return words if wire_version <= until else None

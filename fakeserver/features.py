"""Since which release there are fields and stages, by wire version; commands say it themselves.

A release does not know what is newer: a field is unknown to it, a stage unrecognised.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fakeserver.idl import Fields
from fakeserver.profile import WIRE_44, WIRE_50, WIRE_60, WIRE_70, WIRE_80

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.table import CommandSpec

FIELDS: Final[Mapping[str, Mapping[str, int]]] = {
    "find": {"let": WIRE_50},
    "aggregate": {"let": WIRE_50},
    "update": {"let": WIRE_50, "updates.sort": WIRE_80},
    "delete": {"let": WIRE_50, "deletes.hint": WIRE_44},
    "findAndModify": {"let": WIRE_50, "hint": WIRE_44},
    "distinct": {"hint": WIRE_80},
    "create": {
        "timeseries": WIRE_50,
        "expireAfterSeconds": WIRE_50,
        "clusteredIndex": WIRE_60,
        "changeStreamPreAndPostImages": WIRE_60,
        "encryptedFields": WIRE_60,
    },
    "collMod": {
        "timeseries": WIRE_50,
        "expireAfterSeconds": WIRE_50,
        "changeStreamPreAndPostImages": WIRE_60,
        "index.prepareUnique": WIRE_60,
        "index.unique": WIRE_60,
    },
    "$changeStream": {"showExpandedEvents": WIRE_60, "fullDocumentBeforeChange": WIRE_60},
}
"""Fields of commands, and of objects in them behind a dot."""

STAGES: Final[Mapping[str, int]] = {
    "$unionWith": WIRE_44,
    "$setWindowFields": WIRE_50,
    "$densify": WIRE_60,
    "$documents": WIRE_60,
    "$fill": WIRE_60,
    "$changeStreamSplitLargeEvent": WIRE_70,
    "$listSearchIndexes": WIRE_70,
    "$vectorSearch": WIRE_70,
}
"""Stages of pipelines."""

IMAGES: Final = WIRE_60
"""Since when a change stream's `fullDocument` may be `whenAvailable` or `required`."""


def fit(spec: CommandSpec, wire_version: int) -> CommandSpec:
    """Return a command as a release knows it: without the fields that are newer."""
    newer = _newer(spec.name, wire_version)
    if not newer or spec.fields is None:
        return spec
    return replace(spec, fields=_without(spec.fields, newer))


def fit_fields(fields: Fields, name: str, wire_version: int) -> Fields:
    """Return the fields of a stage as a release knows them."""
    newer = _newer(name, wire_version)
    return _without(fields, newer) if newer else fields


def _newer(name: str, wire_version: int) -> frozenset[str]:
    return frozenset(path for path, since in FIELDS.get(name, {}).items() if since > wire_version)


def _without(fields: Fields, paths: frozenset[str], prefix: str = "") -> Fields:
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

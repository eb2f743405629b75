"""The `$geoNear` stage: the documents by their distance, which becomes a field of theirs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.filters import geo_shapes
from fakeserver.storage.filters.geo_operators import Near, nearest
from fakeserver.storage.filters.geo_shapes import BadShapeError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.stages.projecting import set_computed
from fakeserver.storage.values.metadata import DISTANCE, POINT
from fakeserver.storage.values.paths import split
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import copy_value, is_number, is_object, truthy, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.storage.port.engine import IndexSpec, Scope

    Document: TypeAlias = dict[str, Any]

_NO_OBJECT: Final = 10065
_NO_NEAR: Final = 5860400
_NO_DISTANCE_FIELD: Final = 16606
_GONE: Final = {"limit": 50858, "num": 50857, "start": 50856}
_DISALLOWED: Final = frozenset({"$near", "$nearSphere", "$geoNear"})
_KNOWN: Final = frozenset({
    "near", "distanceField", "spherical", "maxDistance", "minDistance", "query", "distanceMultiplier",
    "includeLocs", "key", "uniqueDocs",
})  # fmt: skip


def compile_geo_near(argument: Any, scope: Scope) -> Callable[[list[Document]], list[Document]]:
    """Return the stage. Raises `CommandError` for options or indexes that do not fit."""
    if not is_object(argument):
        raise CommandError(
            _NO_OBJECT, f"invalid parameter: expected an object ($geoNear), found {type_name(argument)}"
        )
    _check_options(argument)
    near = _near(argument)
    accepts = compile_filter(argument.get("query") or {}, scope)
    multiplier = geo_shapes.number(argument.get("distanceMultiplier", 1.0))
    distance_field, location_field = split(argument["distanceField"]), argument.get("includeLocs")
    metadata = scope.metadata

    def run(documents: list[Document]) -> list[Document]:
        # Not before: a view may be made before its index.
        parts = split(_key(argument, near, scope.indexes))
        found: list[tuple[float, Document]] = []
        for document in documents:
            reached = nearest(near, document, parts) if accepts(document) else None
            if reached is None:
                continue
            distance, location = reached[0] * multiplier, reached[1]
            shown = copy_value(document)
            set_computed(shown, distance_field, distance)
            if location_field is not None:
                set_computed(shown, split(location_field), copy_value(location))
            if metadata is not None:
                metadata.note(DISTANCE, document, distance)
                metadata.note(POINT, document, location)
            found.append((distance, shown))
        return [document for _distance, document in sorted(found, key=lambda pair: pair[0])]

    return run


def _check_options(argument: dict[str, Any]) -> None:
    for name, code in _GONE.items():
        if name in argument:
            raise CommandError(
                code, f"$geoNear no longer supports the '{name}' parameter. Use a $limit stage instead."
            )
    unknown = next((name for name in argument if name not in _KNOWN), None)
    if unknown is not None:
        raise CommandError(ErrorCode.BAD_VALUE, f"Unknown argument to $geoNear: {unknown}")
    if "near" not in argument:
        raise CommandError(_NO_NEAR, "$geoNear requires a 'near' argument")
    if type(argument.get("distanceField")) is not str:
        raise CommandError(_NO_DISTANCE_FIELD, "$geoNear requires a 'distanceField' option as a String")
    _check_types(argument)
    for name, condition in (argument.get("query") or {}).items():
        if isinstance(condition, dict) and _DISALLOWED.intersection(condition):
            raise CommandError(
                ErrorCode.BAD_VALUE,
                f"$geoNear 'query' cannot contain a $near predicate: {show({name: condition})}",
            )


def _check_types(argument: dict[str, Any]) -> None:
    for name in ("maxDistance", "minDistance", "distanceMultiplier"):
        value = argument.get(name, 1)
        if not is_number(value) or not geo_shapes.number(value) >= 0:
            raise CommandError(
                ErrorCode.TYPE_MISMATCH, f"$geoNear parameter '{name}' must be a non-negative number"
            )
    for name, kind in (("query", dict), ("includeLocs", str), ("key", str)):
        if name in argument and not isinstance(argument[name], kind):
            wanted = "an object" if kind is dict else "of type string"
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"$geoNear parameter '{name}' must be {wanted} but found type: {type_name(argument[name])}",
            )
    if argument.get("key") == "":
        raise CommandError(ErrorCode.BAD_VALUE, "$geoNear parameter 'key' cannot be the empty string")


def _near(argument: dict[str, Any]) -> Near:
    value = argument["near"]
    if isinstance(value, dict) and "$geometry" in value:
        value = value["$geometry"]
    least = geo_shapes.number(argument.get("minDistance", 0.0))
    most = geo_shapes.number(argument.get("maxDistance", math.inf))
    try:
        shape = geo_shapes.parse(value)
    except BadShapeError as error:
        raise CommandError(ErrorCode.BAD_VALUE, f"invalid argument to $geoNear: {error}") from None
    if not shape.is_point:
        raise CommandError(ErrorCode.BAD_VALUE, f"$geoNear requires a point, given {show(value)}")
    metres = not shape.legacy
    spherical = metres or truthy(argument.get("spherical", False))
    return Near(shape.points[0], spherical=spherical, metres=metres, least=least, most=most)


def _key(argument: dict[str, Any], near: Near, indexes: Sequence[IndexSpec]) -> str:
    """Return the field to search: the option `key`, else that of the collection's one geographic index."""
    wanted = argument.get("key")
    kinds = ("2dsphere",) if near.metres else ("2d", "2dsphere")
    for kind in kinds:
        fields = {
            name
            for index in indexes
            for name, how in index.key.items()
            if how == kind and wanted in (None, name)
        }
        if len(fields) > 1:
            raise CommandError(
                ErrorCode.INDEX_NOT_FOUND,
                f"There is more than one {kind} index; unsure which to use for $geoNear",
            )
        if fields:
            return fields.pop()
    raise CommandError(
        ErrorCode.INDEX_NOT_FOUND,
        "unable to find index for $geoNear query"
        if wanted is not None
        else "$geoNear requires a 2d or 2dsphere index, but none were found",
    )

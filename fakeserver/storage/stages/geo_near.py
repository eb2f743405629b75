"""The `$geoNear` stage: the documents by their distance, which becomes a field of theirs.

The stage needs a geographic index, as on a server: without one it fails (27, or 291 where none serves the
search), although nothing here is read by it. Which index serves is a question of units: a GeoJSON point is
searched in metres by a `2dsphere` index, a legacy pair in radians on the sphere (`spherical: true`) by
either, or on the flat map by a `2d` index alone. Documents that `query` accepts are measured and sorted by
distance; those at the same distance stay in natural order.

`near` and the two bounds are expressions. Where they are constants they are checked when the stage is
compiled; where a variable of a `$lookup` decides, for each run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.profile import WIRE_82
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.functions import is_constant
from fakeserver.storage.filters import geo_shapes
from fakeserver.storage.filters.geo_operators import Near, nearest
from fakeserver.storage.filters.geo_shapes import POINT as POINT_TYPE
from fakeserver.storage.filters.geo_shapes import BadShapeError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.values.metadata import DISTANCE, POINT
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.paths import set_nested, split, stage_path
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import copy_value, is_number, is_object, truthy, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.storage.port.engine import Evaluate, IndexSpec, Scope

    Document: TypeAlias = dict[str, Any]

_NO_OBJECT: Final = 10065
_NO_NEAR: Final = 5860400
_NEAR_OF_ANOTHER_TYPE: Final = 5860401
_NEAR_CHANGES: Final = 5860402
_NO_DISTANCE_FIELD: Final = 16606
_NO_LOCATION_FIELD: Final = 16607
_OFF_THE_MAP: Final = 16433
_SORTS: Final = 5626500
_KEY_TOO_DEEP: Final = 5729100
_PATH_TOO_DEEP: Final = 5984700
_BOUND_CHANGES: Final = {"minDistance": 7555701, "maxDistance": 7555702}
# Options of older releases, each refused by a code of its own, with advice.
_GONE: Final = {"limit": 50858, "num": 50857, "start": 50856}
_SEARCHES: Final = frozenset({"$near", "$nearSphere", "$geoNear"})
_NOT_IN_A_QUERY: Final = frozenset({"$text", "$where"})
_KNOWN: Final = frozenset({
    "near", "distanceField", "spherical", "maxDistance", "minDistance", "query", "distanceMultiplier",
    "includeLocs", "key", "uniqueDocs",
})  # fmt: skip
# Degrees of longitude to either side; of latitude half as many.
_EDGE: Final = 180.0
_LONGEST_KEY: Final = 180
_LONGEST_PATH: Final = 199
_PAIR_AND_DISTANCE: Final = 3


def compile_geo_near(argument: Any, scope: Scope) -> Callable[[list[Document]], list[Document]]:
    """Return the stage. Raises `CommandError` for options or indexes that do not fit."""
    if isinstance(argument, list):
        # A server reads an array as a document whose fields are its positions, and misses `near` in it.
        argument = {str(index): item for index, item in enumerate(argument)}
    if not is_object(argument):
        raise CommandError(
            _NO_OBJECT, f"invalid parameter: expected an object ($geoNear), found {type_name(argument)}"
        )
    _check_options(argument, optional=not scope.release or scope.release >= WIRE_82)
    near = _near(argument, scope) if _is_fixed(argument, scope) else None
    accepts = compile_filter(argument.get("query") or {}, scope)
    multiplier = geo_shapes.number(argument.get("distanceMultiplier", 1.0))
    distance_field, location_field = (
        _path(argument[name]) if name in argument else None for name in ("distanceField", "includeLocs")
    )
    if "key" in argument and len(stage_path(argument["key"])) > _LONGEST_KEY:
        raise CommandError(
            _KEY_TOO_DEEP,
            f"key field path must have at most {_LONGEST_KEY} components to be searched by $geoNear",
        )
    metadata = scope.metadata

    def run(documents: list[Document]) -> list[Document]:
        # Not before: a view may be made before its index.
        centre = near or _near(argument, scope)
        parts = split(_key(argument, centre, scope.indexes))
        found: list[tuple[float, Document]] = []
        for document in documents:
            reached = nearest(centre, document, parts) if accepts(document) else None
            if reached is None:
                continue
            distance, location = reached[0] * multiplier, reached[1]
            shown = dict(document)
            if distance_field is not None:
                set_nested(shown, distance_field, distance)
            if location_field is not None:
                set_nested(shown, location_field, copy_value(location))
            if metadata is not None:
                # Under the document that came in: `$meta` is asked by the `_id`, which the stage does not
                # change.
                metadata.note(DISTANCE, document, distance)
                metadata.note(POINT, document, location)
            found.append((distance, shown))
        return [document for _distance, document in sorted(found, key=lambda pair: pair[0])]

    return run


def _check_options(argument: dict[str, Any], *, optional: bool) -> None:
    """Refuse options; where it is not `optional`, a field for the distance must be named.

    Options that are gone come first, then what is missing, then what is unknown, as in a server: of several
    mistakes it tells the first in this order, wherever they stand. Since 8.2 the distance need not be
    stored.
    """
    for name, code in _GONE.items():
        if name in argument:
            raise CommandError(
                code, f"$geoNear no longer supports the '{name}' parameter. Use a $limit stage instead."
            )
    if "near" not in argument:
        raise CommandError(_NO_NEAR, "$geoNear requires a 'near' argument")
    unknown = next((name for name in argument if name not in _KNOWN), None)
    if unknown is not None:
        raise CommandError(ErrorCode.BAD_VALUE, f"Unknown argument to $geoNear: {unknown}")
    if type(argument.get("distanceField", "" if optional else None)) is not str:
        raise CommandError(_NO_DISTANCE_FIELD, "$geoNear requires a 'distanceField' option as a String")
    if type(argument.get("includeLocs", "")) is not str:
        raise CommandError(_NO_LOCATION_FIELD, "$geoNear requires that 'includeLocs' option is a String")
    if "distanceMultiplier" in argument:
        _check_distance("distanceMultiplier", argument["distanceMultiplier"])
    for name, kind, wanted in (("query", "object", "an object"), ("key", "string", "of type string")):
        if name in argument and type_name(argument[name]) != kind:
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"$geoNear parameter '{name}' must be {wanted} but found type: {type_name(argument[name])}",
            )
    if argument.get("key") == "":
        raise CommandError(ErrorCode.BAD_VALUE, "$geoNear parameter 'key' cannot be the empty string")
    _check_query(argument.get("query"))


def _check_query(condition: Any) -> None:
    """Refuse what no query of the stage may hold. Raises `CommandError` 5626500 or 2.

    The stage itself is a search that sorts, and a query can have one only. What stands within `$expr` is no
    filter, so that a field called `$near` there is another error.
    """
    if isinstance(condition, list):
        for item in paced(condition):
            _check_query(item)
    if not isinstance(condition, dict):
        return
    for name, value in condition.items():
        if name in _SEARCHES:
            raise CommandError(
                _SORTS,
                "$geoNear, $near, and $nearSphere are not allowed in this context, as these operators require"
                " sorting geospatial data. If you do not need sort, consider using $geoWithin instead.",
            )
        if name in _NOT_IN_A_QUERY:
            raise CommandError(ErrorCode.BAD_VALUE, f"{name} is not allowed in the 'query' of $geoNear")
        if name != "$expr":
            _check_query(value)


def _check_distance(name: str, value: Any) -> float:
    """Return a distance, or a factor of one. Raises `CommandError` 14 for no number, 2 for one below 0."""
    if not is_number(value):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH, f"$geoNear parameter '{name}' must be a non-negative number"
        )
    found = geo_shapes.number(value)
    if not found >= 0:
        raise CommandError(ErrorCode.BAD_VALUE, f"$geoNear parameter '{name}' must be nonnegative")
    return found


def _path(value: str) -> tuple[str, ...]:
    """Return the parts of a field that the stage adds. Raises `CommandError` for one that cannot be."""
    parts = stage_path(value)
    if len(parts) > _LONGEST_PATH:
        raise CommandError(_PATH_TOO_DEEP, "FieldPath concat would be too long")
    return parts


def _is_fixed(argument: dict[str, Any], scope: Scope) -> bool:
    """Return whether no variable, whose value is known when the stage runs, decides where it searches.

    A `$lookup` gives them other values for each document. Raises `CommandError` for what is no expression.

    Each of the expressions is compiled here even so, since a mistake in one is the command's whether the
    stage runs or not.
    """
    names = [name for name in ("near", *_BOUND_CHANGES) if name in argument]
    for name in names:
        _expression(name, argument, scope)
    return all(is_constant(argument[name], scope.names()) for name in names)


def _expression(name: str, argument: dict[str, Any], scope: Scope) -> Evaluate:
    """Return an option that is an expression. Raises `CommandError` if it depends on a document."""
    evaluate = compile_expression(argument[name], scope)
    if not is_constant(argument[name]):
        code = _BOUND_CHANGES.get(name, _NEAR_CHANGES)
        raise CommandError(code, f"$geoNear requires {name} to be a constant expression")
    return evaluate


def _near(argument: dict[str, Any], scope: Scope) -> Near:
    """Return the search. Raises `CommandError` 5860401 for what is no place, 2 for one that cannot be.

    A GeoJSON point is always on the sphere, whatever `spherical` says.
    """
    value = _expression("near", argument, scope)(scope.frame({}))
    if not isinstance(value, dict | list):
        raise CommandError(
            _NEAR_OF_ANOTHER_TYPE,
            "$geoNear requires near argument to be a GeoJSON object or a legacy point(array)",
        )
    bounds = {"minDistance": 0.0, "maxDistance": math.inf}
    if isinstance(value, list) and len(value) >= _PAIR_AND_DISTANCE:
        # A legacy pair may be followed by how far to look.
        if len(value) > _PAIR_AND_DISTANCE:
            raise CommandError(ErrorCode.BAD_VALUE, f"geo near accepts just one argument: {show(value)}")
        bounds["maxDistance"] = _check_distance("maxDistance", value[-1])
    for name in _BOUND_CHANGES:
        if name in argument:
            bounds[name] = _check_distance(name, _expression(name, argument, scope)(scope.frame({})))
    least, most = bounds["minDistance"], bounds["maxDistance"]
    try:
        shape = geo_shapes.parse(_as_point(value))
    except BadShapeError as error:
        raise CommandError(ErrorCode.BAD_VALUE, f"invalid argument to $geoNear: {error}") from None
    if not shape.is_point:
        raise CommandError(ErrorCode.BAD_VALUE, f"$geoNear requires a point, given {show(value)}")
    metres = not shape.legacy
    spherical = metres or truthy(argument.get("spherical", False))
    longitude, latitude = shape.points[0]
    if spherical and not (abs(longitude) <= _EDGE and abs(latitude) <= _EDGE / 2):
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"invalid argument to $geoNear: longitude/latitude is out of bounds: {show(value)}",
        )
    return Near(shape.points[0], spherical=spherical, metres=metres, least=least, most=most)


def _as_point(value: Any) -> Any:
    """Return GeoJSON as it is read here: it need not say that it is a point, and numbers may have names."""
    coordinates = value.get("coordinates") if isinstance(value, dict) else None
    if not isinstance(coordinates, dict | list) or value.get("type", POINT_TYPE) != POINT_TYPE:
        return value
    numbers = list(coordinates.values()) if isinstance(coordinates, dict) else coordinates
    return {**value, "type": POINT_TYPE, "coordinates": numbers}


def _key(argument: dict[str, Any], near: Near, indexes: Sequence[IndexSpec]) -> str:
    """Return the field to search: the option `key`, else that of the collection's one geographic index.

    Raises `CommandError` 27 where no index or several could be meant, 291 where the field's is of the wrong
    kind, and 16433 for a point outside of a `2d` index's map, whose edges are options of the index.
    """
    field = argument.get("key") or _only_field(indexes)
    # The flat map is searched by its own index, the sphere by either, in metres by its own alone.
    kinds = frozenset({"2dsphere"} if near.metres else {"2d", "2dsphere"} if near.spherical else {"2d"})
    usable = [index for index in indexes if index.key.get(field) in kinds]
    if not usable:
        raise CommandError(
            ErrorCode.NO_QUERY_EXECUTION_PLANS,
            "error processing query: planner returned error :: caused by :: unable to find index for $geoNear"
            " query",
        )
    if not near.spherical:
        index = usable[0]
        least = geo_shapes.number(index.document.get("min", -_EDGE))
        most = geo_shapes.number(index.document.get("max", _EDGE))
        if not all(least <= each <= most for each in near.center):
            raise CommandError(_OFF_THE_MAP, f"point not in interval of [ {least:g}, {most:g} ]")
    return field


def _only_field(indexes: Sequence[IndexSpec]) -> str:
    """Return the one field that has a geographic index. Raises `CommandError` 27.

    A `2d` index is preferred to a `2dsphere` one; several of a kind leave open which is meant, and are an
    error like none.
    """
    for kind in ("2d", "2dsphere"):
        fields = [name for index in indexes for name, how in index.key.items() if how == kind]
        if len(fields) > 1:
            raise CommandError(
                ErrorCode.INDEX_NOT_FOUND,
                f"There is more than one {kind} index; unsure which to use for $geoNear",
            )
        if fields:
            return fields[0]
    raise CommandError(
        ErrorCode.INDEX_NOT_FOUND, "$geoNear requires a 2d or 2dsphere index, but none were found"
    )

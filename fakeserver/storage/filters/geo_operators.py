"""The geographic operators of filters, and the `$geoNear` stage.

`compile_geo` sees the whole condition of a field, as `$near` reads the distances beside it. What comes of
it is tested against each geometry at the path: one that passes is enough. Values that are no geometry never
pass, and fail nothing.

Three kinds of surface: `$geometry` and `$centerSphere` are on the sphere; `$box`, `$polygon` and `$center`
are on the flat map, where only points lie. Units go with the way a place is written: metres around GeoJSON;
around a legacy pair radians on the sphere (`$nearSphere`, `$centerSphere`), and the map's own units, mostly
degrees, else.

A search is a predicate, and does not sort. It notes distances in `Scope.metadata`, by which the caller
orders the documents (`nearest` is the stage's way). Shapes that are malformed are BadValue (2), except for
the codes of legacy distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.filters import geo_shapes
from fakeserver.storage.filters.geo_shapes import (
    EARTH_RADIUS_METRES,
    MULTI_POLYGON,
    POLYGON,
    BadShapeError,
    GeoShape,
    SphericalArea,
    flat_distance,
    flat_polygon,
    radians_between,
    radians_to,
)
from fakeserver.storage.filters.match_operators import DISTANCES, NEAR
from fakeserver.storage.values.metadata import DISTANCE, POINT
from fakeserver.storage.values.paths import read
from fakeserver.storage.values.printing import show, show_field
from fakeserver.storage.values.types import is_number
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeserver.storage.filters.geo_shapes import Pair
    from fakeserver.storage.port.engine import Scope

    Test: TypeAlias = Callable[[GeoShape], bool]
    Predicate: TypeAlias = Callable[[Any], bool]


def compile_geo(
    operator: str, condition: Mapping[str, Any], scope: Scope, parts: tuple[str, ...]
) -> Predicate:
    """Return a geographic operator of a field's condition as a predicate. Raises `CommandError` 2."""
    try:
        if operator in NEAR:
            return near_predicate(parse_near(operator, condition), scope, parts)
        if len(condition) > 1:
            extra = next(name for name in condition if name != operator)
            raise CommandError(
                ErrorCode.BAD_VALUE, f"can't parse extra field: {show_field(extra, condition[extra])[1:-1]}"
            )
        test = (
            _intersects(condition[operator]) if operator == "$geoIntersects" else _within(condition[operator])
        )
    except BadShapeError as error:
        raise CommandError(ErrorCode.BAD_VALUE, str(error)) from None
    return lambda document: any(test(shape) for _value, shape in geometries_of(document, parts))


def geometries_of(document: Any, parts: tuple[str, ...]) -> Iterator[tuple[Any, GeoShape]]:
    """Yield the geometries at a path, each with the value that states it."""
    for value in read(document, parts):
        for each in geo_shapes.candidates(value):
            shape = geo_shapes.stored(each)
            if shape is not None:
                yield each, shape


# Within and intersects.


def _within(argument: Any) -> Test:
    if not isinstance(argument, dict) or not argument:
        raise CommandError(ErrorCode.BAD_VALUE, f"unknown geo specifier: {show(argument)}")
    # `$uniqueDocs` is an old option without effect; alone it is no shape.
    shapes = [item for item in argument.items() if item[0] != "$uniqueDocs"]
    (specifier, value), *others = shapes or [("$uniqueDocs", argument)]
    if others:
        raise CommandError(ErrorCode.BAD_VALUE, f"can't parse extra field: {show_field(*others[0])[1:-1]}")
    if specifier == "$geometry":
        shape = _query_geometry(value)
        # Nothing lies within a line or a point.
        if shape.type not in {POLYGON, MULTI_POLYGON}:
            raise CommandError(
                ErrorCode.BAD_VALUE, f"$within not supported with provided geometry: {show(argument)}"
            )
        return _area(shape, value).covers
    form = _FLAT.get(specifier)
    if form is None:
        raise CommandError(ErrorCode.BAD_VALUE, f"unknown geo specifier: {specifier}: {show(value)}")
    return form(value)


def _intersects(argument: Any) -> Test:
    if not isinstance(argument, dict) or "$geometry" not in argument:
        raise CommandError(ErrorCode.BAD_VALUE, f"$geoIntersects needs a $geometry: {show(argument)}")
    return _area(_query_geometry(argument["$geometry"]), argument["$geometry"]).meets


def _query_geometry(value: Any) -> GeoShape:
    """Return a geometry of a query: GeoJSON, whose type is a point by default, or a legacy pair."""
    if isinstance(value, dict) and "type" not in value and "coordinates" in value:
        value = {"type": geo_shapes.POINT, **value}
    pair = None if geo_shapes.is_geojson(value) else _flat_point(value)
    if pair is not None:
        return pair
    if not geo_shapes.is_geojson(value):
        raise CommandError(ErrorCode.BAD_VALUE, f"unknown GeoJSON type: {show(value)}")
    return geo_shapes.parse_geojson(value, winding=True)


def _area(shape: GeoShape, value: Any) -> SphericalArea:
    """Return a query's area; a ring that crosses itself is refused (2), as indexes do in documents."""
    try:
        return SphericalArea(shape)
    except ValueError as error:
        raise CommandError(ErrorCode.BAD_VALUE, f"{error}: {show(value)}") from None


def _points(value: Any, name: str, least: int) -> list[Pair]:
    """Return the corners of a flat shape; there are `least` of them, and more are let pass."""
    items = list(value.values()) if isinstance(value, dict) else value
    shapes = [_flat_point(each) for each in items] if isinstance(items, list) else []
    found = [shape.points[0] for shape in shapes if shape is not None]
    if len(found) < least or len(found) != len(shapes):
        raise BadShapeError(f"Point must be an array or object: {name}: {show(value)}")
    return found


def _flat_point(value: Any) -> GeoShape | None:
    """Return a pair of coordinates, None for what is none. Raises `BadShapeError` for a third one."""
    if isinstance(value, dict | list) and len(value) > 2 and not geo_shapes.is_geojson(value):  # noqa: PLR2004 -- a pair
        raise BadShapeError(f"Point must only contain two numeric elements: {show(value)}")
    return geo_shapes.legacy(value)


def _on_points(holds: Callable[[Pair], bool]) -> Test:
    """Return a test that only single points can pass: nothing else lies on the flat map."""
    return lambda shape: shape.is_point and holds(shape.points[0])


def _box(value: Any) -> Test:
    (left, bottom), (right, top) = _points(value, "$box", 2)[:2]
    # The corners may be any two that are opposite.
    xs, ys = sorted((left, right)), sorted((bottom, top))
    return _on_points(lambda pair: xs[0] <= pair[0] <= xs[1] and ys[0] <= pair[1] <= ys[1])


def _circle(value: Any, name: str) -> tuple[Pair, float]:
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list) or len(items) != 2 or not is_number(items[1]):  # noqa: PLR2004 -- a center, a radius
        raise BadShapeError(f"{name} must be an array of a point and a radius: {show(value)}")
    radius = geo_shapes.number(items[1])
    # Written so that NaN is refused too.
    if not radius >= 0:
        raise BadShapeError("radius must be a non-negative number")
    return _single(_flat_point(items[0]) or geo_shapes.parse(items[0])), radius


def _single(shape: GeoShape) -> Pair:
    if not shape.is_point:
        raise BadShapeError("a point is needed, not another shape")
    return shape.points[0]


def _center(value: Any) -> Test:
    center, radius = _circle(value, "$center")
    return _on_points(lambda pair: flat_distance(center, pair) <= radius)


def _center_sphere(value: Any) -> Test:
    """Return `$centerSphere`: whether all vertices of a shape are within a radius, in radians."""
    center, radius = _circle(value, "$centerSphere")
    if not geo_shapes.is_on_globe(center):
        raise BadShapeError(f"Spherical circle would require (unimplemented) splitting: {show(value)}")
    return lambda shape: all(radians_between(center, vertex) <= radius for vertex in shape.vertices())


_FLAT: Final[dict[str, Callable[[Any], Test]]] = {
    "$box": _box,
    "$polygon": lambda value: _on_points(flat_polygon(_points(value, "$polygon", 3))),
    "$center": _center,
    "$centerSphere": _center_sphere,
}


# Near.


@dataclass(frozen=True, slots=True)
class Near:
    """A search for what is near: distances are metres around GeoJSON, else radians or the map's own units."""

    center: Pair
    spherical: bool
    metres: bool
    least: float = 0.0
    most: float = math.inf

    def distance(self, shape: GeoShape) -> float | None:
        """Return the distance of a shape, None if it is too near or too far, or not on the flat map."""
        if self.spherical:
            # Servers count in metres first, which moves the last digit of some radians.
            found = radians_to(self.center, shape) * EARTH_RADIUS_METRES
            found = found if self.metres else found / EARTH_RADIUS_METRES
        elif shape.is_point:
            found = flat_distance(self.center, shape.points[0])
        else:
            return None
        return found if self.least <= found <= self.most else None


_NEAR_ALONE: Final = 34413
_NEAR_FLAT: Final = 16681
_NEGATIVE_THIRD: Final = 18522
_LEGACY_CODES: Final = {"$minDistance": (16893, 16894), "$maxDistance": (16895, 16896)}
"""For each distance the codes for no number, and for a negative one."""


def parse_near(operator: str, condition: Mapping[str, Any]) -> Near:
    """Return what a field's condition searches for. Raises `CommandError` 2, `BadShapeError`."""
    value = condition[operator]
    if not isinstance(value, dict | list) or next(iter(condition)) != operator:
        raise CommandError(ErrorCode.BAD_VALUE, f"near must be first in: {show(condition)}")
    for name in condition:
        if name not in NEAR and name not in DISTANCES and name != "$uniqueDocs":
            raise CommandError(_NEAR_ALONE, f"invalid argument in geo near query: {name}")
    if isinstance(value, dict) and "$geometry" in value:
        return _near_geometry(condition, value)
    if geo_shapes.is_geojson(value):
        least, most = _legacy_bounds(condition)
        center = _single(geo_shapes.parse_geojson(value))
        return Near(center, spherical=True, metres=True, least=least, most=most)
    found = geo_shapes.legacy(value)
    if found is None:
        raise CommandError(
            ErrorCode.BAD_VALUE, f"invalid point in geo near query $geometry argument: {show(value)}"
        )
    spherical = operator == "$nearSphere"
    if spherical and not geo_shapes.is_on_globe(found.points[0]):
        raise CommandError(ErrorCode.BAD_VALUE, "Legacy point is out of bounds for spherical query")
    items = list(value.values()) if isinstance(value, dict) else value
    # `[x, y, distance]`: a third number is the greatest distance, unless there is a `$maxDistance`.
    third = {"$maxDistance": items[2]} if len(items) > 2 and is_number(items[2]) else {}  # noqa: PLR2004 -- a pair, and a distance
    if third and not geo_shapes.number(items[2]) >= 0:
        raise CommandError(_NEGATIVE_THIRD, "max distance must be non-negative")
    least, most = _legacy_bounds({**third, **condition})
    return Near(found.points[0], spherical=spherical, metres=False, least=least, most=most)


def _near_geometry(condition: Mapping[str, Any], value: Mapping[str, Any]) -> Near:
    """Return the search of `{$geometry: …, $minDistance: …, $maxDistance: …}`."""
    if len(condition) > 1:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            "geo near accepts just one argument when querying for a GeoJSON point. Extra field found: "
            f"{show_field(*list(condition.items())[1])[1:-1]}",
        )
    for name in value:
        if name != "$geometry" and name not in DISTANCES:
            raise CommandError(ErrorCode.BAD_VALUE, f"invalid argument in geo near query: {name}")
    shape = _query_geometry(value["$geometry"])
    if shape.legacy:
        raise CommandError(_NEAR_FLAT, f"$near requires geojson point, given {show(value['$geometry'])}")
    if not shape.is_point:
        raise CommandError(ErrorCode.BAD_VALUE, f"$near requires a point, given {show(value['$geometry'])}")
    least, most = (
        _distance(name, value.get(name, default), (ErrorCode.BAD_VALUE,) * 2, finite=name in value)
        for name, default in _DISTANCES
    )
    return Near(shape.points[0], spherical=True, metres=True, least=least, most=most)


_DISTANCES: Final = (("$minDistance", 0.0), ("$maxDistance", math.inf))


def _legacy_bounds(options: Mapping[str, Any]) -> tuple[float, float]:
    least, most = (
        _distance(name, options.get(name, default), _LEGACY_CODES[name]) for name, default in _DISTANCES
    )
    return least, most


def _distance(name: str, value: Any, codes: tuple[int, int], *, finite: bool = False) -> float:
    """Return a distance. Raises `CommandError`: one code for what is no number, one for what is none."""
    if not is_number(value):
        raise CommandError(codes[0], f"{name} must be a number")
    distance = geo_shapes.number(value)
    # NaN is refused by this too. Infinity is a bound that the default has, and in `$geometry` nobody may
    # state.
    if not distance >= 0 or (finite and math.isinf(distance)):
        raise CommandError(codes[1], f"{name} must be non-negative")
    return distance


def nearest(near: Near, document: Any, parts: tuple[str, ...]) -> tuple[float, Any] | None:
    """Return the least distance of a document's geometries, and that geometry; None if none is in reach.

    An array of points counts by its nearest one. The cost is one distance for each geometry.
    """
    reached = [
        (distance, value)
        for value, shape in geometries_of(document, parts)
        for distance in (near.distance(shape),)
        if distance is not None
    ]
    return min(reached, key=lambda pair: pair[0], default=None)


def near_predicate(near: Near, scope: Scope, parts: tuple[str, ...]) -> Predicate:
    """Return a search as a predicate, which notes each document's distance and geometry."""
    metadata = scope.metadata

    def matches(document: Any) -> bool:
        found = nearest(near, document, parts)
        if found is not None and metadata is not None:
            metadata.note(DISTANCE, document, found[0])
            metadata.note(POINT, document, found[1])
        return found is not None

    return matches

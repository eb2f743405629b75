"""Geometries in documents and in queries: GeoJSON and legacy pairs, read and checked.

Longitude comes first. Coordinates are degrees.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeGuard

from fakeserver.errors import CommandError
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import is_number
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair: TypeAlias = tuple[float, float]

POINT: Final = "Point"
MULTI_POINT: Final = "MultiPoint"
LINE: Final = "LineString"
MULTI_LINE: Final = "MultiLineString"
POLYGON: Final = "Polygon"
MULTI_POLYGON: Final = "MultiPolygon"
COLLECTION: Final = "GeometryCollection"

_TYPES: Final = frozenset({POINT, MULTI_POINT, LINE, MULTI_LINE, POLYGON, MULTI_POLYGON, COLLECTION})
_CRS: Final = frozenset({"urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326"})
_STRICT_CRS: Final = "urn:x-mongodb:crs:strictwinding:EPSG:4326"
_TRIANGLE: Final = 4
"""The least number of positions in a ring, whose last is its first again."""


class BadShapeError(ValueError):
    """A value is no geometry; the message says why, as a server does."""


class GeoShape(NamedTuple):
    """A geometry: points, lines (positions) and polygons (rings); `legacy` for a pair of coordinates."""

    type: str
    points: tuple[Pair, ...] = ()
    lines: tuple[tuple[Pair, ...], ...] = ()
    polygons: tuple[tuple[tuple[Pair, ...], ...], ...] = ()
    legacy: bool = False

    @property
    def is_point(self) -> bool:
        """Whether it is one point."""
        return self.type == POINT

    def vertices(self) -> Iterator[Pair]:
        """Yield every position."""
        yield from self.points
        for line in self.lines:
            yield from line
        for rings in self.polygons:
            for ring in rings:
                yield from ring


def is_pair(value: Any) -> bool:
    """Return whether a value is a legacy pair: an array or a document that begins with two numbers."""
    return _pair_of(value) is not None


def _pair_of(value: Any) -> Pair | None:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list) or len(value) < 2:  # noqa: PLR2004 -- a pair
        return None
    x, y = value[:2]
    if not is_number(x) or not is_number(y):
        return None
    pair = number(x), number(y)
    return pair if all(map(math.isfinite, pair)) else None


def number(value: Any) -> float:
    """Return a number of BSON as a float."""
    return float(str(value)) if not isinstance(value, int | float) else float(value)


def legacy(value: Any) -> GeoShape | None:
    """Return a legacy pair as a shape, None for what is none."""
    pair = _pair_of(value)
    return None if pair is None else GeoShape(POINT, (pair,), legacy=True)


def is_geojson(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value says that it is GeoJSON."""
    return isinstance(value, dict) and type(value.get("type")) is str


def parse(value: Any) -> GeoShape:
    """Return a geometry: GeoJSON, else a legacy pair. Raises `BadShapeError`."""
    if is_geojson(value):
        return parse_geojson(value)
    found = legacy(value)
    if found is None:
        raise BadShapeError(f"Point must be an array or object, instead got: {show(value)}")
    return found


def stored(value: Any) -> GeoShape | None:
    """Return what a document holds as a geometry, None for what is none."""
    try:
        return parse(value)
    except BadShapeError:
        return None


def candidates(value: Any) -> Iterator[Any]:
    """Yield what may be a geometry in a field's value: itself, or the elements of an array of points."""
    if isinstance(value, list) and not is_pair(value):
        yield from value
    else:
        yield value


def parse_geojson(value: dict[str, Any]) -> GeoShape:
    """Return GeoJSON as a shape. Raises `BadShapeError`."""
    kind = value.get("type")
    if kind not in _TYPES:
        raise BadShapeError(f"unknown GeoJSON type: {show(value)}")
    _check_crs(value)
    if kind == COLLECTION:
        return _collection(value)
    coordinates = value.get("coordinates")
    if not isinstance(coordinates, list):
        raise BadShapeError(f"GeoJSON coordinates must be an array, instead got: {show(coordinates)}")
    if kind == POINT:
        return GeoShape(POINT, (_position(coordinates),))
    if kind == MULTI_POINT:
        return GeoShape(MULTI_POINT, _positions(coordinates))
    if kind == LINE:
        return GeoShape(LINE, lines=(_line(coordinates),))
    if kind == MULTI_LINE:
        return GeoShape(MULTI_LINE, lines=tuple(_line(each) for each in _nonempty(coordinates, kind)))
    if kind == POLYGON:
        return GeoShape(POLYGON, polygons=(_polygon(coordinates),))
    return GeoShape(MULTI_POLYGON, polygons=tuple(_polygon(each) for each in _nonempty(coordinates, kind)))


def _check_crs(value: dict[str, Any]) -> None:
    crs = value.get("crs")
    if crs is None:
        return
    properties = crs.get("properties") if isinstance(crs, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    if name == _STRICT_CRS:
        raise CommandError(
            ErrorCode.NOT_IMPLEMENTED,
            "polygons larger than a hemisphere are not supported by this fake server",
        )
    if type(name) is not str or name not in _CRS:
        raise BadShapeError(f"Unknown CRS name: {name}")


def _collection(value: dict[str, Any]) -> GeoShape:
    members = value.get("geometries")
    if not isinstance(members, list) or not members:
        raise BadShapeError("GeometryCollection geometries must be a nonempty array")
    parts = []
    for member in members:
        if not is_geojson(member) or member["type"] == COLLECTION:
            raise BadShapeError(f"GeometryCollection geometry is invalid: {show(member)}")
        parts.append(parse_geojson(member))
    return GeoShape(
        COLLECTION,
        tuple(pair for part in parts for pair in part.points),
        tuple(line for part in parts for line in part.lines),
        tuple(polygon for part in parts for polygon in part.polygons),
    )


def _nonempty(value: Any, kind: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise BadShapeError(f"{kind} coordinates must be a nonempty array")
    return value


def _position(value: Any) -> Pair:
    if not isinstance(value, list) or len(value) < 2 or not all(is_number(each) for each in value[:2]):  # noqa: PLR2004
        raise BadShapeError(f"Point must only contain numeric elements, instead got: {show(value)}")
    longitude, latitude = number(value[0]), number(value[1])
    if not (-180 <= longitude <= 180 and -90 <= latitude <= 90):  # noqa: PLR2004 -- degrees
        raise BadShapeError(f"longitude/latitude is out of bounds, lng: {longitude:g} lat: {latitude:g}")
    return longitude, latitude


def _positions(value: Any) -> tuple[Pair, ...]:
    return tuple([_position(each) for each in paced(_nonempty(value, "GeoJSON"))])


def _line(value: Any) -> tuple[Pair, ...]:
    line = _positions(value)
    if len(set(line)) < 2:  # noqa: PLR2004 -- a line has two ends
        raise BadShapeError(f"GeoJSON LineString must have at least 2 vertices: {show(value)}")
    return line


def _polygon(value: Any) -> tuple[tuple[Pair, ...], ...]:
    rings = []
    for each in _nonempty(value, "Polygon"):
        ring = _positions(each)
        if ring[0] != ring[-1]:
            raise BadShapeError(f"Loop is not closed: {show(each)}")
        if len(ring) < _TRIANGLE or len(set(ring)) < _TRIANGLE - 1:
            raise BadShapeError(f"Loop must have at least 3 different vertices: {show(each)}")
        rings.append(ring)
    return tuple(rings)

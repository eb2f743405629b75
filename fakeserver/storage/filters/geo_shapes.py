"""Geometries in documents and in queries: GeoJSON and legacy pairs, read and checked.

Longitude comes first. Coordinates are degrees. Distances and relations are those of a plane or of the sphere.

On the sphere, shapes are drawn in a gnomonic projection around the shape that is asked about: it makes great
circles straight lines, so that what a plane's geometry says of the drawing holds on the sphere, within a
hemisphere. A polygon that winds strictly is what lies to the left of its ring: if the ring goes clockwise,
everything but the polygon that is drawn. Shapes other than points need shapely, from the extra `geo`; this
module is its only door.
"""

from __future__ import annotations

import importlib.util
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeGuard

from fakeserver.errors import CommandError
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import is_number
from fakeserver.waiting.beside import library_beside
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


# Not the mean radius of 6,371 km, which would move each distance by one part in 900.
EARTH_RADIUS_METRES: Final = 6_378_100.0
"""The equator's radius that servers reckon with."""

INSTALL: Final = "pip install 'pushbackd[geo]'"
_HORIZON: Final = 1e-6
"""The cosine of the angle beyond which a point cannot be drawn."""
_TOUCH: Final = 1e-9
"""The distance below which two shapes touch: half a centimetre on the ground."""


def shapely() -> Any:
    """Return the library. Raises `CommandError` 238 where the extra is not installed."""
    if importlib.util.find_spec("shapely") is None:
        raise CommandError(
            ErrorCode.NOT_IMPLEMENTED, f"shapes other than points, boxes and circles need an extra: {INSTALL}"
        )
    return library_beside("shapely")


def radians_between(first: Pair, second: Pair) -> float:
    """Return the angle between two points of the sphere, in radians, as servers reckon it."""
    (ax, ay, az), (bx, by, bz) = _vector(first), _vector(second)
    # The cross product: near 0 and near 180 degrees its length is exact where the arc cosine is not.
    across = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    sine = math.sqrt(across[0] * across[0] + across[1] * across[1] + across[2] * across[2])
    return math.atan2(sine, ax * bx + ay * by + az * bz)


def flat_distance(first: Pair, second: Pair) -> float:
    """Return the distance of two points on the plane, in the units of their coordinates."""
    return math.hypot(second[0] - first[0], second[1] - first[1])


def radians_to(center: Pair, shape: GeoShape) -> float:
    """Return the angle between a point and the nearest of a shape, in radians."""
    if shape.is_point:
        return radians_between(center, shape.points[0])
    # Around the point itself distances on the map grow with the angle (its tangent), so the nearest of the
    # map is that of the sphere.
    drawn = _drawn(shape, _gnomonic(center))
    if drawn is None:
        return min(radians_between(center, vertex) for vertex in shape.vertices())
    return math.atan(float(drawn.distance(shapely().Point(0.0, 0.0))))


class SphericalArea:
    """A query's geometry on the sphere. Raises `CommandError` 238 without the extra, `ValueError` if bad.

    It is made once for a query and asked about each document: what is prepared here makes asking cheap.
    """

    def __init__(self, shape: GeoShape) -> None:
        self._library = shapely()
        self._shape = shape
        self._project = _gnomonic(_middle(shape))
        area = _drawn(shape, self._project)
        if area is None:
            # It reaches round the globe: the map with straight degrees is the best there is.
            self._project = _as_it_is
            area = _drawn(shape, self._project)
        one_ring = [len(rings) for rings in shape.polygons] == [1]
        # A polygon that is no more than a line, or a ring whose ends are apart on the map alone.
        if one_ring and (self._project is _as_it_is or area.convex_hull.area <= _TOUCH**2):
            area = self._library.make_valid(area)
        self._area = area
        ring = getattr(area, "exterior", None)
        self._outside = shape.winds and ring is not None and not ring.is_ccw
        """The area is all that is not drawn."""
        if not all(map(_is_valid, area.geoms if hasattr(area, "geoms") else (area,))):
            raise ValueError("Loop is not valid")
        self._library.prepare(area)

    def covers(self, shape: GeoShape) -> bool:
        """Return whether all of a shape is within the area."""
        drawn = self._draw(shape)
        if drawn is None:
            return self._outside
        if self._outside:
            return not self._meets(drawn, shape)
        return self._covers(drawn, shape)

    def _covers(self, drawn: Any, shape: GeoShape) -> bool:
        """Say whether the drawn area covers a shape; a point on the border counts, in spite of rounding."""
        return bool(self._area.covers(drawn)) or (
            shape.is_point and bool(self._area.distance(drawn) <= _TOUCH)
        )

    def _draw(self, shape: GeoShape) -> Any:
        """Return a document's shape in the area's projection, mended where it crosses itself."""
        drawn = _drawn(shape, self._project)
        return drawn if drawn is None or drawn.is_valid else self._library.make_valid(drawn)

    def meets(self, shape: GeoShape) -> bool:
        """Return whether a shape has a point in common with the area."""
        drawn = self._draw(shape)
        if drawn is None:
            return self._outside
        if self._outside:
            return not self._covers(drawn, shape)
        return self._meets(drawn, shape)

    def _meets(self, drawn: Any, shape: GeoShape) -> bool:
        if self._area.area > 0 and _is_surface(self._shape) and _is_surface(shape):
            # Surfaces that share no more than a border do not meet.
            return bool(self._area.intersection(drawn).area > _TOUCH**2)
        return bool(self._area.intersects(drawn)) or bool(self._area.distance(drawn) <= _TOUCH)


def _is_valid(part: Any) -> bool:
    """Return whether a drawn part is valid; holes share no edge, not even up to rounding, with their ring."""
    holes = part.interiors if hasattr(part, "interiors") else ()
    edge = part.exterior.buffer(_TOUCH) if len(holes) else None
    shared = (hole.intersection(edge).length for hole in holes)
    return bool(part.is_valid) and all(length <= 10 * _TOUCH for length in shared)


def _middle(shape: GeoShape) -> Pair:
    """Return where a map of a shape touches the globe: where the vertices lie on average.

    Straight lines then stay straight. A ring's last position is its first again, and counts once.
    """
    vectors = (_vector(each) for each in dict.fromkeys(shape.vertices()))
    x, y, z = (math.fsum(part) for part in zip(*vectors, strict=True))
    return math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y)))


def crosses_itself(shape: GeoShape) -> bool:
    """Return whether the edges of a polygon cross, as far as it can be drawn; without the extra none do."""
    if not shape.polygons or importlib.util.find_spec("shapely") is None:
        return False
    for rings in shape.polygons:
        one = GeoShape(POLYGON, polygons=(rings,))
        drawn = _drawn(one, _gnomonic(_middle(one)))
        # A polygon that is no more than a line is drawn as one.
        if drawn is None or (len(rings) == 1 and drawn.convex_hull.area <= _TOUCH**2):
            continue
        if not _is_valid(drawn):
            return True
    return False


def _is_surface(shape: GeoShape) -> bool:
    return bool(shape.polygons) and not shape.points and not shape.lines


def flat_polygon(corners: Sequence[Pair]) -> Callable[[Pair], bool]:
    """Return whether a point is in a polygon of the plane, by the number of edges to its right.

    Corners, and edges along an axis, belong to the polygon; of other edges those to its right.
    """
    edges = tuple(zip(corners, (*corners[1:], corners[0]), strict=True))

    def holds(point: Pair) -> bool:
        x, y = point
        inside = False
        for (x1, y1), (x2, y2) in edges:
            between = min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2)
            if point == (x1, y1) or (between and (x1 == x2 or y1 == y2)):
                return True
            if min(y1, y2) < y <= max(y1, y2) and x <= (y - y1) * (x2 - x1) / (y2 - y1) + x1:
                inside = not inside
        return inside

    return holds


def is_on_globe(pair: Pair) -> bool:
    """Return whether a pair is a longitude and a latitude."""
    return -180 <= pair[0] <= 180 and -90 <= pair[1] <= 90  # noqa: PLR2004 -- degrees


def _as_it_is(pair: Pair) -> Pair | None:
    return pair


def _vector(pair: Pair) -> tuple[float, float, float]:
    longitude, latitude = math.radians(pair[0]), math.radians(pair[1])
    across = math.cos(latitude)
    return across * math.cos(longitude), across * math.sin(longitude), math.sin(latitude)


def _gnomonic(center: Pair) -> Callable[[Pair], Pair | None]:
    """Return the projection from the globe's middle onto the plane that touches it at `center`."""
    middle_longitude, middle_latitude = math.radians(center[0]), math.radians(center[1])
    sine, cosine = math.sin(middle_latitude), math.cos(middle_latitude)

    def project(pair: Pair) -> Pair | None:
        longitude, latitude = math.radians(pair[0]) - middle_longitude, math.radians(pair[1])
        above, across = math.sin(latitude), math.cos(latitude)
        depth = sine * above + cosine * across * math.cos(longitude)
        # The point is on the other half of the globe, or so near its edge that the map has no end.
        if depth < _HORIZON:
            return None
        return (
            across * math.sin(longitude) / depth,
            (cosine * above - sine * across * math.cos(longitude)) / depth,
        )

    return project


def _drawn(shape: GeoShape, project: Callable[[Pair], Pair | None]) -> Any:
    """Return a shape in a projection, None where a part of it is beyond the horizon."""
    library = shapely()

    def line(pairs: Iterable[Pair]) -> list[Pair]:
        return [drawn for drawn in map(project, pairs) if drawn is not None]

    if any(project(vertex) is None for vertex in shape.vertices()):
        return None
    parts = [library.Point(pair) for pair in line(shape.points)]
    parts += [library.LineString(line(each)) for each in shape.lines]
    parts += [library.Polygon(line(rings[0]), [line(ring) for ring in rings[1:]]) for rings in shape.polygons]
    return parts[0] if len(parts) == 1 else library.GeometryCollection(parts)


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
    """A geometry: points, lines (positions) and polygons (rings); `legacy` for a pair of coordinates.

    `winds` says that the only ring of a polygon has its inside to the left, however large that is.
    """

    type: str
    points: tuple[Pair, ...] = ()
    lines: tuple[tuple[Pair, ...], ...] = ()
    polygons: tuple[tuple[tuple[Pair, ...], ...], ...] = ()
    legacy: bool = False
    winds: bool = False

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
    """Return the first two numbers of an array or of an object by its fields' order; both are finite."""
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
    """Return a number of BSON as a float.

    By its text, so that a decimal becomes the nearest double.
    """
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
    """Yield what may be a geometry in a field's value: itself, or the elements of an array of points.

    An array that begins with two numbers is one point. Of other arrays each element is looked at, and no
    deeper.
    """
    if isinstance(value, list) and not is_pair(value):
        yield from value
    else:
        yield value


def parse_geojson(value: dict[str, Any], *, winding: bool = False) -> GeoShape:
    """Return GeoJSON as a shape; with `winding`, as in queries, a polygon may wind strictly.

    Raises `BadShapeError`.
    """
    kind = value.get("type")
    if kind not in _TYPES:
        raise BadShapeError(f"unknown GeoJSON type: {show(value)}")
    winds = _crs_of(value) == _STRICT_CRS
    if winds and not winding:
        raise BadShapeError(f"can't index geometry with strict winding order {show(value)}")
    # It has members in place of coordinates.
    if kind == COLLECTION:
        return _collection(value)
    coordinates = value.get("coordinates")
    if not isinstance(coordinates, list) and not (kind == POINT and isinstance(coordinates, dict)):
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
        rings = _polygon(coordinates)
        if winds and len(rings) > 1:
            raise BadShapeError(f"Only one simple loop is allowed in a big polygon: {show(coordinates)}")
        return GeoShape(POLYGON, polygons=(rings,), winds=winds)
    return GeoShape(MULTI_POLYGON, polygons=tuple(_polygon(each) for each in _nonempty(coordinates, kind)))


def _crs_of(value: dict[str, Any]) -> str | None:
    """Return the name of the system of reference, None if none is stated. Raises `BadShapeError`."""
    if "crs" not in value:
        return None
    crs = value["crs"]
    if not isinstance(crs, dict):
        raise BadShapeError(f"GeoJSON CRS must be an object: {show(crs)}")
    if crs.get("type") != "name":
        raise BadShapeError(f'GeoJSON CRS must have field "type": "name": {show(crs)}')
    properties = crs.get("properties")
    name = properties.get("name") if isinstance(properties, dict) else None
    if type(name) is not str or not (name in _CRS or (name == _STRICT_CRS and value["type"] == POLYGON)):
        raise BadShapeError(f"Unknown CRS name: {name}")
    return name


def _collection(value: dict[str, Any]) -> GeoShape:
    """Return the members as one shape of many parts; a collection within a collection is refused."""
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
    """Return a longitude and a latitude; further numbers, such as a height, are passed over."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list) or len(value) < 2 or not all(is_number(each) for each in value[:2]):  # noqa: PLR2004
        raise BadShapeError(f"Point must only contain numeric elements, instead got: {show(value)}")
    longitude, latitude = number(value[0]), number(value[1])
    if not is_on_globe((longitude, latitude)):
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
        # Nothing is closed here: a server refuses a ring that lacks its last position.
        if ring[0] != ring[-1]:
            raise BadShapeError(f"Loop is not closed: {show(each)}")
        if len(ring) < _TRIANGLE or len(set(ring)) < _TRIANGLE - 1:
            raise BadShapeError(f"Loop must have at least 3 different vertices: {show(each)}")
        rings.append(ring)
    return tuple(rings)

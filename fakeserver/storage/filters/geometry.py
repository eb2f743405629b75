"""Distances and relations of geometries, on a plane and on the sphere.

On the sphere, shapes are drawn in a gnomonic projection around the shape that is asked about: it makes great
circles straight lines, so that what a plane's geometry says of the drawing holds on the sphere, within a
hemisphere. Shapes other than points need shapely, from the extra `geo`; this module is its only door.
"""

from __future__ import annotations

import importlib.util
import math
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.waiting.beside import library_beside
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeserver.storage.filters.geo_shapes import GeoShape, Pair

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
    """Return the angle between two points of the sphere, in radians, by the haversine formula."""
    longitude = math.radians(second[0] - first[0])
    low, high = math.radians(first[1]), math.radians(second[1])
    half = math.sin((high - low) / 2) ** 2 + math.cos(low) * math.cos(high) * math.sin(longitude / 2) ** 2
    return 2 * math.asin(min(1.0, math.sqrt(half)))


def flat_distance(first: Pair, second: Pair) -> float:
    """Return the distance of two points on the plane, in the units of their coordinates."""
    return math.hypot(second[0] - first[0], second[1] - first[1])


def radians_to(center: Pair, shape: GeoShape) -> float:
    """Return the angle between a point and the nearest of a shape, in radians."""
    if shape.is_point:
        return radians_between(center, shape.points[0])
    drawn = _drawn(shape, _gnomonic(center))
    if drawn is None:
        return min(radians_between(center, vertex) for vertex in shape.vertices())
    return math.atan(float(drawn.distance(shapely().Point(0.0, 0.0))))


class SphericalArea:
    """A query's geometry on the sphere. Raises `CommandError` 238 without the extra, `ValueError` if bad."""

    def __init__(self, shape: GeoShape) -> None:
        self._library = shapely()
        # The map touches the globe where the vertices lie on average, so that straight lines stay straight.
        vectors = (_vector(each) for each in shape.vertices())
        x, y, z = (math.fsum(part) for part in zip(*vectors, strict=True))
        center = math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y)))
        self._project = _gnomonic(center)
        area = _drawn(shape, self._project)
        if area is None:
            # It reaches round the globe: the map with straight degrees is the best there is.
            self._project = _as_it_is
            area = _drawn(shape, self._project)
        self._area = area
        if not all(part.is_valid for part in (area.geoms if hasattr(area, "geoms") else (area,))):
            raise ValueError("Loop is not valid")
        self._library.prepare(area)

    def covers(self, shape: GeoShape) -> bool:
        """Return whether all of a shape is within the area."""
        drawn = self._draw(shape)
        if drawn is None:
            return False
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
            return False
        return bool(self._area.intersects(drawn)) or bool(self._area.distance(drawn) <= _TOUCH)


def flat_polygon(corners: Iterable[Pair]) -> Callable[[Pair], bool]:
    """Return whether a point is in a polygon of the plane. Raises `CommandError` 238 without the extra."""
    library = shapely()
    area = library.Polygon(list(corners))
    library.prepare(area)
    return lambda pair: bool(area.covers(library.Point(*pair)))


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

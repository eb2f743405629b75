"""Places: near, within, intersects, and what their indexes refuse."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import pytest
from bson import Code, Decimal128
from data_commands import Server
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.storage.filters.geo_shapes import EARTH_RADIUS_METRES, SphericalArea, parse, radians_between

DEGREE = math.radians(1) * EARTH_RADIUS_METRES
CITIES = {
    "Berlin": [13.405, 52.52],
    "Hamburg": [9.993, 53.551],
    "Paris": [2.352, 48.857],
    "Sydney": [151.209, -33.868],
}


def point(*position: float) -> dict[str, Any]:
    return {"type": "Point", "coordinates": list(position)}


def polygon(*corners: list[float]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}


SQUARE = polygon([0, 0], [4, 0], [4, 4], [0, 4])
STRICT = {"name": "urn:x-mongodb:crs:strictwinding:EPSG:4326"}


def holding(kind: str | None, *values: Any) -> Server:
    server = Server()
    if kind is not None:
        server.run({"createIndexes": "c", "indexes": [{"key": {"at": kind}, "name": "at"}]})
    server.fill("c", *({"_id": n, "at": value} for n, value in enumerate(values)))
    return server


def cities() -> Server:
    server = Server()
    server.run({"createIndexes": "c", "indexes": [{"key": {"at": "2dsphere"}, "name": "at"}]})
    server.fill("c", *({"_id": name, "at": point(*position)} for name, position in CITIES.items()))
    return server


def found(server: Server, condition: dict[str, Any], **more: Any) -> list[Any]:
    return [each["_id"] for each in server.documents("c", {"at": condition, **more})]


def refused(server: Server, command: dict[str, Any]) -> CommandError:
    with pytest.raises(CommandError) as caught:
        server.run(command)
    return caught.value


BERLIN = {"$geometry": point(13.4, 52.5)}


@pytest.mark.parametrize("operator", ["$near", "$nearSphere"])
@pytest.mark.parametrize(
    ("bounds", "names"),
    [
        ({}, ["Berlin", "Hamburg", "Paris", "Sydney"]),
        ({"$maxDistance": 300_000}, ["Berlin", "Hamburg"]),
        ({"$minDistance": 10_000, "$maxDistance": 1_000_000}, ["Hamburg", "Paris"]),
        ({"$maxDistance": 1}, []),
    ],
)
def test_near_finds_what_is_in_reach_the_nearest_first(
    operator: str, bounds: dict[str, Any], names: list[str]
) -> None:
    assert found(cities(), {operator: {**BERLIN, **bounds}}) == names
    assert found(cities(), {operator: point(13.4, 52.5), **bounds}) == names


def test_another_order_can_be_asked_for_and_limits_count_from_the_nearest() -> None:
    near = {"at": {"$near": {"$geometry": point(13.4, 52.5)}}}
    reply = cities().run({"find": "c", "filter": near, "skip": 1, "limit": 2})
    assert [each["_id"] for each in reply["cursor"]["firstBatch"]] == ["Hamburg", "Paris"]
    reply = cities().run({"find": "c", "filter": near, "sort": {"_id": -1}, "limit": 1})
    assert [each["_id"] for each in reply["cursor"]["firstBatch"]] == ["Sydney"]


@pytest.mark.parametrize(
    ("kind", "condition", "ids"),
    [
        ("2d", {"$near": [0, 0]}, [0, 1, 2]),
        ("2d", {"$near": [0, 0], "$maxDistance": 5}, [0, 1]),
        ("2d", {"$near": [0, 0, 5]}, [0, 1]),
        ("2d", {"$near": {"x": 10, "y": 10}, "$minDistance": 1}, [1, 0]),
        ("2d", {"$nearSphere": [0, 0], "$maxDistance": math.radians(5.1)}, [0, 1]),
        ("2dsphere", {"$nearSphere": [0, 0], "$maxDistance": math.radians(5.1)}, [0, 1]),
    ],
)
def test_legacy_pairs_are_near_on_the_map_or_by_angle(kind: str, condition: Any, ids: list[int]) -> None:
    assert found(holding(kind, [0, 0], [3, 4], [10, 10]), condition) == ids


PLACES = [
    point(1, 1),
    point(4, 2),
    point(9, 9),
    [2, 2],
    {"lng": 3, "lat": 3},
    polygon([1, 1], [2, 1], [2, 2]),
]
CROSSING = {"type": "LineString", "coordinates": [[-1, 1], [1, 1]]}


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ({"$geoWithin": {"$geometry": SQUARE}}, [0, 1, 3, 4, 5]),
        ({"$within": {"$geometry": SQUARE}}, [0, 1, 3, 4, 5]),
        (
            {"$geoWithin": {"$geometry": {"type": "MultiPolygon", "coordinates": [SQUARE["coordinates"]]}}},
            [0, 1, 3, 4, 5],
        ),
        ({"$geoWithin": {"$box": [[0, 0], [3, 3]]}}, [0, 3, 4]),
        ({"$within": {"$box": [[3, 3], [0, 0]]}}, [0, 3, 4]),
        ({"$geoWithin": {"$polygon": [[0, 0], [0, 5], [5, 0]]}}, [0, 3]),
        ({"$geoWithin": {"$center": [[0, 0], 3]}}, [0, 3]),
        ({"$geoWithin": {"$centerSphere": [[0, 0], math.radians(3)]}}, [0, 3, 5, 6]),
        ({"$geoIntersects": {"$geometry": SQUARE}}, [0, 1, 3, 4, 5, 6]),
        ({"$geoIntersects": {"$geometry": point(1.8, 1.5)}}, [5]),
        ({"$geoIntersects": {"$geometry": CROSSING}}, [0, 5, 6]),
        ({"$not": {"$geoWithin": {"$geometry": SQUARE}}}, [2, 6, 7, 8]),
    ],
)
def test_within_and_intersects_choose_by_shape(condition: Any, ids: list[int]) -> None:
    server = holding(None, *PLACES, CROSSING, "nowhere")
    server.fill("c", {"_id": 8})
    assert found(server, condition) == ids


def test_an_array_of_places_is_where_one_of_them_is() -> None:
    server = holding(None, [point(1, 1), point(50, 50)], [[60, 60], [2, 2]], [point(70, 70)])
    assert found(server, {"$geoWithin": {"$geometry": SQUARE}}) == [0, 1]


@pytest.mark.parametrize(
    "value",
    [
        [point(1, 1), point(2, 2)],
        [[1, 1], [2, 2]],
        polygon([0, 0], [10, 10], [10, 0], [0, 10]),
        {"type": "MultiPolygon", "coordinates": [[[[0, 0], [10, 10], [10, 0], [0, 10], [0, 0]]]]},
    ],
    ids=str,
)
def test_an_index_of_the_sphere_has_no_array_of_places_and_no_polygon_that_crosses_itself(value: Any) -> None:
    server = holding("2dsphere", SQUARE)
    reply = server.run({"insert": "c", "documents": [{"at": value}, {"at": None}]})
    assert [each["code"] for each in reply["writeErrors"]] == [16755]
    server.run({"createIndexes": "d", "indexes": [{"key": {"all.at": "2dsphere"}, "name": "i"}]})
    server.fill("d", {"_id": 1, "all": [{"at": point(1, 1)}, {"at": point(2, 2)}]})
    near = {"all.at": {"$near": {"$geometry": point(2, 2), "$maxDistance": 1000}}}
    assert [each["_id"] for each in server.documents("d", near)] == [1]


@pytest.mark.parametrize(
    ("order", "code"), [({"hint": {"$natural": 1}}, 2), ({"hint": {"a": 1}}, 291), ({"hint": "at_1"}, None)]
)
def test_a_search_by_distance_takes_no_hint_but_of_its_index(order: dict[str, Any], code: int | None) -> None:
    server = holding(None, point(1, 1))
    indexes = [{"key": {"at": "2dsphere"}, "name": "at_1"}, {"key": {"a": 1}, "name": "a_1"}]
    server.run({"createIndexes": "c", "indexes": indexes})
    near = {"find": "c", "filter": {"at": {"$nearSphere": {"$geometry": point(1, 1)}}}, **order}
    stage = {"$geoNear": {"near": point(1, 1), "distanceField": "d"}}
    piped = {"aggregate": "c", "pipeline": [stage], "cursor": {}, **order}
    for command in (near, {"explain": near, "verbosity": "queryPlanner"}, piped):
        if code is None or (command is piped and code == 291):
            server.run(command)
        else:
            assert refused(server, command).code == code


@pytest.mark.parametrize(
    ("geometry", "ids"),
    [
        ([2, 2], [0, 1]),
        ({"x": 2, "y": 2}, [0, 1]),
        ({"type": "Point", "coordinates": {"x": 2, "y": 2, "z": "any"}}, [0, 1]),
        ({"coordinates": [2, 2]}, [0, 1]),
        (polygon([4, 0], [6, 0], [6, 4], [4, 4]), []),
        (polygon([4, 4], [6, 4], [6, 6], [4, 6]), []),
        (polygon([3, 3], [6, 3], [6, 6], [3, 6]), [0]),
        (polygon([0, 0], [1, 0], [2, 0]), [0]),
    ],
)
def test_intersections_are_points_in_common_for_surfaces_more_than_a_border(
    geometry: Any, ids: list[int]
) -> None:
    server = holding("2dsphere", SQUARE, point(2, 2))
    assert found(server, {"$geoIntersects": {"$geometry": geometry}}) == ids


@pytest.mark.parametrize(
    ("corners", "inside", "outside"),
    [
        ([[0, 0], [10, 10], [10, 0]], [(10, 10), (10, 5), (5, 0), (5, 1)], [(5, 5), (3, 3), (0, 10)]),
        ([[4, 4], [6, 4], [5, 6]], [(5, 6), (5.5, 5), (4.5, 4)], [(4.5, 5), (4, 5)]),
        ([[0, 0], [5, 0], [10, 0]], [(3, 0)], [(3, 1)]),
    ],
)
def test_a_polygon_of_the_map_has_its_corners_and_some_of_its_edges(
    corners: list[Any], inside: list[Any], outside: list[Any]
) -> None:
    server = holding("2d", *(list(each) for each in (*inside, *outside)))
    assert found(server, {"$geoWithin": {"$polygon": corners}}) == list(range(len(inside)))


def test_the_edges_of_a_polygon_are_great_circles() -> None:
    # Between two points of 60 degrees north the shortest way goes farther north.
    cap = polygon([-40, 60], [40, 60], [40, 80], [-40, 80])
    server = holding("2dsphere", point(0, 61), point(0, 70))
    assert found(server, {"$geoWithin": {"$geometry": cap}}) == [1]


def strictly(ring: dict[str, Any]) -> dict[str, Any]:
    """Return a polygon whose inside lies to the left of its ring."""
    return {**ring, "crs": {"type": "name", "properties": STRICT}}


# A strip along the meridian of 180 degrees: the shortest way between its corners.
EASTWARDS = polygon([170, -80], [-170, -80], [-170, 80], [170, 80])
WESTWARDS = polygon([-170, -80], [170, -80], [170, 80], [-170, 80])


@pytest.mark.parametrize(
    ("ring", "operator", "ids"),
    [
        (strictly(EASTWARDS), "$geoWithin", [2]),
        (strictly(EASTWARDS), "$geoIntersects", [2, 3, 5]),
        (strictly(WESTWARDS), "$geoWithin", [0, 1, 4]),
        (strictly(WESTWARDS), "$geoIntersects", [0, 1, 3, 4, 5]),
        (WESTWARDS, "$geoWithin", [2]),
    ],
)
def test_a_polygon_that_winds_strictly_is_what_lies_to_the_left_of_its_ring(
    ring: dict[str, Any], operator: str, ids: list[int]
) -> None:
    line = {"type": "LineString", "coordinates": [[179, 0], [150, 0]]}
    far = polygon([0, 0], [1, 0], [1, 1])
    cap = polygon([171, 60], [175, 60], [175, 70], [160, 65])
    server = holding("2dsphere", point(0, 0), point(175, 85), point(179, 0), line, far, cap)
    assert found(server, {operator: {"$geometry": ring}}) == ids


def test_no_index_holds_a_polygon_that_winds_strictly() -> None:
    server = Server()
    server.fill("c", {"_id": 0, "at": strictly(SQUARE)})
    assert found(server, {"$geoIntersects": {"$geometry": point(2, 2)}}) == []
    with pytest.raises(CommandError) as refused:
        server.run({"createIndexes": "c", "indexes": [{"key": {"at": "2dsphere"}, "name": "i"}]})
    assert refused.value.code == 16755


@pytest.mark.parametrize(
    "rings",
    [
        [[[-1, -1], [1, 1], [1, -1], [-1, 1], [-1, -1]]],
        [*SQUARE["coordinates"], [[0, 0], [0, 2], [2, 2], [2, 0], [0, 0]]],
        [*SQUARE["coordinates"], [[1, 0], [2, 2], [3, 0], [1, 0]]],
    ],
    ids=["crosses itself in the middle", "a hole in a corner", "a hole with an edge on the ring"],
)
def test_a_ring_that_crosses_itself_or_shares_an_edge_with_a_hole_is_refused(rings: list[Any]) -> None:
    shape = {"type": "Polygon", "coordinates": rings}
    command = {"find": "c", "filter": {"at": {"$geoIntersects": {"$geometry": shape}}}}
    assert refused(holding(None, point(0, 0)), command).code == 2


def test_a_ring_around_the_globe_does_not_cross_itself_where_it_closes() -> None:
    zigzag = polygon(*([-180 + 9 * number, 0.5 if number % 2 else -0.5] for number in range(40)))
    assert found(holding("2dsphere", point(0, 80)), {"$geoWithin": {"$geometry": zigzag}}) == []


def test_a_polygon_may_lie_across_the_date_line() -> None:
    strip = polygon([170, -10], [-170, -10], [-170, 10], [170, 10])
    server = holding("2dsphere", point(179, 0), point(-179, 0), point(0, 0))
    assert found(server, {"$geoWithin": {"$geometry": strip}}) == [0, 1]


def test_a_hole_is_not_part_of_its_polygon() -> None:
    ring = {
        "type": "Polygon",
        "coordinates": [*SQUARE["coordinates"], [[1, 1], [1, 3], [3, 3], [3, 1], [1, 1]]],
    }
    server = holding("2dsphere", point(2, 2), point(0.5, 0.5))
    assert found(server, {"$geoIntersects": {"$geometry": ring}}) == [1]


longitudes, latitudes = st.floats(-180, 180), st.floats(-89, 89)


@given(st.tuples(longitudes, latitudes), st.tuples(longitudes, latitudes))
def test_a_distance_is_the_same_both_ways_and_no_more_than_half_way_round(
    first: tuple[float, float], second: tuple[float, float]
) -> None:
    there, back = radians_between(first, second), radians_between(second, first)
    assert there == pytest.approx(back, abs=1e-9)
    assert 0 <= there <= math.pi + 1e-9


@given(
    st.floats(-170, 170), st.floats(-70, 70), st.floats(0.1, 8), st.floats(-0.9, 0.9), st.floats(-0.9, 0.9)
)
def test_a_point_between_the_corners_of_a_small_square_is_within_it(
    x: float, y: float, half: float, right: float, up: float
) -> None:
    square = polygon([x - half, y - half], [x + half, y - half], [x + half, y + half], [x - half, y + half])
    inside = parse(point(x + right * half * 0.5, y + up * half * 0.5))
    area = SphericalArea(parse(square))
    assert area.covers(inside)
    assert area.meets(inside)


# $geoNear.


def geo_near(server: Server, *more: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    stage = {"near": point(0, 0), "distanceField": "d", **options}
    reply = server.run({"aggregate": "c", "pipeline": [{"$geoNear": stage}, *more], "cursor": {}})
    return list(reply["cursor"]["firstBatch"])


def test_geo_near_tells_distances_in_metres_the_nearest_first() -> None:
    results = geo_near(holding("2dsphere", point(0, 2), point(0, 1), point(0, 3)))
    assert [(each["_id"], each["d"]) for each in results] == [
        (1, pytest.approx(DEGREE)),
        (0, pytest.approx(2 * DEGREE)),
        (2, pytest.approx(3 * DEGREE)),
    ]


def test_geo_near_takes_a_query_bounds_a_multiplier_and_shows_the_place() -> None:
    server = holding("2dsphere", *(point(0, n) for n in range(5)))
    options = {"minDistance": DEGREE / 2, "maxDistance": 3.5 * DEGREE, "distanceMultiplier": 0.001}
    meta = {"$set": {"again": {"$meta": "geoNearDistance"}}}
    results = geo_near(
        server, meta, query={"_id": {"$ne": 2}}, distanceField="a.d", includeLocs="a.at", **options
    )
    assert [each["_id"] for each in results] == [1, 3]
    assert results[0]["a"] == {"d": pytest.approx(DEGREE / 1000), "at": point(0, 1)}
    assert results[0]["again"] == results[0]["a"]["d"]


@pytest.mark.parametrize(("spherical", "distance"), [(False, 5.0), (True, math.radians(5))])
def test_geo_near_around_a_pair_counts_degrees_or_radians(distance: float, *, spherical: bool) -> None:
    (result,) = geo_near(holding("2d", [0, 5]), near=[0, 0], spherical=spherical)
    assert result["d"] == pytest.approx(distance)


def test_geo_near_is_told_which_of_several_indexes_to_use() -> None:
    server = holding("2dsphere", point(0, 1))
    server.run({"createIndexes": "c", "indexes": [{"key": {"other": "2dsphere"}, "name": "other"}]})
    server.run({"update": "c", "updates": [{"q": {}, "u": {"$set": {"other": point(0, 2)}}}]})
    stage = {"near": point(0, 0), "distanceField": "d"}
    assert refused(server, {"aggregate": "c", "pipeline": [{"$geoNear": stage}], "cursor": {}}).code == 27
    assert geo_near(server, key="other")[0]["d"] == pytest.approx(2 * DEGREE)


def test_a_view_may_be_made_before_its_index_and_be_read_after() -> None:
    server = holding(None, point(0, 1))
    stages = [{"$geoNear": {"near": point(0, 0), "distanceField": "d"}}]
    server.run({"create": "v", "viewOn": "c", "pipeline": stages})
    assert refused(server, {"find": "v"}).code == 27
    server.run({"createIndexes": "c", "indexes": [{"key": {"at": "2dsphere"}, "name": "at"}]})
    assert [each["d"] for each in server.documents("v")] == [pytest.approx(DEGREE)]


def test_a_sort_by_distance_has_the_farthest_first() -> None:
    server = holding("2dsphere", *(point(0, n) for n in (2, 1, 3)))
    by_distance = {"$sort": {"d": {"$meta": "geoNearDistance"}}}
    assert [each["_id"] for each in geo_near(server, by_distance)] == [2, 0, 1]
    found = server.documents("c", {"at": {"$near": {"$geometry": point(0, 0)}}})
    assert [each["_id"] for each in found] == [1, 0, 2]


def test_geo_near_need_not_tell_distances() -> None:
    server = holding("2dsphere", point(0, 2), point(0, 1))
    stage = {"near": point(0, 0)}
    reply = server.run({"aggregate": "c", "pipeline": [{"$geoNear": stage}], "cursor": {}})
    assert [list(each) for each in reply["cursor"]["firstBatch"]] == [["_id", "at"]] * 2


def test_geo_near_writes_over_arrays_on_the_way_to_its_fields() -> None:
    server = holding("2dsphere", point(0, 1))
    server.run({"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": [1, {"d": 2}]}}}]})
    (found,) = geo_near(server, distanceField="a.0", includeLocs="a.at")
    assert found["a"] == {"0": pytest.approx(DEGREE), "at": point(0, 1)}


@pytest.mark.parametrize(
    "options",
    [
        {"maxDistance": {"$multiply": [1.5, DEGREE]}},
        {"maxDistance": "$$reach"},
        {"near": {"$literal": point(0, 0)}, "maxDistance": "$$reach"},
        {"near": {"coordinates": [0, 0]}, "maxDistance": "$$reach"},
        {"near": {"type": "Point", "coordinates": {"x": 0, "y": 0}}, "maxDistance": "$$reach"},
    ],
)
def test_geo_near_reckons_its_bounds_and_reads_points_that_say_little(options: dict[str, Any]) -> None:
    stage = {"near": point(0, 0), "distanceField": "d", **options}
    server = holding("2dsphere", *(point(0, n) for n in range(4)))
    command = {
        "aggregate": "c",
        "pipeline": [{"$geoNear": stage}],
        "cursor": {},
        "let": {"reach": 1.5 * DEGREE},
    }
    assert [each["_id"] for each in server.run(command)["cursor"]["firstBatch"]] == [0, 1]


@pytest.mark.parametrize(
    ("center", "place", "distance"),
    [([0, 0], [3, 0], 0.0523598775598299), ([180, 90], [0, 0], 1.5707963267948968)],
)
def test_angles_are_those_of_a_server_to_the_last_digit(
    center: list[int], place: list[int], distance: float
) -> None:
    (found,) = geo_near(holding("2d", place), near=center, spherical=True)
    assert found["d"] == distance


TWIGS = ".".join(["a"] * 200)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"near": 5}, 5860401),
        ({"near": "here"}, 5860401),
        ({"near": None}, 5860401),
        ({"near": "$at"}, 5860402),
        ({"near": [1, 2, 3, 4]}, 2),
        ({"near": [1, 2, "far"]}, 14),
        ({"near": [181, 0], "spherical": True}, 2),
        ({"near": [0, 91], "spherical": True}, 2),
        ({"near": SQUARE}, 2),
        ({"near": {"type": "point", "coordinates": [0, 0]}}, 2),
        ({"near": [0, 0]}, 291),
        ({"maxDistance": -1}, 2),
        ({"minDistance": math.nan}, 2),
        ({"minDistance": "far"}, 14),
        ({"minDistance": "$at"}, 7555701),
        ({"maxDistance": {"$add": [1, "$at"]}}, 7555702),
        ({"distanceMultiplier": -1}, 2),
        ({"distanceMultiplier": "2"}, 14),
        ({"distanceField": 5}, 16606),
        ({"distanceField": ""}, 40352),
        ({"distanceField": "$d"}, 16410),
        ({"distanceField": "a..d"}, 15998),
        ({"distanceField": "a."}, 40353),
        ({"distanceField": "a\0"}, 16411),
        ({"distanceField": TWIGS}, 5984700),
        ({"distanceField": f"{TWIGS}.a"}, 15),
        ({"includeLocs": None}, 16607),
        ({"includeLocs": ".a"}, 15998),
        ({"includeLocs": TWIGS}, 5984700),
        ({"key": "$at"}, 16410),
        ({"key": TWIGS}, 5729100),
        ({"key": f"{TWIGS}.a"}, 15),
        ({"key": "other"}, 291),
        ({"query": {"at": {"$near": [0, 0]}}}, 5626500),
        ({"query": {"$or": [{"at": {"$nearSphere": [0, 0]}}]}}, 5626500),
        ({"query": {"$text": {"$search": "a"}}}, 2),
        ({"query": {"$where": "true"}}, 2),
        ({"query": []}, 14),
        ({"key": Code("a", {"b": 1})}, 14),
    ],
)
def test_an_option_of_geo_near_that_cannot_be_is_refused(options: dict[str, Any], code: int) -> None:
    stage = {"near": point(0, 0), "distanceField": "d", **options}
    command = {"aggregate": "c", "pipeline": [{"$geoNear": stage}], "cursor": {}}
    assert refused(holding("2dsphere", point(0, 0)), command).code == code


@pytest.mark.parametrize(
    ("kind", "options", "code"),
    [
        ("2d", {"near": [181, 0]}, 16433),
        ("2d", {"near": [0, -180.5]}, 16433),
        ("2d", {"near": point(0, 0)}, 291),
        (None, {}, 27),
    ],
)
def test_the_index_decides_what_geo_near_can_search(
    kind: str | None, options: dict[str, Any], code: int
) -> None:
    stage = {"near": point(0, 0), "distanceField": "d", **options}
    command = {"aggregate": "c", "pipeline": [{"$geoNear": stage}], "cursor": {}}
    assert refused(holding(kind, [0, 0]), command).code == code


def test_geo_near_needs_its_collection_to_be_there() -> None:
    stage = {"near": point(0, 0), "distanceField": "d"}
    command = {"aggregate": "nowhere", "pipeline": [{"$geoNear": stage}], "cursor": {}}
    assert refused(cities(), command).code == 26
    stage["distanceField"] = "$d"
    assert refused(cities(), command).code == 16410


# What is refused.

BOW_TIE = polygon([0, 0], [2, 2], [2, 0], [0, 2])


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ({"$near": [0, 0]}, 291),
        ({"$near": {"$geometry": SQUARE}}, 2),
        ({"$near": {**BERLIN, "$maxDistance": -1}}, 2),
        ({"$near": {**BERLIN, "$maxDistance": math.inf}}, 2),
        ({"$near": {**BERLIN, "$minDistance": Decimal128("1E400")}}, 2),
        ({"$near": {**BERLIN, "$x": 1}}, 2),
        ({"$near": BERLIN, "$maxDistance": 1}, 2),
        ({"$near": BERLIN, "$nearSphere": BERLIN}, 2),
        ({"$near": {"$geometry": [0, 0]}}, 16681),
        ({"$near": {"$geometry": None}}, 2),
        ({"$near": {"$geometry": 1}}, 2),
        ({"$near": [0, 0], "$eq": 1}, 34413),
        ({"$eq": 1, "$near": [0, 0]}, 2),
        ({"$near": [0, 0], "$minDistance": "x"}, 16893),
        ({"$near": [0, 0], "$minDistance": -1}, 16894),
        ({"$nearSphere": [0, 0], "$maxDistance": None}, 16895),
        ({"$nearSphere": [0, 0], "$maxDistance": math.nan}, 16896),
        ({"$near": [0, 0, -1]}, 18522),
        ({"$nearSphere": [1000, 5]}, 2),
        ({"$nearSphere": {"$minDistance": 1000, "$maxDistance": 5000}}, 2),
        ({"$not": {"$near": BERLIN}}, 2),
        ({"$elemMatch": {"x": {"$near": BERLIN}}}, 2),
        ({"$geoWithin": {"$geometry": SQUARE, "$minDistance": 1}}, 2),
        ({"$geoWithin": {"$box": [[0, 0], [1, 1]], "$center": [[0, 0], 1]}}, 2),
        ({"$geoWithin": {"$box": [[0, 0], [1, 1, 1]]}}, 2),
        ({"$geoWithin": {"$polygon": [[0, 0], [1, 1], {"x": 1, "y": 0, "z": 2}]}}, 2),
        ({"$geoWithin": {"$center": [[0, 0, 0], 1]}}, 2),
        ({"$geoWithin": {"$centerSphere": [[181, 0], 1]}}, 2),
        ({"$geoWithin": {"$geometry": [0, 0]}}, 2),
        ({"$geoIntersects": {"$geometry": {"a": 1, "b": 2, "c": 3}}}, 2),
        ({"$geoIntersects": {"$geometry": SQUARE}, "$eq": 1}, 2),
        ({"$geoIntersects": {"$geometry": {**SQUARE, "crs": None}}}, 2),
        ({"$geoIntersects": {"$geometry": {**SQUARE, "crs": {"type": "x", "properties": STRICT}}}}, 2),
        (
            {"$geoIntersects": {"$geometry": {**point(0, 0), "crs": {"type": "name", "properties": STRICT}}}},
            2,
        ),
        *(
            ({"$geoIntersects": {"$geometry": {**bad, "crs": {"type": "name", "properties": STRICT}}}}, 2)
            for bad in (
                {"type": "MultiPolygon", "coordinates": [SQUARE["coordinates"]]},
                {"type": "Polygon", "coordinates": SQUARE["coordinates"] * 2},
            )
        ),
        ({"$near": {**BERLIN, "$maxDistance": "far"}}, 2),
        ({"$near": 5}, 2),
        ({"$near": SQUARE}, 2),
        ({"$near": [math.inf, 0]}, 2),
        ({"$geoWithin": {"$center": [SQUARE, 1]}}, 2),
        ({"$geoWithin": {"$geometry": {**SQUARE, "crs": {"properties": "x"}}}}, 2),
        ({"$geoWithin": {"$geometry": {**SQUARE, "crs": {"properties": {"name": []}}}}}, 2),
        ({"$maxDistance": 5}, 2),
        ({"$geoWithin": {"$geometry": point(0, 0)}}, 2),
        ({"$geoWithin": {"$nonsense": 1}}, 2),
        ({"$geoWithin": 5}, 2),
        ({"$geoWithin": {"$box": [[0, 0]]}}, 2),
        ({"$geoWithin": {"$center": [[0, 0], -1]}}, 2),
        ({"$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [2, 0]]]}}}, 2),
        ({"$geoWithin": {"$geometry": BOW_TIE}}, 2),
        ({"$geoWithin": {"$geometry": point(200, 0)}}, 2),
        ({"$geoIntersects": {"$box": [[0, 0], [1, 1]]}}, 2),
        ({"$geoIntersects": {"$geometry": {"type": "Blob", "coordinates": []}}}, 2),
    ],
)
def test_a_condition_that_cannot_be_is_refused(condition: Any, code: int) -> None:
    assert refused(cities(), {"find": "c", "filter": {"at": condition}}).code == code


NEAR = {"at": {"$near": BERLIN}}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"find": "plain", "filter": NEAR}, 291),
        ({"find": "c", "filter": {"$or": [NEAR, {"_id": 1}]}}, 2),
        ({"find": "c", "filter": {"$and": [NEAR, NEAR]}}, 2),
        ({"find": "c", "filter": {**NEAR, "$and": [5]}}, 2),
        ({"aggregate": "c", "pipeline": [{"$match": NEAR}], "cursor": {}}, 5626500),
        ({"aggregate": "c", "pipeline": [{"$geoNear": {"distanceField": "d"}}], "cursor": {}}, 5860400),
        (
            {
                "aggregate": "c",
                "pipeline": [{"$geoNear": {"near": point(0, 0), "distanceField": "d", "num": 1}}],
                "cursor": {},
            },
            50857,
        ),
        ({"aggregate": "c", "pipeline": [{"$limit": 1}, {"$geoNear": {}}], "cursor": {}}, 5860400),
        ({"find": "c", "projection": {"d": {"$meta": "geoNearDistance"}}}, 40218),
    ],
)
def test_a_search_that_has_no_plan_is_refused(command: dict[str, Any], code: int) -> None:
    assert refused(cities(), command).code == code


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        ("2dsphere", "here", 16755),
        ("2dsphere", point(200, 0), 16755),
        ("2dsphere", {"type": "Point", "coordinates": [1]}, 16755),
        ("2dsphere", {"type": "Blob", "coordinates": []}, 16755),
        ("2dsphere", {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [2, 0]]]}, 16755),
        ("2dsphere", [point(0, 0), "here"], 16755),
        ("2d", "here", 16804),
        ("2d", [1], 13068),
        ("2d", ["a", "b"], 13026),
        ("2d", point(0, 0), 13026),
        ("2d", [200, 0], 13027),
    ],
)
def test_an_index_refuses_what_is_no_place(kind: str, value: Any, code: int) -> None:
    server = holding(kind, [0, 0])
    reply = server.run({"insert": "c", "documents": [{"at": value}]})
    assert [error["code"] for error in reply["writeErrors"]] == [code]
    update = {"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$set": {"at": value}}}]}
    assert [error["code"] for error in server.run(update)["writeErrors"]] == [code]
    plain = holding(None, value)
    assert (
        refused(plain, {"createIndexes": "c", "indexes": [{"key": {"at": kind}, "name": "i"}]}).code == code
    )


@pytest.mark.parametrize("value", [None, [], point(1, 2), [1, 2], {"x": 1, "y": 2}])
def test_an_index_holds_what_is_a_place_or_nothing(value: Any) -> None:
    assert holding("2dsphere", value).documents("c") == [{"_id": 0, "at": value}]


def test_without_the_extra_points_boxes_and_circles_work_and_other_shapes_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "shapely" else find_spec(name)
    )
    assert found(cities(), {"$near": {**BERLIN, "$maxDistance": 300_000}}) == ["Berlin", "Hamburg"]
    assert found(cities(), {"$geoWithin": {"$centerSphere": [[13.4, 52.5], 0.01]}}) == ["Berlin"]
    assert found(cities(), {"$geoWithin": {"$box": [[0, 40], [20, 60]]}}) == ["Berlin", "Hamburg", "Paris"]
    error = refused(cities(), {"find": "c", "filter": {"at": {"$geoWithin": {"$geometry": SQUARE}}}})
    assert error.code == 238
    assert "pip install 'pushbackd[geo]'" in error.message


@pytest.mark.parametrize(
    ("kind", "near", "stage"),
    [
        ("2dsphere", {"$near": {"$geometry": {"type": "Point", "coordinates": [0, 0]}}}, "GEO_NEAR_2DSPHERE"),
        ("2d", {"$near": [0, 0]}, "GEO_NEAR_2D"),
    ],
)
def test_explain_names_the_index_of_a_search_by_distance(kind: str, near: Any, stage: str) -> None:
    server = Server()
    server.run({"createIndexes": "c", "indexes": [{"key": {"at": kind}, "name": "places"}]})
    server.run({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x"}]})
    server.fill("c", {"_id": 1, "at": [1, 1], "x": 1}, {"_id": 2, "at": [2, 2], "x": 1})
    query = {"at": near, "x": 1}
    told = server.run({"explain": {"find": "c", "filter": query}, "verbosity": "executionStats"})
    plan = told["queryPlanner"]["winningPlan"]
    assert (plan["stage"], plan["indexName"]) == (stage, "places")
    assert told["executionStats"]["totalKeysExamined"] == 2
    assert [each["_id"] for each in server.documents("c", query)] == [1, 2]


def test_an_index_hint_orders_by_distance_still() -> None:
    server = Server()
    indexes = [{"key": {"at": "2d"}, "name": "places"}, {"key": {"x": 1}, "name": "x"}]
    server.run({"createIndexes": "c", "indexes": indexes})
    server.fill("c", {"_id": 1, "at": [2, 2], "x": 1}, {"_id": 2, "at": [1, 1], "x": 2})
    reply = server.run({"find": "c", "filter": {"at": {"$near": [0, 0]}}, "hint": "places"})
    assert [each["_id"] for each in reply["cursor"]["firstBatch"]] == [2, 1]

"""Operations told and ended, the switches of a server's upkeep, and mapReduce without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Code
from data_commands import Server

from fakeserver.errors import CommandError

MAP = "function inc() { return emit(0, this.x + 1) }"
REDUCE = "function sum(key, values) { return values.reduce((acc, x) => acc + x); }"
INLINE = {"map": Code(MAP), "reduce": Code(REDUCE), "out": {"inline": 1}}
STRICT = {"apiVersion": "1", "apiStrict": True}


def failure(server: Server, command: dict[str, Any], **where: Any) -> CommandError:
    with pytest.raises(CommandError) as caught:
        server.run(command, **where)
    return caught.value


def filled() -> Server:
    server = Server()
    server.run({"insert": "c", "documents": [{"_id": number, "x": number} for number in range(3)]})
    return server


def test_top_lists_every_collection_but_no_view() -> None:
    server = filled()
    server.run({"create": "v", "viewOn": "c"})
    totals = server.run({"top": 1}, db="admin")["totals"]
    assert set(totals) == {"note", "db.c"}
    assert totals["db.c"]["total"] == {"time": 0, "count": 0}


def server_says(command: dict[str, Any]) -> dict[str, Any]:
    return Server().run(command, db="admin")


def test_members_have_no_connections_to_each_other() -> None:
    assert server_says({"connPoolStats": 1})["totalCreated"] == 0


@pytest.mark.parametrize(
    ("options", "value"),
    [({}, 6.0), ({"query": {"x": {"$gt": 0}}}, 5.0), ({"sort": {"x": -1}, "limit": 1}, 3.0)],
)
def test_map_reduce_runs_the_functions_of_the_specification_tests(
    options: dict[str, Any], value: float
) -> None:
    reply = filled().run({"mapReduce": "c", **INLINE, **options})
    assert reply == {"results": [{"_id": 0.0, "value": value}]}


def test_map_reduce_over_nothing_has_no_results() -> None:
    assert filled().run({"mapReduce": "nothing", **INLINE}) == {"results": []}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"map": "function() { emit(this._id, 1) }"}, "runs no JavaScript"),
        ({"reduce": "function(key, values) { return 1 }"}, "runs no JavaScript"),
        ({"out": "other"}, "writes no results to collections"),
        ({"map": MAP.replace("this.x", "this.y")}, "adds 1 to numbers only: y"),
    ],
)
def test_any_other_map_reduce_is_refused(change: dict[str, Any], why: str) -> None:
    error = failure(filled(), {"mapReduce": "c", **INLINE, **change})
    assert error.code == 238
    assert why in str(error)


@pytest.mark.parametrize(
    ("stage", "allowed"),
    [
        ({"$collStats": {"count": {}}}, True),
        ({"$collStats": {"latencyStats": {}}}, False),
        ({"$collStats": {"count": {}, "storageStats": {}}}, False),
        ({"$indexStats": {}}, False),
        ({"$match": {}}, True),
    ],
)
def test_of_the_stages_that_tell_of_a_collection_the_stable_api_has_the_count(
    stage: dict[str, Any], *, allowed: bool
) -> None:
    command = {"aggregate": "c", "pipeline": [stage], "cursor": {}, **STRICT}
    if allowed:
        assert filled().run(command)["cursor"]["firstBatch"]
    else:
        assert failure(filled(), command).code == 323

"""Operations told and ended, and the switches of a server's upkeep."""

from __future__ import annotations

from typing import Any

import pytest
from data_commands import Server

from fakeserver.errors import CommandError

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


@pytest.mark.parametrize("value", [True, False])
def test_the_stable_api_has_change_streams_without_expanded_events(*, value: bool) -> None:
    stream = {"aggregate": "c", "pipeline": [{"$changeStream": {"showExpandedEvents": value}}], "cursor": {}}
    assert failure(filled(), {**stream, **STRICT}).code == 323
    assert filled().run(stream)["cursor"]["id"]

"""Where streams may begin, what they refuse, how they end."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Int64, Timestamp
from data_commands import Server
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import Event, replayed, told, watch

from fakeserver.change_streams.stream import split_event
from fakeserver.change_streams.tokens import ResumeToken, StreamPosition
from fakeserver.commands.cursors import get_more
from fakeserver.commands.queries.aggregate import aggregate
from fakeserver.errors import CommandError
from fakeserver.storage.port.oplog import Oplog
from fakeserver.waiting.pause import Park

BIG = "x" * 9_000_000


def filled(*numbers: int) -> Server:
    server = Server()
    server.run({"create": "c"})
    if numbers:
        server.fill("c", *({"_id": number} for number in numbers))
    return server


def refusal(server: Server, target: str | int = "c", **options: Any) -> CommandError:
    with pytest.raises(CommandError) as refused:
        watch(server, target, **options)
    return refused.value


# Resuming.


def test_an_invalidated_stream_closes_and_can_only_be_started_after() -> None:
    server = filled(1)
    stream = watch(server)
    server.run({"drop": "c"})
    server.fill("other", {"_id": 1})
    assert [event["operationType"] for event in stream.read()] == ["drop", "invalidate"]
    assert stream.id == 0
    drop, invalidate = (event["_id"] for event in stream.events)
    assert stream.token == invalidate
    assert refusal(server, resumeAfter=invalidate).code == 260
    server.fill("c", {"_id": 2})
    after = watch(server, startAfter=invalidate)
    assert [event["documentKey"] for event in after.events] == [{"_id": 2}]
    assert after.id != 0
    again = watch(server, resumeAfter=drop)
    assert [event["operationType"] for event in again.events] == ["invalidate"]
    assert again.id == 0


def test_an_invalidation_stands_at_the_end_of_a_batch_of_its_own() -> None:
    server = filled(1)
    stream = watch(server)
    server.run({"drop": "c"})
    assert [event["operationType"] for event in stream.read(batch_size=1)] == ["drop"]
    assert stream.id != 0
    assert [event["operationType"] for event in stream.read(batch_size=1)] == ["invalidate"]
    assert stream.id == 0


def test_a_token_of_a_batch_resumes_as_well() -> None:
    server = filled(1)
    token = watch(server).token
    server.fill("c", {"_id": 2})
    assert [event["documentKey"] for event in watch(server, resumeAfter=token).events] == [{"_id": 2}]


def test_an_event_that_never_was_is_no_place_to_resume_at() -> None:
    server = filled(1)
    server.fill("other", {"_id": 1})
    (foreign,) = told(server, "other")
    server.fill("c", {"_id": 2})
    failed = refusal(server, resumeAfter=foreign["_id"])
    assert failed.code == 280
    assert "the resume token was not found" in failed.message


@pytest.mark.parametrize("option", ["resumeAfter", "startAfter", "startAtOperationTime"])
def test_history_that_is_gone_cannot_be_told(option: str) -> None:
    server = Server()
    server.oplog = server.node.oplog = Oplog(server.clock.utc, capacity=3)
    server.fill("c", {"_id": 1})
    event = told(server)[0]
    server.fill("c", *({"_id": number} for number in (2, 3, 4)))
    failed = refusal(
        server, **{option: event["_id"] if option != "startAtOperationTime" else event["clusterTime"]}
    )
    assert failed.code == 286


def test_a_stream_that_reads_too_slowly_loses_its_position() -> None:
    server = Server()
    server.oplog = server.node.oplog = Oplog(server.clock.utc, capacity=3)
    server.fill("c", {"_id": 1})
    stream = watch(server)
    server.fill("c", *({"_id": number} for number in (2, 3, 4, 5)))
    with pytest.raises(CommandError) as lost:
        stream.read()
    assert lost.value.code == 136


def test_a_time_to_come_is_waited_for() -> None:
    server = filled(1)
    stream = watch(server, startAtOperationTime=Timestamp(server.oplog.last.seconds + 10, 1))
    server.fill("c", {"_id": 2})
    assert stream.read() == []
    server.clock.instant += 10
    server.fill("c", {"_id": 3})
    assert [event["documentKey"] for event in stream.read()] == [{"_id": 3}]


# Refusals.

TOKEN = ResumeToken(StreamPosition.mark(Timestamp(1, 1))).document


SWITCHES = ("allChangesForCluster", "showExpandedEvents", "showMigrationEvents", "showSystemEvents")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"resumeAfter": TOKEN, "startAfter": TOKEN}, 50865),
        ({"resumeAfter": TOKEN, "startAtOperationTime": Timestamp(1, 1)}, 40674),
        ({"resumeAfter": {"_data": "no"}}, 9),
        ({"resumeAfter": 7}, 14),
        ({"fullDocument": "nonsense"}, 2),
        ({"fullDocumentBeforeChange": "default"}, 2),
        ({"nonsense": 1}, 40415),
        ({"allChangesForCluster": True}, 72),
        ({"showMigrationEvents": True}, 238),
        *(({name: value}, 14) for name in SWITCHES for value in (0, 1.0, None, "true")),
    ],
)
def test_options_are_checked(options: dict[str, Any], code: int) -> None:
    assert refusal(filled(), **options).code == code


@pytest.mark.parametrize(
    ("db", "target", "code"),
    [("admin", 1, 73), ("config", "c", 73), ("local", 1, 73), ("db", "system.js", 73), ("db", "view", 166)],
)
def test_not_everything_can_be_watched(db: str, target: str | int, code: int) -> None:
    server = filled()
    server.run({"create": "view", "viewOn": "c"})
    assert refusal(server, target, db=db).code == code


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ([{"$unsupported": "foo"}], 40324),
        ([{"$group": {"_id": 1}}], 20),
        ([{"$sort": {"x": 1}}], 20),
        ([{"$fill": {"sortBy": {"x": 1}, "output": {"x": {"method": "locf"}}}}], 20),
        ([{"$changeStream": {}}], 40602),
        ([{"$changeStreamSplitLargeEvent": {}}, {"$match": {}}], 7182802),
        ([{"$match": {"$nonsense": 1}}], 2),
    ],
)
def test_only_stages_that_look_at_one_event_may_follow(stages: list[dict[str, Any]], code: int) -> None:
    assert refusal(filled(), stages=stages).code == code


@pytest.mark.parametrize(
    ("fields", "code"), [({"readConcern": {"level": "local"}}, 72), ({"autocommit": False}, 263)]
)
def test_a_stream_reads_what_a_majority_has(fields: dict[str, Any], code: int) -> None:
    command = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}
    context = filled().context()
    with pytest.raises(CommandError) as refused:
        aggregate(context, {**command, **fields})
    assert refused.value.code == code


def test_a_standalone_has_no_streams() -> None:
    assert refusal(Server(replica_set=False)).code == 40573


# Pipelines.


def test_stages_filter_and_shape_events() -> None:
    server = filled(1, 2, 3)
    stages = [
        {"$match": {"documentKey._id": {"$gt": 1}}},
        {"$redact": {"$cond": [{"$eq": ["$_id", 3]}, "$$PRUNE", "$$DESCEND"]}},
        {"$project": {"fullDocument": 1}},
        {"$addFields": {"seen": True}},
        {"$fill": {"output": {"x": {"value": 0}}}},
    ]
    events = told(server, stages=stages)
    for event in events:
        del event["_id"]
    assert events == [{"fullDocument": {"_id": 2}, "seen": True, "x": 0}, {"seen": True, "x": 0}]


def test_events_that_do_not_match_move_the_token_on() -> None:
    server = filled()
    stream = watch(server, stages=[{"$match": {"operationType": "delete"}}])
    before = stream.token
    server.fill("c", {"_id": 1})
    assert stream.read() == []
    token = stream.token
    assert before["_data"] < watch(server, resumeAfter=stream.token).token["_data"] or token != before


@pytest.mark.parametrize(
    "stage", [{"$project": {"_id": 0}}, {"$set": {"_id": 1}}, {"$replaceWith": "$fullDocument"}]
)
def test_an_event_without_its_token_ends_the_stream(stage: dict[str, Any]) -> None:
    server = filled()
    stream = watch(server, stages=[stage])
    server.fill("c", {"_id": 1})
    with pytest.raises(CommandError, match="modified by the pipeline") as failed:
        stream.read()
    assert failed.value.code == 280
    with pytest.raises(CommandError) as gone:
        stream.read()
    assert gone.value.code == 43


# Large events.


def test_an_event_that_no_message_can_hold_is_split_on_request() -> None:
    server = Server()
    server.run({"create": "c", "changeStreamPreAndPostImages": {"enabled": True}})
    server.fill("c", {"_id": 1, "x": BIG})
    stream = watch(
        server,
        stages=[{"$changeStreamSplitLargeEvent": {}}],
        fullDocument="required",
        fullDocumentBeforeChange="required",
    )
    server.run({"update": "c", "updates": [{"q": {}, "u": {"$set": {"y": 1}}}]})
    server.fill("c", {"_id": 2})
    while stream.read():
        pass
    one, two, small = stream.events
    assert (one["splitEvent"], two["splitEvent"]) == ({"fragment": 1, "of": 2}, {"fragment": 2, "of": 2})
    assert (one["operationType"], "operationType" in two) == ("update", False)
    assert "splitEvent" not in small
    images = {**one, **two}
    assert images["fullDocument"]["y"] == 1
    again = watch(
        server,
        stages=[{"$changeStreamSplitLargeEvent": {}}],
        fullDocument="required",
        fullDocumentBeforeChange="required",
        resumeAfter=one["_id"],
    )
    again.read()
    assert again.events == [two, small]
    whole = refusal(server, fullDocument="required", fullDocumentBeforeChange="required", resumeAfter=TOKEN)
    assert whole.code == 10334
    unsplit = refusal(server, resumeAfter=one["_id"])
    assert unsplit.code == 280


def test_a_field_that_fits_into_no_fragment_is_refused() -> None:
    with pytest.raises(CommandError):
        split_event(
            {"_id": TOKEN, "x": "y" * 5000}, StreamPosition.event(Timestamp(1, 1), 0), None, limit=4000
        )


@given(st.lists(st.integers(1, 900), min_size=1, max_size=20))
def test_fragments_hold_an_event_in_its_order(sizes: list[int]) -> None:
    event = {"_id": TOKEN, **{f"f{number}": "x" * size for number, size in enumerate(sizes)}}
    fragments = split_event(event, StreamPosition.event(Timestamp(1, 1), 0), None, limit=2048)
    assert [place.fragment for place, _part in fragments] == list(range(1, len(fragments) + 1))
    assert all(len(bson.encode(part)) <= 2048 for _place, part in fragments)
    fields = [name for _place, part in fragments for name in part if name not in {"_id", "splitEvent"}]
    assert fields == list(event)[1:]


# Waiting, and the end.


def test_a_getmore_without_events_waits_a_second_or_as_long_as_it_says() -> None:
    server = filled()
    stream = watch(server)
    for field, seconds in (({}, 1.0), ({"maxTimeMS": 250}, 0.25)):
        with pytest.raises(Park) as parked:
            server.run({"getMore": Int64(stream.id), "collection": "c", **field})
        assert parked.value.action.until == seconds
        assert parked.value.action.bell is server.oplog.grown


def test_killing_a_stream_wakes_the_getmore_that_waits() -> None:
    server = filled()
    stream = watch(server)
    heard: list[bool] = []
    server.oplog.grown.listen(lambda: heard.append(True))
    server.run({"killCursors": "c", "cursors": [Int64(stream.id)]})
    assert heard == [True]
    context = server.context()
    context.cursor_checked_out = True
    with pytest.raises(CommandError) as killed:
        get_more(context, {"getMore": Int64(stream.id), "collection": "c"})
    assert killed.value.code == 237


def test_a_batch_has_no_more_events_than_are_asked_for() -> None:
    server = filled()
    stream = watch(server)
    server.fill("c", *({"_id": number} for number in range(5)))
    assert [len(stream.read(batch_size=2)) for _ in range(4)] == [2, 2, 1, 0]
    tokens = [event["_id"]["_data"] for event in stream.events]
    assert tokens == sorted(tokens)


# Whatever is written.

IDS = st.integers(1, 4)
VALUES = st.recursive(
    st.one_of(st.integers(0, 3), st.sampled_from(["", "text"]), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "0"]), inner, max_size=3)
    ),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3)
PATHS = st.sampled_from(["a", "b", "c", "a.a", "a.0", "b.0.a", "c.b"])
CHANGES = st.one_of(
    DOCUMENTS,
    st.dictionaries(PATHS, VALUES, min_size=1, max_size=2).map(lambda fields: {"$set": fields}),
    PATHS.map(lambda path: {"$unset": {path: 1}}),
    st.builds(lambda path, value: {"$push": {path: value}}, PATHS, VALUES),
    st.builds(lambda path: {"$pop": {path: 1}}, PATHS),
    DOCUMENTS.map(lambda fields: [{"$set": {name: {"$literal": value} for name, value in fields.items()}}]),
    DOCUMENTS.map(
        lambda fields: [{"$replaceWith": {"$mergeObjects": [{"_id": "$_id"}, {"$literal": fields}]}}]
    ),
)
WRITES = st.one_of(
    st.builds(lambda key, fields: {"insert": "c", "documents": [{"_id": key, **fields}]}, IDS, DOCUMENTS),
    st.builds(
        lambda key, change: {"update": "c", "updates": [{"q": {"_id": key}, "u": change}]}, IDS, CHANGES
    ),
    IDS.map(lambda key: {"delete": "c", "deletes": [{"q": {"_id": key}, "limit": 1}]}),
)


def written(writes: list[dict[str, Any]]) -> Server:
    """Return a server that was sent the writes; those that it refuses change nothing."""
    server = Server()
    server.run({"create": "c"})
    for command in writes:
        server.run(command)
    return server


@settings(max_examples=150)
@given(st.lists(WRITES, max_size=12))
def test_the_events_of_any_writes_replayed_give_the_collection(writes: list[dict[str, Any]]) -> None:
    server = written(writes)
    held = sorted(server.documents("c"), key=lambda document: document["_id"])
    assert replayed(told(server)) == held


@settings(max_examples=50)
@given(st.lists(WRITES, max_size=8), st.booleans())
def test_resuming_at_any_event_tells_exactly_the_rest(writes: list[dict[str, Any]], dropped: bool) -> None:  # noqa: FBT001 -- drawn
    server = written(writes)
    if dropped:
        server.run({"drop": "c"})
    events: list[Event] = told(server)
    for number, event in enumerate(events, 1):
        again = watch(server, startAfter=event["_id"], batch_size=1000)
        assert again.events == events[number:]
        assert again.token["_data"] >= event["_id"]["_data"]

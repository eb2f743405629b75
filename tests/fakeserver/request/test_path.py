"""The paths that are worked out once, and every stage that a request would walk without them."""

from __future__ import annotations

from itertools import cycle, product
from typing import TYPE_CHECKING, Any

import bson
import pytest
from both_paths import SPECS, Pass, Rule, Send, message, observe
from bson import Binary, Int64, Timestamp
from bson.binary import UUID_SUBTYPE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sizes import is_full

from mongowire.connection import WireConnection
from mongowire.framing import elements_of
from mongowire.messages import DocumentSequence, OpMsg, OpQuery

if TYPE_CHECKING:
    from both_paths import Event


Document = dict[str, Any]

# What clients send.

SESSION = {"id": Binary(bytes(range(16)), UUID_SUBTYPE)}
SIGNATURE = {"hash": bytes(20), "keyId": Int64(0)}
UPSERT = {"q": {"_id": 9}, "u": {"$inc": {"n": 1}}, "upsert": True}
BASES: tuple[Document, ...] = (
    *({"ping": 1}, {"hello": 1, "helloOk": True}, {"isMaster": 1, "topologyVersion": 1}),
    *({"find": "c", "filter": {"_id": key}} for key in (1, 2)),
    *({"find": "c", "limit": number} for number in (0, 1, Int64(2), 2.0, -1, "two", None, True)),
    *({"find": name, "singleBatch": True} for name in ("c", "", ".c", 1, None)),
    *({"insert": "c", "documents": [{"_id": key, "n": 0}]} for key in (1, 2, 3)),
    *({"insert": "c"}, {"insert": "c", "documents": [1]}, {"insert": "c", "documents": []}),
    {"insert": "c", "documents": [{"n": 1}, {"n": 2}], "ordered": False},
    *({"update": "c", "updates": [{**UPSERT, **more}]} for more in ({}, {"multi": 1.0}, {"unknown": 1})),
    {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"n": 4}}], "ordered": 0},
    {"delete": "c", "deletes": [{"q": {"_id": 3}, "limit": 1}]},
    {"findAndModify": "c", "query": {"_id": 2}, "update": {"n": 5}},
    {"aggregate": "c", "pipeline": [{"$match": {"n": 0}}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$out": "e"}], "cursor": {}},
    *({"getMore": Int64(7), "collection": "c"}, {"killCursors": "c", "cursors": [Int64(7)]}),
    *({"create": "d"}, {"drop": "d"}, {"count": "c"}, {"distinct": "c", "key": "n"}, {"listCollections": 1}),
    *({"commitTransaction": 1}, {"abortTransaction": 1}, {"serverStatus": 1}, {"buildInfo": 1}),
    *({"nonsense": 1}, {"endSessions": [SESSION]}),
)
EXTRAS: tuple[Document, ...] = (
    *({}, {"comment": "text"}, {"lsid": SESSION}, {"lsid": {"id": 1}}, {"lsid": None}),
    *({"lsid": SESSION, "txnNumber": Int64(number)} for number in (1, 2)),
    {"lsid": SESSION, "txnNumber": Int64(4), "autocommit": False, "startTransaction": True},
    *({"lsid": SESSION, "txnNumber": Int64(4), "autocommit": False}, {"txnNumber": Int64(1)}),
    *({"maxTimeMS": limit} for limit in (0, 3, -1, "x")),
    *({"readConcern": {"level": level}} for level in ("local", "majority", "snapshot", "nonsense")),
    *({"writeConcern": {"w": w, "wtimeout": 5}} for w in (0, 1, 3, 9, "majority", "nonsense")),
    *({"$readPreference": {"mode": mode}} for mode in ("primary", "secondary", "nonsense")),
    {"$clusterTime": {"clusterTime": Timestamp(5, 1), "signature": SIGNATURE}},
    *({"$clusterTime": 1}, {"$clusterTime": None}, {"$readPreference": None}, {"unheardOf": 1}),
    *({"apiVersion": "1"}, {"apiVersion": "7"}, {"apiVersion": "1", "apiStrict": True}),
    *({"stmtId": 1}, {"stmtId": "x"}, {"filter": None}, {"$db": 1}, {"$db": "local"}, {"ordered": 0.0}),
)
FLAGS: st.SearchStrategy[Document] = st.sampled_from(
    [{}, {}, {}, {}, {"more_to_come": True}, {"checksum": True}, {"exhaust_allowed": True}]
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Draw the bytes of one request."""
    base, extra, flags = draw(st.sampled_from(BASES)), draw(st.sampled_from(EXTRAS)), draw(FLAGS)
    db = draw(st.sampled_from([*["test"] * 5, "admin", "local", "no/db", "config"]))
    command = {**base, "$db": db, **extra}
    odd = draw(st.integers(0, 11))
    if odd == 0 and command.get("documents"):
        documents = command.pop("documents")
        sequences = [DocumentSequence.of("documents", [each for each in documents if each != 1])]
        return message(command, sequences=sequences, **flags)
    if odd == 1:
        return WireConnection().send(OpQuery.of(db, base), request_id=9)
    if odd == 2:  # a field twice
        elements = elements_of(bson.encode(command))
        twice = elements + elements_of(bson.encode({"filter": {}, "limit": 1})) * 2
        body = (len(twice) + 5).to_bytes(4, "little") + twice + b"\0"
        return WireConnection().send(OpMsg(body), request_id=11)
    if odd == 3:
        del command["$db"]
    return message(command, **flags)


# What changes how a server stands.

LIMITER = "ingressRequestRateLimiterEnabled"
SETTINGS: st.SearchStrategy[Document] = st.sampled_from(
    [
        {LIMITER: True, "ingressRequestAdmissionRatePerSec": 50},
        {LIMITER: True, "ingressRequestAdmissionBurstCapacitySecs": 0.02},
        *({"ingressRequestAdmissionMaxQueueDepth": 2}, {"ingressRequestAdmissionMaxQueueDepth": 0}),
        {LIMITER: False},
        {"ingressAdmissionControlEnabled": True, "ingressAdmissionControllerTicketPoolSize": 1},
        {"ingressAdmissionControlEnabled": False},
        *({"serviceTimeBaseMillis": 4}, {"serviceTimeBaseMillis": 0}),
        *({"requireApiVersion": True}, {"requireApiVersion": False}),
        *({"internalQueryExecYieldPeriodMS": 0}, {"internalQueryExecYieldPeriodMS": 10}),
        {"admissionPriorityExemptions": {"commands": ["find"]}},
        {"admissionPriorityExemptions": {}},
    ]
)
EFFECTS: st.SearchStrategy[Document] = st.sampled_from(
    [
        *({"errorCode": 462}, {"errorCode": 91, "errorLabels": []}, {"closeConnection": True}),
        *({"blockConnection": True, "blockTimeMS": 3}, {"writeConcernError": {"code": 91, "errmsg": "x"}}),
    ]
)
COMMANDS = ["ping", "find", "insert", "update", "hello"]
FAIL_POINTS: st.SearchStrategy[Document] = st.one_of(
    st.builds(
        lambda mode, effect: {
            "configureFailPoint": "failCommand",
            "mode": mode,
            "data": {"failCommands": COMMANDS, **effect},
        },
        st.sampled_from(["off", "alwaysOn", {"times": 1}, {"skip": 1}, {"activationProbability": 0.5}]),
        EFFECTS,
    ),
    st.builds(
        lambda name, mode: {"configureFailPoint": name, "mode": mode},
        st.sampled_from(
            [
                *("failIngressRequestRateLimiting", "respondWithNotPrimaryInCommandDispatch"),
                *("maxTimeAlwaysTimeOut", "hangInRateLimiter", "waitInHello"),
                "sessionWorkflowDelayOrFailSendMessage",
            ]
        ),
        st.sampled_from(["off", {"times": 1}, {"times": 2}]),
    ),
)
CONTROLS = st.one_of(
    SETTINGS.map(lambda each: {"setParameter": 1, **each}),
    FAIL_POINTS,
    st.sampled_from(
        [
            {"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "majority"}},
            {"setDefaultRWConcern": 1, "defaultReadConcern": {}, "defaultWriteConcern": {"w": 1}},
            *({"profile": 0, "slowms": 0}, {"profile": 0, "slowms": 100}, {"profile": 2}),
            *({"fsync": 1, "lock": True}, {"fsyncUnlock": 1}, {"replSetStepDown": 1, "force": True}),
        ]
    ),
)
RULES = st.sampled_from(
    [
        None,
        {"when": {"command": "find"}, "then": {"error": 462}},
        {"when": {"command": "insert"}, "then": {"delay": "3ms"}},
    ]
)
SENT = st.builds(Send, st.integers(0, 1), messages(), st.integers(1, 3))
EVENTS: st.SearchStrategy[Event] = st.one_of(
    SENT,
    SENT,
    SENT,
    st.builds(lambda each: Send(2, message({**each, "$db": "admin"})), CONTROLS),
    st.builds(Pass, st.sampled_from([0.0, 0.001, 0.02, 1.0])),
    st.builds(Rule, RULES),
)


LIMITED = {LIMITER: True, "ingressRequestAdmissionBurstCapacitySecs": 0.5}
FAIL = {"configureFailPoint": "failCommand", "mode": {"activationProbability": 0.5}}
FAILING = {"failCommands": [*COMMANDS, "getMore", "aggregate"]}
SITUATIONS: dict[str, list[Document]] = {
    "nothing": [],
    "a rate": [{"setParameter": 1, **LIMITED, "ingressRequestAdmissionRatePerSec": 500}],
    "a rate and a queue": [
        {"setParameter": 1, "ingressRequestAdmissionMaxQueueDepth": 2},
        {"setParameter": 1, **LIMITED, "ingressRequestAdmissionRatePerSec": 500},
    ],
    "tickets for none": [{"setParameter": 1, "ingressAdmissionControlEnabled": False}],
    "service times": [{"setParameter": 1, "serviceTimeBaseMillis": 1}],
    "priorities": [{"setParameter": 1, "admissionPriorityExemptions": {"commands": ["find", "insert"]}}],
    "versions required": [{"setParameter": 1, "requireApiVersion": True}],
    "turns": [{"setParameter": 1, "internalQueryExecYieldPeriodMS": 0}],
    "failing": [{**FAIL, "data": {**FAILING, "errorCode": 91}}],
    "failing behind": [{**FAIL, "data": {**FAILING, "writeConcernError": {"code": 91, "errmsg": "x"}}}],
    "slow queries": [{"profile": 0, "slowms": 0}],
    "profiled": [{"profile": 2}],
    "default concerns": [
        {"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "majority"}},
        {"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": 2, "wtimeout": 5}},
    ],
}


WALKED = [*zip(cycle(SPECS), SITUATIONS, strict=False)]
"""Each situation on one topology; at full size on each of them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topology", "situation"), [*product(SPECS, SITUATIONS)] if is_full("paths") else WALKED
)
def test_every_command_with_every_field_is_answered_as_by_every_stage(topology: str, situation: str) -> None:
    kinds = {next(iter(base)): base for base in reversed(BASES)}.values()
    commands = [{**base, **extra} for base in kinds for extra in EXTRAS] + list(BASES)
    # Each of them twice, and the simplest again: a shape that is met twice has its path.
    sent = [Send(0, message({**each, "$db": each.get("$db", "test")}), 2) for each in commands]
    # Some have theirs before the server stands as it does, and must not keep it.
    events: list[Event] = [Send(0, message({**base, "$db": "test"}), 3) for base in kinds]
    for control in SITUATIONS[situation]:
        events += [Send(2, message({**control, "$db": db})) for db in ("admin", "test")]
    for number, each in enumerate([*sent, *sent[-len(BASES) :]]):
        events += [each, Pass(0.01)] if number % 4 == 0 else [each]
    assert observe(topology, events, compiled=True) == observe(topology, events, compiled=False)


BEHIND = {**FAIL, "mode": "alwaysOn", "data": {**FAILING, "writeConcernError": {"code": 91, "errmsg": "x"}}}
MEANWHILE: dict[str, Document] = {
    "a fail point behind the run": BEHIND,
    "the threshold of slow queries": {"profile": 0, "slowms": 0},
    "a rate": {"setParameter": 1, **LIMITED, "ingressRequestAdmissionRatePerSec": 1},
}


@pytest.mark.parametrize("change", MEANWHILE)
def test_what_changes_while_a_command_gives_way_meets_it_behind_its_run(change: str) -> None:
    turns = {"setParameter": 1, "internalQueryExecYieldPeriodMS": 0, "$db": "admin"}
    insert = Send(0, message({"insert": "c", "documents": [{}, {}], "$db": "test"}))
    control = Send(2, message({**MEANWHILE[change], "$db": "admin"}))
    known: list[Event] = [insert, Pass(1)] * 3
    events = [Send(2, message(turns)), Pass(1), *known, insert, control, Pass(1)]
    seen = observe("replica set", events, compiled=True)
    assert seen == observe("replica set", events, compiled=False)
    if change == "a fail point behind the run":
        assert b"writeConcernError" in seen.replies[-1][2]


@pytest.mark.parametrize("topology", SPECS)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_path_does_what_every_stage_together_does(topology: str, data: st.DataObject) -> None:
    events = data.draw(st.lists(EVENTS, min_size=1, max_size=14))
    # Twice over: by then the shapes are known.
    events = [*events, *events]
    assert observe(topology, events, compiled=True) == observe(topology, events, compiled=False)

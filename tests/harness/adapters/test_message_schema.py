"""What is wrong with a message of an adapter: the path, the value, and what it has to be."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from harness.adapters.base import Feature
from harness.adapters.lines import AdapterProtocolError, Answer, CallbackDue, Observed, message
from harness.adapters.message_schema import FEATURES, KINDS, schema


def line(document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def event(kind: str = "commandStartedEvent", **fields: Any) -> dict[str, Any]:
    return {"event": {"client": 2, "kind": kind, "fields": {"commandName": "find", **fields}}}


def at(instant: object) -> dict[str, Any]:
    return {"event": {"client": 2, "kind": "topologyOpeningEvent", "at": instant, "fields": {}}}


RIGHT: list[tuple[Any, Any]] = [
    ({"id": 1, "result": None}, Answer(1)),
    ({"id": {"$numberInt": "1"}, "result": {"n": {"$numberLong": "5"}}}, Answer(1, {"n": 5})),
    ({"id": {"$numberLong": "1"}, "entity": True, "clock": 0.5}, Answer(1, entity=True, clock=0.5)),
    ({"id": 1, "entity": True, "clock": {"$numberDouble": "0.5"}}, Answer(1, entity=True, clock=0.5)),
    ({"id": 1, "unsupported": "no"}, Answer(1, unsupported="no")),
    ({"callback": 7}, CallbackDue(7)),
    (event(), Observed(2, "commandStartedEvent", {"commandName": "find"})),
    (event(serviceId=None, serverConnectionId=None), None),
    (at(1), Observed(2, "topologyOpeningEvent", {}, 1.0)),
    (event("commandFailedEvent", failure="the connection was lost"), None),
    (event("commandFailedEvent", failure={"message": "the connection was lost"}), None),
]


@pytest.mark.parametrize(("document", "said"), RIGHT, ids=lambda value: repr(value)[:50])
def test_a_message_is_read_with_plain_and_with_canonical_numbers(document: Any, said: Any) -> None:
    read = message(line(document))
    assert said is None or read == said
    assert jsonschema_rs.Draft202012Validator(schema()).is_valid(document)


def failed(**parts: Any) -> dict[str, Any]:
    return {"id": 5, "error": {"message": "x", **parts}}


WRONG: list[tuple[Any, str]] = [
    ({"id": 5}, "answer to request 5: it has none of result, entity, error, unsupported"),
    ({"id": 5, "result": 1, "error": {}}, "answer to request 5: it has result and error, where one is due"),
    ({"result": 1}, "answer: lacks id"),
    ({}, "no answer, event or callback: it has neither id nor event nor callback"),
    ({"id": "5", "result": 1}, 'answer to request 5: id: "5" is not a whole number'),
    ({"id": 5, "entity": False}, "answer to request 5: entity:"),
    ({"id": 5, "error": "no"}, "answer to request 5: error:"),
    ({"id": 5, "error": {}}, "answer to request 5: error: lacks message"),
    (failed(code=1.5), "error.code: 1.5 is not a whole number or null"),
    (failed(label=[]), "error: has no part 'label'; did you mean 'labels'?"),
    (failed(labels=["a", 1]), 'error.labels: ["a", 1] is not a list of texts or null'),
    (failed(writeErrors={"first": {}}), "is not a document of errors by index"),
    ({"id": 5, "result": {"n": {"$numberInt": 1}}}, 'result.n: {"$numberInt": 1} is no extended JSON'),
    ({"id": 5, "result": [{"at": {"$date": "soon"}}]}, 'result[0].at: {"$date": "soon"} is no extended JSON'),
    (event(commandName=None), "event commandStartedEvent: fields.commandName: null is not a text"),
    (event(requestId="7"), 'event commandStartedEvent: fields.requestId: "7" is not a whole number'),
    (event("commandFailedEvent", failure=7), "fields.failure: 7 is not a text or a document"),
    (event("commandStarted"), "there is no event 'commandStarted'; did you mean 'commandStartedEvent'?"),
    (event("logMessage", level="debug"), "event logMessage: fields: lacks component"),
    ({"event": {"kind": "poolReadyEvent", "fields": {}}}, "event poolReadyEvent: lacks client"),
    (at("now"), 'event topologyOpeningEvent: at: "now" is not a number of seconds'),
    (at({"$numberDouble": "NaN"}), "is not a number of seconds"),
    ({"event": []}, "event: [] is not"),
    ({"callback": None}, "callback: callback: null is not a whole number"),
]


@pytest.mark.parametrize(("document", "said"), WRONG, ids=lambda value: repr(value)[:60])
def test_a_wrong_message_is_refused_with_its_path_and_what_is_due(document: Any, said: str) -> None:
    with pytest.raises(AdapterProtocolError) as raised:
        message(line(document))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"id": 1, "result": NaN}\n', "NaN is no JSON"),
        (b"Welcome!\n", "a line that is no message: 'Welcome!'"),
        (b"[1]\n", "a line that is no message: '[1]'"),
        (b"\xff\n", "a line that is no message"),
        (b"[" * 100_000 + b"\n", "a line that is no message"),
    ],
    ids=["NaN", "text", "list", "bytes", "depth"],
)
def test_what_is_no_document_of_json_is_no_message(text: bytes, said: str) -> None:
    with pytest.raises(AdapterProtocolError, match=re.escape(said)):
        message(text)


def test_an_answer_that_is_none_knows_the_request_that_it_was_for() -> None:
    with pytest.raises(AdapterProtocolError) as raised:
        message(line({"id": {"$numberInt": "5"}}))
    assert raised.value.number == 5


def test_every_feature_and_every_kind_of_event_is_in_the_schema() -> None:
    assert set(FEATURES) == {feature.name for feature in Feature} - {"VIRTUAL_TIME"}
    for kind in KINDS:
        fields = {"commandName": "x"}
        message(line({"event": {"client": 1, "kind": kind, "fields": fields}}))

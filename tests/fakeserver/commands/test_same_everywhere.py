"""An expression, a stage or an update answers the same wherever it stands: a value, or the code of a refusal.

What is drawn comes from the grammar of the statements (tests/support/statements), so every operator of the
server's tables is drawn. `PUSHBACKD_TESTS=answers=100000` draws as many.
"""

from __future__ import annotations

import datetime as dt
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson import Code, Int64, MaxKey, MinKey
from data_commands import Server
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sizes import size
from statements.pipelines import Pipelines

from fakeserver.errors import CommandError
from fakeserver.storage.stages.pipeline_stages import NAMES as STAGES
from fakeserver.storage.values.types import truthy
from mongowire.messages import decode_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Document = dict[str, Any]

COUNT = size("answers")
DRAWN = settings(
    max_examples=COUNT,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
DOCUMENTS: list[Document] = [
    {"_id": 1, "a": [{"b": 1}, {"b": 2}], "b": 2.5, "c": "abc", "d": dt.datetime(2020, 5, 17, tzinfo=dt.UTC)},
    {"_id": 2, "a": [1, 2, 3], "b": {"c": 1}, "c": "é", "d": None, "n": Int64(2)},
    {"_id": 3, "a": 1, "n": 1, "t": dt.datetime(2020, 5, 17, 3, tzinfo=dt.UTC)},
]
ELSEWHERE = {
    *("expression $rand", "expression $createObjectId", "expression $function", "accumulator $accumulator"),
    *("expression $meta", "filter $where", "filter $sampleRate", "filter $text", "stage $sample"),
    *("filter $near", "filter $nearSphere", "filter $geoNear"),
}
"""What another draw of the same dice, a script, or an index answers, and metadata, which a find alone has."""
BELOW = {16610: 4848403, 40400: 5911200, 5787902: 7548606, 5787908: 7548606, 2: 4848401}
"""Codes of expressions, and those of a `$group` that the query engine below the pipeline runs."""
GONE = "there is no such field"
NOT_WITHIN = {"$facet", "$geoNear", "$sample"}
"""Stages that another stage does not hold, or that have another answer each time."""


class Answer(tuple[str, Any]):
    """What a place answered: `("code", 2)` or `("value", b"…")`."""

    __slots__ = ()


def serving(count: int = len(DOCUMENTS)) -> Server:
    server = Server()
    server.fill("c", *DOCUMENTS[:count])
    return server


def answer(make: Callable[[], Any]) -> Answer:
    try:
        return Answer(("value", bson.encode({"r": plain(make())})))
    except CommandError as error:
        return Answer(("code", BELOW.get(int(error.code), int(error.code))))


def plain(value: Any) -> Any:
    """Return one form of a value: a `$group` may hand on code as its text, and an end within an object."""
    if isinstance(value, dict):
        is_end = type(value.get("")) in {MinKey, MaxKey}
        return value[""] if is_end else {name: plain(value[name]) for name in value}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Code) and value.scope is None else value


def found(server: Server, command: Document) -> list[Document]:
    return list(server.run(command)["cursor"]["firstBatch"])


def aggregated(server: Server, *stages: Document, of: str = "c") -> list[Document]:
    return found(server, {"aggregate": of, "pipeline": list(stages), "cursor": {}})


def viewed(server: Server, stage: Document) -> list[Document]:
    server.run({"create": "v", "viewOn": "c", "pipeline": [stage]})
    return found(server, {"find": "v"})


def looked_up(server: Server, stage: Document) -> list[Document]:
    server.fill("one", {"_id": 1})
    (joined,) = aggregated(server, {"$lookup": {"from": "c", "pipeline": [stage], "as": "r"}}, of="one")
    return list(joined["r"])


def in_a_facet(server: Server, stage: Document) -> list[Document]:
    (made,) = aggregated(server, {"$facet": {"r": [stage]}})
    return list(made["r"])


def united(server: Server, stage: Document) -> list[Document]:
    return aggregated(server, {"$unionWith": {"coll": "c", "pipeline": [stage]}}, of="nothing")


def updated(server: Server, change: Any, **more: Any) -> list[Document]:
    reply = server.run({"update": "c", "updates": [{"q": {}, "u": change, **more}]})
    for error in reply.get("writeErrors", ()):
        raise CommandError(error["code"], error["errmsg"])
    return found(server, {"find": "c"})


def found_and_modified(server: Server, change: Any) -> list[Document]:
    return [server.run({"findAndModify": "c", "query": {}, "update": change, "new": True})["value"]]


def written_in_bulk(server: Server, change: Any) -> list[Document]:
    operation = {"update": 0, "filter": {}, "updateMods": change}
    reply = server.run({"bulkWrite": 1, "ops": [operation], "nsInfo": [{"ns": "db.c"}]}, db="admin")
    for result in reply["cursor"]["firstBatch"]:
        if not result["ok"]:
            raise CommandError(result["code"], result["errmsg"])
    return found(server, {"find": "c"})


PLACES: Mapping[str, Callable[[Server, Document], list[Document]]] = {
    "aggregate": aggregated,
    "a view": viewed,
    "$lookup": looked_up,
    "$facet": in_a_facet,
    "$unionWith": united,
}


CHOOSING = {f"expression {name}" for name in ("$and", "$or")}
"""Operators that a constant decides, before a document whose values would fail is looked at."""


def is_decided_before(stage: Document, said: set[str]) -> bool:
    """Whether an optimizer, which no update has, answers a stage before a document comes."""
    try:
        aggregated(serving(), stage)
    except CommandError as error:
        return error.message.startswith("Failed to optimize")
    return bool(said & CHOOSING)


def the_same(answers: Mapping[str, Answer], drawn: Any) -> None:
    first = next(iter(answers.values()))
    assert all(each == first for each in answers.values()), (drawn, answers)


@pytest.mark.slow
@DRAWN
@given(st.integers(0, 2**32))
def test_an_expression_has_one_value_wherever_it_stands(seed: int) -> None:
    grammar = Pipelines(Random(seed), 0.03)
    drawn = grammar.expression(2)
    if grammar.said & ELSEWHERE:
        return
    # Wrapped, so that a literal is no inclusion and `$slice` no projection of find's.
    whole = {"$let": {"vars": {}, "in": drawn}}
    stage = {"$set": {"r": whole}}

    def value(documents: list[Document]) -> Any:
        return [each.get("r", GONE) for each in documents]

    def placed(place: Callable[[Server, Document], list[Document]], stage: Document) -> Any:
        return value(place(serving(1), stage))

    answers = {name: answer(partial(placed, place, stage)) for name, place in PLACES.items()}
    finding = {"find": "c", "projection": {"r": whole}}
    grouped = {"$group": {"_id": None, "r": {"$push": whole}}}
    answers |= {
        "find": answer(lambda: value(found(serving(1), finding))),
        "$project": answer(lambda: value(aggregated(serving(1), {"$project": {"r": whole}}))),
        "$replaceWith": answer(lambda: value(aggregated(serving(1), {"$replaceWith": {"r": whole}}))),
        "$group": answer(lambda: value(aggregated(serving(1), grouped, UNWRAPPED))),
    }
    the_same(answers, drawn)
    changed = {
        "an update": answer(lambda: value(updated(serving(1), [stage]))),
        "findAndModify": answer(lambda: value(found_and_modified(serving(1), [stage]))),
        "bulkWrite": answer(lambda: value(written_in_bulk(serving(1), [stage]))),
    }
    the_same(changed | ({} if is_decided_before(stage, grammar.said) else answers), drawn)
    matched = answer(lambda: len(found(serving(1), {"find": "c", "filter": {"$expr": whole}})))
    kind, content = answers["aggregate"]
    if kind == "value":
        (result,) = decode_document(content)["r"]
        holds = truthy(result) and result != GONE
        assert matched == answer(lambda: int(holds)), drawn
    else:
        assert matched == answers["aggregate"], drawn


UNWRAPPED = {"$replaceWith": {"r": {"$first": "$r"}}}
"""Undoes the `$push` of one value; what is missing was not pushed."""


@pytest.mark.slow
@DRAWN
@given(st.integers(0, 2**32), st.sampled_from(sorted(STAGES - NOT_WITHIN)))
def test_a_stage_makes_the_same_documents_wherever_it_stands(seed: int, name: str) -> None:
    grammar = Pipelines(Random(seed), 0.03)
    stage = grammar.stage(name, 1)
    if grammar.said & ELSEWHERE or grammar.said & {f"stage {each}" for each in NOT_WITHIN}:
        return
    answers = {place: answer(partial(run, serving(), stage)) for place, run in PLACES.items()}
    the_same(answers, stage)
    if name in {"$set", "$addFields", "$unset"} and "_id" not in str(stage):
        changed = answer(lambda: updated(serving(), [stage], multi=True))
        assert is_decided_before(stage, grammar.said) or changed == answers["aggregate"], stage


@pytest.mark.slow
@DRAWN
@given(st.integers(0, 2**32))
def test_an_update_changes_the_same_whichever_command_makes_it(seed: int) -> None:
    grammar = Pipelines(Random(seed), 0.03)
    change = grammar.operators()
    if grammar.said & ELSEWHERE:
        return
    answers = {
        "update": answer(lambda: updated(serving(1), change)),
        "update of many": answer(lambda: updated(serving(1), change, multi=True)),
        "findAndModify": answer(lambda: found_and_modified(serving(1), change)),
        "bulkWrite": answer(lambda: written_in_bulk(serving(1), change)),
    }
    the_same(answers, change)

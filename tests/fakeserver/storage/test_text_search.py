"""Text search: what matches, what it scores, and where it is refused."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Code
from data_commands import Server

from fakeserver.commands.catalog import index_specs
from fakeserver.errors import CommandError
from fakeserver.storage.filters.text_search import Folding, TextIndex, parse_search, words
from fakeserver.storage.port.engine import IndexSpec

SCORE = {"$meta": "textScore"}
ARTICLES: list[dict[str, Any]] = [
    {"_id": 1, "title": "coffee"},
    {"_id": 2, "title": "Coffee Shopping"},
    {"_id": 3, "title": "Baking a cake"},
    {"_id": 4, "title": "baking"},
    {"_id": 5, "title": "Caf\u00e9 Con Leche"},
    {"_id": 6, "title": "coffee and cream"},
    {"_id": 7, "other": "coffee"},
    {"_id": 8, "title": 5},
]


def indexed(key: dict[str, Any], *documents: dict[str, Any], **options: Any) -> Server:
    server = Server()
    server.run({"createIndexes": "c", "indexes": [{"key": key, "name": "words", **options}]})
    if documents:
        server.fill("c", *documents)
    return server


def articles() -> Server:
    return indexed({"title": "text"}, *ARTICLES)


def found(server: Server, search: dict[str, Any], **more: Any) -> list[Any]:
    return [each["_id"] for each in server.documents("c", {"$text": search, **more})]


def refused(server: Server, command: dict[str, Any]) -> CommandError:
    with pytest.raises(CommandError) as caught:
        server.run(command)
    return caught.value


@pytest.mark.parametrize(
    ("search", "ids"),
    [
        ("coffee", [1, 2, 6]),
        ("COFFEES", [1, 2, 6]),
        ("coffee cake", [1, 2, 3, 6]),
        ("bake", [3, 4]),
        ("cafe", [5]),
        ("caf\u00e9", [5]),
        ("coffee -shop", [1, 6]),
        ("coffee - shop", [1, 2, 6]),
        ("coffee -shop-cream", [1]),
        ('"coffee shop"', [2]),
        ('"coffee and" cake', [6]),
        ('coffee -"and cream"', [1, 2]),
        ("the", []),
        ("-coffee", []),
        ("", []),
        ("nothing", []),
    ],
)
def test_a_search_finds_terms_and_phrases_and_leaves_out_what_it_negates(search: str, ids: list[int]) -> None:
    assert found(articles(), {"$search": search}) == ids


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"$search": "Coffee", "$caseSensitive": True}, [2]),
        ({"$search": "coffee", "$caseSensitive": True}, [1, 6]),
        ({"$search": "coffee -Shopping", "$caseSensitive": True}, [1, 6]),
        ({"$search": '"Con Leche"', "$caseSensitive": True}, [5]),
        ({"$search": '"con leche"', "$caseSensitive": True}, []),
        ({"$search": "cafe", "$diacriticSensitive": True}, []),
        ({"$search": "CAF\u00c9", "$diacriticSensitive": True}, [5]),
        ({"$search": "con", "$language": "none"}, [5]),
        ({"$search": "baking\0", "$language": ""}, [3, 4]),
        ({"$search": "baking", "$language": "es"}, []),
        ({"$search": "baking", "$language": "none"}, []),
    ],
)
def test_case_diacritics_and_language_are_heeded_where_asked_for(
    options: dict[str, Any], ids: list[int]
) -> None:
    assert found(articles(), options) == ids


@pytest.mark.parametrize(
    ("text", "search", "score"),
    [
        ("cake", "cake", 1.1),
        ("Cake", "cake", 1.1),
        ("coffee", "coffee", 1.0),
        ("cake shop", "cake", 0.75),
        ("cake cake shop", "cake", 1.5 * (0.5 * 2 / 3 + 0.5)),
        ("cake cake cake", "cake", 1.75),
        ("a cake in the shop", "cake shop", 1.5),
    ],
)
def test_the_score_is_that_of_the_published_formula(text: str, search: str, score: float) -> None:
    index = TextIndex.of(IndexSpec("words", {"t": "text"}))
    assert index is not None
    assert parse_search(search, "english").score(list(index.passages({"t": text}))) == pytest.approx(score)


def test_fields_count_by_their_weights_and_arrays_by_each_string() -> None:
    server = indexed(
        {"a": "text", "b": "text"},
        {"_id": 1, "a": "cake shop", "b": "cake shop"},
        {"_id": 2, "a": ["cake shop", "tea", "cake shop"]},
        {"_id": 3, "c": "cake"},
        weights={"a": 10},
    )
    command = {
        "find": "c",
        "filter": {"$text": {"$search": "cake"}},
        "projection": {"s": SCORE},
        "sort": {"s": SCORE},
    }
    reply = server.run(command)["cursor"]["firstBatch"]
    assert [(each["_id"], each["s"]) for each in reply] == [(2, 15.0), (1, 8.25)]


def test_the_score_can_be_projected_and_sorted_by_in_find_and_aggregate() -> None:
    server, text = articles(), {"$text": {"$search": "coffee baking"}}
    find = {"find": "c", "filter": text, "projection": {"score": SCORE}, "sort": {"score": SCORE, "_id": -1}}
    expected = [(4, 1.0), (1, 1.0), (6, 0.75), (3, 0.75), (2, 0.75)]
    reply = server.run(find)["cursor"]["firstBatch"]
    assert [(each["_id"], each["score"]) for each in reply] == expected
    assert reply[0]["title"] == "baking"
    pipeline = [{"$match": text}, {"$sort": {"score": SCORE, "_id": -1}}, {"$set": {"score": SCORE}}]
    reply = server.run({"aggregate": "c", "pipeline": pipeline, "cursor": {}})["cursor"]["firstBatch"]
    assert [(each["_id"], each["score"]) for each in reply] == expected


@pytest.mark.parametrize("key", [{"$**": "text"}, {"_fts": "text", "_ftsx": 1}])
def test_a_wildcard_index_is_about_every_string(key: dict[str, Any]) -> None:
    options = {"weights": {"$**": 1}} if "_fts" in key else {}
    server = indexed(
        key,
        {"_id": 1, "a": {"b": [{"c": "deep cake"}]}},
        {"_id": 2, "x": "cake"},
        {"_id": 3, "x": 1},
        **options,
    )
    assert found(server, {"$search": "cake"}) == [1, 2]


def test_a_document_says_its_own_language() -> None:
    server = indexed(
        {"t": "text"},
        {"_id": 1, "t": "corriendo", "lang": "spanish"},
        {"_id": 2, "t": "running"},
        default_language="english",
        language_override="lang",
    )
    assert found(server, {"$search": "correr", "$language": "spanish"}) == [1]
    assert found(server, {"$search": "runs"}) == [2]
    reply = server.run({"insert": "c", "documents": [{"t": "x", "lang": "klingon"}]})
    assert [error["code"] for error in reply["writeErrors"]] == [17262]


def test_a_compound_index_wants_its_prefix_pinned() -> None:
    server = indexed({"k": 1, "t": "text"}, {"_id": 1, "k": 1, "t": "cake"}, {"_id": 2, "k": 2, "t": "cake"})
    assert found(server, {"$search": "cake"}, k=2) == [2]
    assert refused(server, {"find": "c", "filter": {"$text": {"$search": "cake"}}}).code == 291
    wide = {"$text": {"$search": "cake"}, "k": {"$gt": 0}}
    assert refused(server, {"find": "c", "filter": wide}).code == 291


def test_updates_and_deletes_search_too() -> None:
    server = articles()
    text = {"$text": {"$search": "coffee"}}
    update = {"update": "c", "updates": [{"q": text, "u": {"$set": {"seen": True}}, "multi": True}]}
    assert server.run(update) == {"n": 3, "nModified": 3}
    assert server.run({"delete": "c", "deletes": [{"q": text, "limit": 1}]}) == {"n": 1}
    assert server.run({"count": "c", "query": text}) == {"n": 2}


TEXT = {"$text": {"$search": "coffee"}}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"find": "none", "filter": TEXT}, 27),
        ({"find": "c", "filter": {"$text": {"$search": 5}}}, 14),
        ({"find": "c", "filter": {"$text": {}}}, 4),
        ({"find": "c", "filter": {"$text": "coffee"}}, 2),
        ({"find": "c", "filter": {"$text": {"$search": "a", "$language": "klingon"}}}, 2),
        ({"find": "c", "filter": {"$text": {"$search": "a", "$language": Code("en")}}}, 14),
        ({"find": "c", "filter": {"$text": {"$search": Code("a")}}}, 14),
        ({"find": "c", "filter": {"$text": {"$search": "a", "$nonsense": 1}}}, 2),
        ({"find": "c", "filter": {"$and": [TEXT, TEXT]}}, 2),
        ({"find": "c", "filter": {"$nor": [TEXT]}}, 2),
        ({"find": "c", "filter": {**TEXT, "$and": [5]}}, 2),
        ({"find": "c", "filter": {"$expr": {"$meta": {}}}}, 17307),
        ({"find": "c", "filter": {"$or": [TEXT, {"title": "x"}]}}, 291),
        ({"find": "c", "filter": TEXT, "hint": {"_id": 1}}, 2),
        ({"find": "c", "filter": TEXT, "sort": {"$natural": 1}}, 2),
        ({"find": "c", "projection": {"score": SCORE}}, 40218),
        ({"find": "c", "sort": {"score": SCORE}}, 40218),
        ({"aggregate": "c", "pipeline": [{"$limit": 1}, {"$match": TEXT}], "cursor": {}}, 17313),
        ({"aggregate": "c", "pipeline": [{"$set": {"s": SCORE}}], "cursor": {}}, 40218),
    ],
)
def test_a_search_that_cannot_be_is_refused(command: dict[str, Any], code: int) -> None:
    assert refused(articles(), command).code == code


def test_a_branch_beside_a_search_may_have_an_index_of_its_own() -> None:
    assert found(articles(), {"$search": "cake"}) == [3]
    either = {"$or": [{"$text": {"$search": "cake"}}, {"_id": {"$gt": 7}}]}
    assert [each["_id"] for each in articles().documents("c", either)] == [3, 8]


@pytest.mark.parametrize(
    ("text", "language", "folding", "expected"),
    [
        ("Don't stop the running dogs!", "english", Folding(), ["stop", "run", "dog"]),
        ("snake_case, kebab-case", "none", Folding(), ["snake_case", "kebab", "case"]),
        ("l'\u00e9t\u00e9", "french", Folding(), ["l", "ete"]),
        ("\u00c9t\u00e9", "none", Folding(diacritics=True), ["\u00e9t\u00e9"]),
        ("Big \u2014 \u201cSmall\u201d", "none", Folding(case=True), ["Big", "Small"]),
    ],
)
def test_a_text_falls_into_words(text: str, language: str, folding: Folding, expected: list[str]) -> None:
    assert list(words(text, language, folding)) == expected


KEPT = {"key": {"_fts": "text", "_ftsx": 1}, "name": "words", "weights": {"title": 10, "body": 2}}


def test_an_index_that_is_given_as_it_is_listed_searches_as_before() -> None:
    options = {"weights": {"title": 10}, "default_language": "german", "language_override": "lang"}
    first = indexed({"state": 1, "title": "text", "body": "text", "at": -1}, **options)
    (_id, kept) = first.run({"listIndexes": "c"})["cursor"]["firstBatch"]
    assert kept["key"] == {"state": 1, "_fts": "text", "_ftsx": 1, "at": -1}
    assert (kept["weights"], kept["textIndexVersion"]) == ({"body": 1, "title": 10}, 3)
    second = Server()
    second.run({"createIndexes": "c", "indexes": [kept]})
    documents: list[dict[str, Any]] = [
        {"_id": 1, "state": "new", "title": "H\u00e4user", "body": "Berge"},
        {"_id": 2, "state": "new", "body": "Haus"},
        {"_id": 3, "state": "old", "title": "Haus"},
        {"_id": 4, "state": "new", "title": "houses", "lang": "english"},
    ]
    answers = []
    for server in (first, second):
        server.fill("c", *documents)
        command = {
            "find": "c",
            "filter": {"state": "new", "$text": {"$search": "Haus"}},
            "sort": {"s": SCORE},
        }
        batch = server.run({**command, "projection": {"s": SCORE}})["cursor"]["firstBatch"]
        answers.append([(each["_id"], each["s"]) for each in batch])
    assert answers[0] == answers[1] == [(1, 10.0), (2, 1.1)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_index_kept_as_weights_alone_is_about_those_fields(version: int) -> None:
    server = Server()
    server.run({"createIndexes": "c", "indexes": [{**KEPT, "textIndexVersion": version}]})
    server.fill("c", {"_id": 1, "title": "tea"}, {"_id": 2, "body": "tea"}, {"_id": 3, "other": "tea"})
    assert found(server, {"$search": "tea"}) == [1, 2]


@pytest.mark.parametrize("language", sorted(index_specs._LANGUAGES))
def test_every_language_of_an_index_can_be_searched(language: str) -> None:
    server = indexed({"title": "text"}, {"_id": 1, "title": "xyz"}, default_language=language)
    assert found(server, {"$search": "xyz"}) == [1]
    assert found(server, {"$search": "xyz", "$language": language}) == [1]


def test_a_partial_index_finds_what_it_holds() -> None:
    server = indexed({"title": "text"}, partialFilterExpression={"on": True})
    server.fill("c", {"_id": 1, "title": "tea", "on": True}, {"_id": 2, "title": "tea"})
    assert found(server, {"$search": "tea"}, on=True) == [1]


def test_explain_names_the_text_index() -> None:
    server = indexed({"title": "text"}, *ARTICLES)
    server.run({"createIndexes": "c", "indexes": [{"key": {"other": 1}, "name": "other"}]})
    query = {"$text": {"$search": "coffee"}, "other": {"$exists": False}}
    told = server.run({"explain": {"find": "c", "filter": query}, "verbosity": "executionStats"})
    plan = told["queryPlanner"]["winningPlan"]
    assert (plan["stage"], plan["indexName"]) == ("TEXT_MATCH", "words")
    assert plan["inputStage"]["stage"] == "FETCH"
    assert plan["inputStage"]["filter"] == {"other": {"$exists": False}}
    assert told["executionStats"]["nReturned"] == 3


def test_explain_knows_what_a_pipeline_may_know() -> None:
    pipeline = [{"$match": {"$text": {"$search": "coffee"}}}, {"$project": {"score": SCORE}}]
    told = articles().run({"explain": {"aggregate": "c", "pipeline": pipeline, "cursor": {}}})
    assert told["stages"][0]["$cursor"]["queryPlanner"]["winningPlan"]["stage"] == "TEXT_MATCH"


def test_explain_refuses_a_search_that_cannot_be() -> None:
    query = {"$nor": [{"$text": {"$search": "coffee"}}]}
    command = {"explain": {"find": "c", "filter": query}, "verbosity": "queryPlanner"}
    assert refused(articles(), command).code == 2

"""A deployment whose documents mongomock keeps, and one that has nothing of it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, OperationFailure

from fakeserver import BackgroundCluster, ClusterSpec
from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Namespace, Query, Update
from fakeserver.storage.store import mongomock_engine
from fakeserver.storage.store.mongomock_engine import MongomockEngine
from mongowire.documents.command_line import BAD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pymongo.collection import Collection


@pytest.fixture
def things() -> Iterator[Collection[dict[str, Any]]]:
    with BackgroundCluster(ClusterSpec.replica_set(1, storage="mongomock")) as running:
        client: MongoClient[dict[str, Any]] = MongoClient(running.uri)
        with client:
            yield client.db.things


def test_documents_are_written_and_read(things: Collection[dict[str, Any]]) -> None:
    things.insert_many([{"_id": number, "x": number % 2} for number in range(4)])
    assert things.update_many({"x": 1}, {"$inc": {"x": 10}}).modified_count == 2
    assert things.update_one({"_id": 9}, {"$set": {"x": 9}}, upsert=True).upserted_id == 9
    assert things.delete_one({"_id": 0}).deleted_count == 1
    assert list(things.find({"x": {"$gt": 0}}, {"x": 1}).sort("_id", -1).limit(2)) == [
        {"_id": 9, "x": 9},
        {"_id": 3, "x": 11},
    ]
    grouped = things.aggregate([{"$group": {"_id": "$x", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
    assert list(grouped) == [{"_id": 0, "n": 1}, {"_id": 9, "n": 1}, {"_id": 11, "n": 2}]


def test_unique_indexes_and_transactions_hold(things: Collection[dict[str, Any]]) -> None:
    things.create_index("x", unique=True)
    things.insert_one({"_id": 1, "x": 1})
    with pytest.raises(DuplicateKeyError, match="x_1"):
        things.insert_one({"_id": 2, "x": 1})
    with things.database.client.start_session() as session:
        with session.start_transaction():
            things.insert_one({"_id": 3, "x": 3}, session=session)
        session.start_transaction()
        things.delete_many({}, session=session)
        session.abort_transaction()
    assert [document["_id"] for document in things.find()] == [1, 3]


def test_it_is_mongomock_that_answers(things: Collection[dict[str, Any]]) -> None:
    things.insert_one({"_id": 1, "x": True})
    assert list(things.find({"x": 1})) == [{"_id": 1, "x": True}], "to mongomock true is 1"
    with pytest.raises(OperationFailure, match=r"sample.*mongomock") as caught:
        list(things.aggregate([{"$sample": {"size": 1}}]))
    assert caught.value.code == 238


def test_transactions_conflict_over_the_same_key_of_a_dotted_path_alone(
    things: Collection[dict[str, Any]],
) -> None:
    things.create_index("x.y", unique=True)
    client = things.database.client
    with client.start_session() as one, client.start_session() as other:
        one.start_transaction()
        other.start_transaction()
        things.insert_one({"_id": 1, "x": {"y": 1}}, session=one)
        things.insert_one({"_id": 2, "x": {"y": 2}}, session=other)
        with pytest.raises(OperationFailure) as conflict:
            things.insert_one({"_id": 3, "x": {"y": 1}}, session=other)
        assert conflict.value.code == 112
        one.commit_transaction()
    assert [document["_id"] for document in things.find()] == [1]


def test_it_says_what_its_engine_is(things: Collection[dict[str, Any]]) -> None:
    admin = things.database.client.admin
    assert admin.command("serverStatus")["storageEngine"]["name"] == "mongomock"
    assert admin.command("buildInfo")["storageEngines"] == ["mongomock"]


def test_a_write_of_many_looks_at_each_document_as_it_is_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    ns, engine = Namespace("db", "c"), MongomockEngine()
    for number in range(4):
        engine.insert(ns, {"_id": number, "x": 1})

    def others() -> None:
        for image in engine.find(ns, Query({"_id": 2, "x": 1})):
            monkeypatch.undo()
            engine.delete(ns, Query({"_id": image["_id"]}))
            engine.update(ns, Update(Query({"_id": 3}), {"$set": {"x": 7}}))

    monkeypatch.setattr(mongomock_engine, "check_for_interrupt", others)
    result = engine.update(ns, Update(Query({"x": 1}), {"$set": {"x": 2}}, multi=True))
    assert result.modified == 2
    assert engine.find(ns, Query()) == [{"_id": 0, "x": 2}, {"_id": 1, "x": 2}, {"_id": 3, "x": 7}]


def test_no_id_is_drawn_and_no_document_grows_beyond_a_servers_limit() -> None:
    ns, engine = Namespace("db", "c"), MongomockEngine()
    with pytest.raises(CommandError, match="without an _id"):
        engine.update(ns, Update(Query({"x": 1}), {"$set": {"y": 1}}, upsert=True))
    engine.insert(ns, {"_id": 1})
    with pytest.raises(CommandError) as large:
        engine.update(ns, Update(Query(), {"$set": {"y": "x" * 17_000_000}}))
    assert large.value.code == 10334


def test_an_unknown_storage_is_refused() -> None:
    with pytest.raises(ValueError, match="storage must be one of memory, mongomock, not disk"):
        ClusterSpec.standalone(storage="disk")


@pytest.mark.parametrize("verb", ["serve", "start"])
def test_an_unknown_storage_is_a_mistake_on_the_command_line(verb: str) -> None:
    command = [sys.executable, "-m", "harness", verb, "--storage", "disk"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == BAD_INPUT
    assert "--storage" in run.stderr


def test_the_default_imports_no_engine_of_mongomock() -> None:
    script = (
        "import sys\n"
        "from fakeserver import BackgroundCluster, ClusterSpec\n"
        "with BackgroundCluster(ClusterSpec.standalone()):\n"
        "    print([name for name in sys.modules if 'mongomock' in name])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

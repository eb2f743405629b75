"""Messages that are large, or claim to be, and what a server does about them before it works on them."""

from __future__ import annotations

import struct
from typing import Any

import bson
import pytest
from bson import DBRef
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec
from mongowire.compression import Compressor
from mongowire.messages import DocumentSequence, OpMsg

EMPTY = b"\5\0\0\0\0"
TOO_MANY = "Write batch sizes must be between 1 and 100000. Got {} operations."


def framed(elements: bytes) -> bytes:
    """Return elements as a document."""
    return struct.pack("<i", len(elements) + 5) + elements + b"\0"


def in_body(command: str, field: str, count: int) -> bytes:
    """Return a message with an array of empty documents in its body."""
    array = framed(b"".join(b"\3%d\0" % number + EMPTY for number in range(count)))
    body = bson.encode({command: "c"})[4:-1] + b"\4" + field.encode() + b"\0" + array
    return bytes(5) + framed(body + bson.encode({"$db": "db"})[4:-1])


def in_sequence(command: str, field: str, count: int) -> bytes:
    """Return a message with a sequence of empty documents."""
    sequence = field.encode() + b"\0" + EMPTY * count
    body = bson.encode({command: "c", "$db": "db"})
    return bytes(5) + body + b"\1" + struct.pack("<i", len(sequence) + 4) + sequence


async def answer(talker: Talker, payload: bytes) -> dict[str, Any] | None:
    """Return what a server says to an OP_MSG."""
    await talker.send_bytes(struct.pack("<iiii", len(payload) + 16, 1, 0, 2013) + payload)
    return await talker.reply()


@pytest.mark.parametrize("form", [in_body, in_sequence])
@pytest.mark.parametrize("command", [("insert", "documents"), ("update", "updates"), ("delete", "deletes")])
def test_more_statements_than_a_command_takes_are_counted_and_refused(
    form: Any, command: tuple[str, str]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await answer(await deployment.connect(), form(*command, 100_001))
        assert reply is not None
        assert (reply["code"], reply["errmsg"]) == (16, TOO_MANY.format(100_001))
        assert (
            deployment.cluster.oplog.last.increment == 0 or "db" not in deployment.cluster.catalog.databases()
        )

    play(scenario)


def test_a_command_without_sequences_refuses_any_however_long() -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await answer(await deployment.connect(), in_sequence("ping", "documents", 100_001))
        assert reply is not None
        assert reply["code"] == 40472

    play(scenario)


def test_a_large_insert_stores_what_a_small_one_does() -> None:
    documents: list[dict[str, Any]] = [
        {"_id": number, "n": {"deep": [number, {"text": "x" * 50}]}} for number in range(4000)
    ]
    documents += [{"_id": "ref", "to": DBRef("c", 1)}, {"_id": "long", "text": "x" * 300_000}]

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        sequence = DocumentSequence.of("documents", documents)
        inserted = await talker.ok({"insert": "a", "$db": "db"}, sequences=[sequence])
        assert inserted["n"] == len(documents)
        assert (await talker.ok({"insert": "b", "documents": documents, "$db": "db"}))["n"] == len(documents)
        for name in ("a", "b"):
            reply = await talker.ok({"find": name, "$db": "db", "batchSize": 10_000})
            assert reply["cursor"]["firstBatch"] == documents

    play(scenario)


@pytest.mark.parametrize("levels", [200, 201])
def test_a_large_message_is_nested_as_deep_as_a_small_one_may_be(levels: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        nested: Any = {}
        for _ in range(levels - 1):
            nested = {"a": nested}
        for padding in ("", "x" * 300_000):
            reply = await talker.command({"ping": 1, "comment": nested, "unused": padding, "$db": "admin"})
            assert reply is not None
            assert (reply.get("code") == 15) is (levels == 201), reply

    play(scenario)


def test_a_field_of_a_large_body_that_comes_twice_is_refused() -> None:
    async def scenario(deployment: Deployment) -> None:
        twice = bson.encode({"ordered": True})[4:-1] * 2 + bson.encode({"comment": "x" * 300_000})[4:-1]
        body = bson.encode({"insert": "c", "documents": [{}], "$db": "db"})[4:-1]
        reply = await answer(await deployment.connect(), bytes(5) + framed(body + twice))
        assert reply is not None
        assert reply["errmsg"] == "BSON field 'insert.ordered' is a duplicate field"

    play(scenario)


def test_a_large_message_that_is_compressed_is_understood() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        insert = {"insert": "c", "documents": [{"_id": 1, "text": "x" * 3_000_000}], "$db": "db"}
        assert (await talker.ok(insert, compressor=Compressor.ZLIB))["n"] == 1

    play(scenario)


def test_what_cannot_be_inflated_to_what_was_announced_ends_the_connection() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        sent = OpMsg.of({"ping": 1, "comment": "x" * 3_000_000, "$db": "admin"})
        data = bytearray(talker._wire.send(sent, request_id=1, compressor=Compressor.ZLIB))
        (size,) = struct.unpack_from("<i", data, 20)
        struct.pack_into("<i", data, 20, size + 1)
        await talker.send_bytes(bytes(data))
        assert await talker.reply() is None
        assert (await (await deployment.connect()).ok({"ping": 1}))["ok"] == 1

    play(scenario)


# Before anybody has logged in.


async def _with_users(deployment: Deployment) -> Talker:
    talker = await deployment.connect()
    await talker.ok({"createUser": "ada", "pwd": "secret", "roles": ["root"]})
    return talker


def test_who_has_not_logged_in_may_send_little() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _with_users(deployment)
        assert (await (await deployment.connect()).ok({"hello": 1, "comment": "x" * 16_000}))["ok"] == 1
        stranger = await deployment.connect()
        assert await stranger.command({"hello": 1, "comment": "x" * 20_000}) is None
        stranger = await deployment.connect()
        await stranger.send({"hello": 1, "comment": "x" * 20_000}, compressor=Compressor.ZLIB)
        assert await stranger.reply() is None

    play(scenario, ClusterSpec.standalone(auth=True))


def test_how_much_strangers_may_send_is_a_parameter() -> None:
    async def scenario(deployment: Deployment) -> None:
        stranger = await deployment.connect()
        assert (await stranger.ok({"hello": 1, "comment": "x" * 20_000}))["ok"] == 1
        assert await stranger.command({"hello": 1, "comment": "x" * 40_000}) is None

    parameters = {"preAuthMaximumMessageSizeBytes": 32_768}
    play(scenario, ClusterSpec.standalone(auth=True, parameters=parameters))


def test_without_access_control_nobody_is_a_stranger() -> None:
    async def scenario(deployment: Deployment) -> None:
        assert (await (await deployment.connect()).ok({"hello": 1, "comment": "x" * 20_000}))["ok"] == 1

    play(scenario)

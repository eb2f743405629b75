"""How many large messages a server decompresses at a time, whoever has sent them."""

from __future__ import annotations

import asyncio
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from talking import STANDALONE, Deployment, Talker, play, play_live

from fakeserver.waiting.turns import Inflation
from mongowire.compression import Compressor
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONNECTIONS = 12
_BOMB: dict[str, Any] = {"ping": 1, "comment": ["x" * 1000] * 4000, "$db": "admin"}
"""4 MB that are sent as some 20 KB."""


class _Counted(Inflation):
    """The budget, with the most messages that had room at a time."""

    most = 0

    @contextmanager
    def taking(self) -> Iterator[None]:
        with super().taking():
            self.most = max(self.most, self.under_way)
            yield


async def _many(deployment: Deployment, count: int) -> list[Talker]:
    return [await deployment.connect() for _ in range(count)]


async def _inflated(talker: Talker) -> float:
    reply = await talker.ok(_BOMB, compressor=Compressor.ZLIB)
    ok: float = reply["ok"]
    return ok


def test_a_large_message_is_left_as_it_came_until_there_is_room() -> None:
    async def scenario(deployment: Deployment) -> None:
        inflation, (large, small) = deployment.cluster.turns.inflation, await _many(deployment, 2)
        with inflation.taking(), inflation.taking():
            answered = asyncio.ensure_future(_inflated(large))
            await deployment.sleep(10)
            assert (answered.done(), inflation.under_way) == (False, 2)
            await small.ok({"ping": 1, "comment": "x" * 1000}, compressor=Compressor.ZLIB)
        assert await answered == 1
        assert inflation.under_way == 0

    play(scenario, STANDALONE)


def test_all_who_wait_for_room_are_answered_in_their_order() -> None:
    async def scenario(deployment: Deployment) -> None:
        inflation, talkers = deployment.cluster.turns.inflation, await _many(deployment, _CONNECTIONS)
        order: list[int] = []

        async def ask(number: int) -> None:
            await _inflated(talkers[number])
            order.append(number)

        with inflation.taking(), inflation.taking():
            asked = [asyncio.ensure_future(ask(number)) for number in range(_CONNECTIONS)]
            await deployment.sleep(10)
            assert order == []
        await asyncio.gather(*asked)
        assert order == list(range(_CONNECTIONS))

    play(scenario, STANDALONE)


def test_the_messages_of_many_connections_are_decompressed_two_at_a_time() -> None:
    """On the wall clock, where decompressing gives way to others: without a bound all would be under way."""

    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.turns.inflation = inflation = _Counted()
        talkers = await _many(deployment, _CONNECTIONS)
        assert await asyncio.gather(*map(_inflated, talkers)) == [1.0] * _CONNECTIONS
        assert (inflation.most, inflation.under_way) == (2, 0)

    play_live(scenario, STANDALONE)


def test_a_message_that_cannot_be_decompressed_leaves_its_room() -> None:
    async def scenario(deployment: Deployment) -> None:
        for _ in range(3):
            talker = await deployment.connect()
            data = bytearray(talker._wire.send(OpMsg.of(_BOMB), request_id=1, compressor=Compressor.ZLIB))
            (size,) = struct.unpack_from("<i", data, 20)
            struct.pack_into("<i", data, 20, size + 1)
            await talker.send_bytes(bytes(data))
            assert await talker.reply() is None
        assert deployment.cluster.turns.inflation.under_way == 0
        assert await _inflated(await deployment.connect()) == 1

    play(scenario, STANDALONE)

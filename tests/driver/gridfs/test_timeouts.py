"""timeoutMS of GridFS (Client Side Operations Timeout: GridFS API): one limit for all that a call does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from bucket_scenes import play

from driver import GridFSBucket
from driver.errors import DriverError, OperationTimeoutError
from driver.gridfs.streams import UploadOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bucket_scenes import Scene

LIMIT_MS = 100
ONE_AFTER_ANOTHER = 60
"""Milliseconds by which each command is late: one of them fits into the limit, two do not."""


async def upload(scene: Scene, **limit: Any) -> None:
    await scene.bucket.upload_from_stream("new", b"abcdef", UploadOptions(**limit))


async def upload_with_id(scene: Scene, **limit: Any) -> None:
    await scene.bucket.upload_from_stream_with_id(7, "new", b"abcdef", UploadOptions(**limit))


async def download(scene: Scene, **limit: Any) -> None:
    async with await scene.bucket.open_download_stream(1, **limit) as stream:
        await stream.read()


async def download_by_name(scene: Scene, **limit: Any) -> None:
    async with await scene.bucket.open_download_stream_by_name("f", **limit) as stream:
        await stream.read()


async def delete(scene: Scene, **limit: Any) -> None:
    await scene.bucket.delete(1, **limit)


async def delete_by_name(scene: Scene, **limit: Any) -> None:
    await scene.bucket.delete_by_name("f", **limit)


async def rename(scene: Scene, **limit: Any) -> None:
    await scene.bucket.rename(1, "g", **limit)


async def rename_by_name(scene: Scene, **limit: Any) -> None:
    await scene.bucket.rename_by_name("f", "g", **limit)


async def drop(scene: Scene, **limit: Any) -> None:
    await scene.bucket.drop(**limit)


async def find(scene: Scene, **limit: Any) -> None:
    given = {"timeoutMS": limit["timeout_ms"]} if limit else {}
    await (await scene.bucket.find({}, **given)).to_list()


async def a_file(scene: Scene) -> None:
    """Upload `f`, of id 1, in two chunks."""
    await scene.bucket.upload_from_stream_with_id(1, "f", b"abcdef")


async def how_long(scene: Scene, call: Awaitable[Any]) -> tuple[float, DriverError | None]:
    """Return the seconds that a call took, and its error."""
    began = scene.client.clock.now()
    try:
        await call
    except DriverError as error:
        return round(scene.client.clock.now() - began, 3), error
    return round(scene.client.clock.now() - began, 3), None


def assert_timed_out(told: tuple[float, DriverError | None]) -> None:
    seconds, error = told
    assert isinstance(error, OperationTimeoutError)
    assert seconds <= LIMIT_MS / 1000


COMMANDS = [
    (download, "find", 0),
    (download, "find", 1),
    (download_by_name, "find", 0),
    (download_by_name, "find", 1),
    (delete, "delete", 0),
    (delete, "delete", 1),
    (delete_by_name, "find", 0),
    (delete_by_name, "delete", 0),
    (delete_by_name, "delete", 1),
    (rename, "update", 0),
    (rename_by_name, "update", 0),
    (drop, "drop", 0),
    (drop, "drop", 1),
    (find, "find", 0),
]
FIRST_UPLOAD = [
    ("find", 0),
    ("listIndexes", 0),
    ("createIndexes", 0),
    ("listIndexes", 1),
    ("createIndexes", 1),
    ("insert", 0),
    ("insert", 1),
    ("insert", 2),
]
"""The commands of the first upload of a bucket, of two chunks, in their order."""


@pytest.mark.parametrize("inherited", [False, True], ids=["of the call", "of the client"])
@pytest.mark.parametrize(("call", "command", "after"), COMMANDS)
def test_each_command_of_a_call_ends_with_its_time(
    call: Callable[..., Awaitable[None]],
    command: str,
    after: int,
    inherited: bool,  # noqa: FBT001
) -> None:
    limit = {} if inherited else {"timeout_ms": LIMIT_MS}

    async def scenario(scene: Scene) -> None:
        await a_file(scene)
        await scene.fail(command, {"skip": after}, blockConnection=True, blockTimeMS=LIMIT_MS * 2)
        assert_timed_out(await how_long(scene, call(scene, **limit)))

    play(scenario, f"&timeoutMS={LIMIT_MS}" if inherited else "")


@pytest.mark.parametrize("inherited", [False, True], ids=["of the call", "of the client"])
@pytest.mark.parametrize("call", [upload, upload_with_id])
@pytest.mark.parametrize(("command", "after"), FIRST_UPLOAD)
def test_each_command_of_a_first_upload_ends_with_its_time(
    call: Callable[..., Awaitable[None]],
    command: str,
    after: int,
    inherited: bool,  # noqa: FBT001
) -> None:
    limit = {} if inherited else {"timeout_ms": LIMIT_MS}

    async def scenario(scene: Scene) -> None:
        await scene.fail(command, {"skip": after}, blockConnection=True, blockTimeMS=LIMIT_MS * 2)
        assert_timed_out(await how_long(scene, call(scene, **limit)))

    play(scenario, f"&timeoutMS={LIMIT_MS}" if inherited else "")


@pytest.mark.parametrize("timeout_ms", [0, 10_000])
def test_an_upload_with_time_enough_makes_the_indexes_and_the_file(timeout_ms: int) -> None:
    async def scenario(scene: Scene) -> None:
        await upload(scene, timeout_ms=timeout_ms)
        assert [name for name, _ in scene.sent()] == [name for name, _ in FIRST_UPLOAD]
        started = [event for event in scene.events if event.kind == "commandStartedEvent"]
        assert {"maxTimeMS" in event.command for event in started} == {timeout_ms > 0}
        assert await scene.files.count_documents({"filename": "new"}) == 1
        assert await scene.chunks.list_index_names() == ["_id_", "files_id_1_n_1"]

    play(scenario)


@pytest.mark.parametrize(
    ("call", "command"),
    [
        (upload, "insert"),
        (download, "find"),
        (download_by_name, "find"),
        (delete, "delete"),
        (delete_by_name, "delete"),
        (drop, "drop"),
    ],
)
def test_the_time_is_for_all_commands_of_a_call_together(
    call: Callable[..., Awaitable[None]], command: str
) -> None:
    async def scenario(scene: Scene) -> None:
        await a_file(scene)
        await scene.fail(command, "alwaysOn", blockConnection=True, blockTimeMS=ONE_AFTER_ANOTHER)
        assert_timed_out(await how_long(scene, call(scene, timeout_ms=LIMIT_MS)))

    play(scenario)


async def wait(scene: Scene, seconds: float) -> None:
    clock = scene.client.clock
    await clock.sleep_until(clock.now() + seconds)


@pytest.mark.parametrize("step", ["write", "close"])
def test_an_upload_stream_lives_as_long_as_its_time(step: str) -> None:
    """The time between two calls counts too."""

    async def scenario(scene: Scene) -> None:
        await a_file(scene)
        stream = scene.bucket.open_upload_stream("new", UploadOptions(timeout_ms=LIMIT_MS))
        await stream.write(b"abcd")
        await wait(scene, 0.2)
        with pytest.raises(OperationTimeoutError):
            await (stream.write(b"efgh") if step == "write" else stream.aclose())
        assert await scene.files.count_documents({"filename": "new"}) == 0

    play(scenario)


def test_an_upload_stream_that_is_aborted_has_what_is_left_of_its_time() -> None:
    async def scenario(scene: Scene) -> None:
        await a_file(scene)
        stream = scene.bucket.open_upload_stream("new", UploadOptions(timeout_ms=LIMIT_MS))
        await stream.write(b"abcd")
        await scene.fail("delete", "alwaysOn", blockConnection=True, blockTimeMS=LIMIT_MS * 2)
        assert_timed_out(await how_long(scene, stream.abort()))

    play(scenario)


def test_a_download_stream_lives_as_long_as_its_time_and_so_does_its_end() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.bucket.upload_from_stream_with_id(1, "f", b"a" * 4 * 200)
        stream = await scene.bucket.open_download_stream(1, timeout_ms=LIMIT_MS)
        await stream.read(4)
        await scene.fail("killCursors", "alwaysOn", blockConnection=True, blockTimeMS=LIMIT_MS * 5)
        seconds, error = await how_long(scene, stream.aclose())
        assert error is None
        assert seconds <= LIMIT_MS / 1000

    play(scenario)


class Slow:
    """A source and a destination that take 60 ms for each piece."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def read(self, n: int, /) -> bytes:
        await wait(self._scene, ONE_AFTER_ANOTHER / 1000)
        return b"x" * n

    async def write(self, _data: bytes, /) -> None:
        await wait(self._scene, ONE_AFTER_ANOTHER / 1000)


class Impatient:
    """A source and a destination with time limits of their own."""

    async def read(self, _n: int, /) -> bytes:
        raise TimeoutError("mine")

    async def write(self, _data: bytes, /) -> None:
        raise TimeoutError("mine")


def test_a_slow_source_or_destination_costs_the_time_of_its_transfer() -> None:
    async def scenario(scene: Scene) -> None:
        await a_file(scene)
        limited = UploadOptions(timeout_ms=LIMIT_MS)
        told = await how_long(scene, scene.bucket.upload_from_stream("new", Slow(scene), limited))
        assert_timed_out(told)
        told = await how_long(scene, scene.bucket.download_to_stream(1, Slow(scene), timeout_ms=LIMIT_MS))
        assert_timed_out(told)

    play(scenario)


def test_the_time_limit_of_a_source_or_destination_is_its_own_error() -> None:
    async def scenario(scene: Scene) -> None:
        await a_file(scene)
        limited = UploadOptions(timeout_ms=LIMIT_MS)
        with pytest.raises(TimeoutError, match="mine"):
            await scene.bucket.upload_from_stream("new", Impatient(), limited)
        with pytest.raises(TimeoutError, match="mine"):
            await scene.bucket.download_to_stream(1, Impatient(), timeout_ms=LIMIT_MS)

    play(scenario)


def test_an_upload_that_waits_for_anothers_indexes_waits_no_longer_than_its_time() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.fail("createIndexes", {"times": 1}, blockConnection=True, blockTimeMS=1000)
        first = asyncio.create_task(upload(scene))
        await wait(scene, 0.01)
        assert_timed_out(await how_long(scene, upload(scene, timeout_ms=LIMIT_MS)))
        await first
        await upload(scene, timeout_ms=LIMIT_MS)

    play(scenario)


def test_a_bucket_has_the_time_limit_of_its_database() -> None:
    async def scenario(scene: Scene) -> None:
        bucket = GridFSBucket(scene.client.database("db", timeout_ms=LIMIT_MS), chunk_size_bytes=4)
        await scene.fail("createIndexes", "alwaysOn", blockConnection=True, blockTimeMS=LIMIT_MS * 2)
        assert_timed_out(await how_long(scene, bucket.upload_from_stream("new", b"abc")))

    play(scenario)


def test_an_index_is_made_in_time_and_its_description_says_nothing_of_it() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.files.create_index({"a": 1}, timeoutMS=LIMIT_MS)
        indexes = await (await scene.files.list_indexes()).to_list()
        assert [set(index) for index in indexes if index["name"] == "a_1"] == [{"v", "key", "name"}]
        await scene.fail("createIndexes", "alwaysOn", blockConnection=True, blockTimeMS=LIMIT_MS * 2)
        assert_timed_out(await how_long(scene, scene.files.create_index({"b": 1}, timeoutMS=LIMIT_MS)))

    play(scenario)

"""GridFS against the fake deployment, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import Int64
from bson.regex import Regex
from bucket_scenes import Scene, play
from hypothesis import given, settings
from hypothesis import strategies as st

from driver import GridFSBucket, ReadMode, ReadPreference, WriteConcern
from driver.errors import (
    CorruptGridFSFileError,
    GridFSFileNotFoundError,
    GridFSStreamClosedError,
    InvalidArgumentError,
    NetworkError,
    RevisionNotFoundError,
    ServerError,
)
from driver.gridfs.streams import Layout, UploadOptions

# How a file lies in its chunks.


@pytest.mark.parametrize(
    ("length", "chunk_size", "sizes"),
    [
        (0, 4, []),
        (1, 4, [1]),
        (4, 4, [4]),
        (5, 4, [4, 1]),
        (8, 4, [4, 4]),
        (3, 1, [1, 1, 1]),
        (10, 1000, [10]),
    ],
)
def test_all_chunks_but_the_last_have_the_chunk_size(length: int, chunk_size: int, sizes: list[int]) -> None:
    layout = Layout(length, chunk_size)
    assert [layout.size_of(n) for n in range(layout.chunks)] == sizes


@pytest.mark.parametrize(
    "file",
    [
        {},
        {"length": 3},
        {"length": "many", "chunkSize": 4},
        {"length": 3, "chunkSize": 0},
        {"length": -1, "chunkSize": 4},
    ],
)
def test_a_file_without_a_length_or_a_chunk_size_is_corrupt(file: dict[str, Any]) -> None:
    with pytest.raises(CorruptGridFSFileError):
        Layout.of_file({"_id": 1, **file})


def test_sizes_may_be_any_kind_of_number() -> None:
    assert Layout.of_file({"length": 5.0, "chunkSize": Int64(4)}) == Layout(5, 4)


# Round trips.


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    data=st.binary(max_size=300),
    chunk_size=st.integers(1, 70),
    writes=st.lists(st.integers(0, 90), max_size=12),
    reads=st.lists(st.integers(0, 90), max_size=12),
)
def test_what_was_written_in_any_pieces_is_read_in_any_pieces(
    data: bytes, chunk_size: int, writes: list[int], reads: list[int]
) -> None:
    async def scenario(scene: Scene) -> None:
        options = UploadOptions(chunk_size_bytes=chunk_size)
        async with scene.bucket.open_upload_stream("f", options) as upload:
            start = 0
            for size in writes:
                assert await upload.write(data[start : start + size]) == len(data[start : start + size])
                start += size
            await upload.write(data[start:])
        async with await scene.bucket.open_download_stream(upload.id) as download:
            pieces = [await download.read(size) for size in reads]
            assert [len(piece) for piece in pieces[:1]] == [min(size, len(data)) for size in reads[:1]]
            assert b"".join(pieces) + await download.read() == data
        async with await scene.bucket.open_download_stream(upload.id) as download:
            chunks = [chunk async for chunk in download]
        layout = Layout(len(data), chunk_size)
        assert chunks == [data[n * chunk_size :][: layout.size_of(n)] for n in range(layout.chunks)]
        assert await scene.chunks.count_documents() == layout.chunks

    play(scenario)


def test_the_document_of_a_file_has_what_was_given_and_nothing_else() -> None:
    async def scenario(scene: Scene) -> None:
        options = UploadOptions(metadata={"owner": "ada"}, content_type="text/plain", aliases=["g"])
        file_id = await scene.bucket.upload_from_stream("f", b"12345", options)
        await scene.bucket.upload_from_stream_with_id("mine", "g", b"")
        first, second = await (await scene.files.find({}, sort={"filename": 1})).to_list()
        first.pop("uploadDate")
        assert first == {
            "_id": file_id,
            "length": 5,
            "chunkSize": 4,
            "filename": "f",
            "contentType": "text/plain",
            "aliases": ["g"],
            "metadata": {"owner": "ada"},
        }
        assert list(second) == ["_id", "length", "chunkSize", "uploadDate", "filename"]
        found = await (await scene.bucket.find({"metadata.owner": "ada"}, limit=1)).to_list()
        assert [file["_id"] for file in found] == [file_id]

    play(scenario)


class Pipe:
    """A source that fails after some bytes, or a destination."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.pieces = list(pieces)
        self.written: list[bytes] = []

    async def read(self, n: int) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, Exception):
            raise piece
        assert len(piece) <= n
        return piece

    async def write(self, data: bytes) -> None:
        self.written.append(data)


def test_a_file_goes_from_a_source_to_a_destination_chunk_by_chunk() -> None:
    async def scenario(scene: Scene) -> None:
        file_id = await scene.bucket.upload_from_stream("f", Pipe(b"123", b"45", b"6789"))
        by_id, by_name = Pipe(), Pipe()
        await scene.bucket.download_to_stream(file_id, by_id)
        await scene.bucket.download_to_stream_by_name("f", by_name)
        assert by_id.written == by_name.written == [b"1234", b"5678", b"9"]

    play(scenario)


# Indexes.


def test_only_the_first_upload_to_an_empty_bucket_looks_for_indexes() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.bucket.upload_from_stream("f", b"12")
        first = scene.sent()
        assert first == [
            ("find", "fs.files"),
            ("listIndexes", "fs.files"),
            ("createIndexes", "fs.files"),
            ("listIndexes", "fs.chunks"),
            ("createIndexes", "fs.chunks"),
            ("insert", "fs.chunks"),
            ("insert", "fs.files"),
        ]
        scene.events.clear()
        await scene.bucket.upload_from_stream("g", b"")
        assert scene.sent() == [("insert", "fs.files")]
        scene.events.clear()
        await GridFSBucket(scene.client.database("db")).upload_from_stream("h", b"")
        assert scene.sent() == [("find", "fs.files"), ("insert", "fs.files")]
        await scene.chunks.insert_one({"files_id": 1, "n": 0})
        with pytest.raises(ServerError, match="E11000"):
            await scene.chunks.insert_one({"files_id": 1, "n": 0})

    play(scenario)


def test_an_index_with_other_kinds_of_numbers_is_the_same_index() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.files.create_index({"filename": 1.0, "uploadDate": Int64(1)})
        await scene.chunks.create_index({"files_id": 1.0, "n": 1.0}, unique=True)
        scene.events.clear()
        await scene.bucket.upload_from_stream("f", b"")
        assert "createIndexes" not in [name for name, _ in scene.sent()]

    play(scenario)


def test_uploads_that_begin_together_create_the_indexes_once_and_a_failed_attempt_is_repeated() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.fail("createIndexes", {"times": 1}, errorCode=13)
        with pytest.raises(ServerError):
            await scene.bucket.upload_from_stream("f", b"1")
        scene.events.clear()
        await asyncio.gather(*(scene.bucket.upload_from_stream("f", b"1") for _ in range(5)))
        assert [what for what in scene.sent() if what[0] == "createIndexes"] == [
            ("createIndexes", "fs.files"),
            ("createIndexes", "fs.chunks"),
        ]

    play(scenario)


def test_whether_a_bucket_is_empty_is_asked_of_the_primary() -> None:
    async def scenario(scene: Scene) -> None:
        nearest = ReadPreference(ReadMode.NEAREST)
        bucket = GridFSBucket(scene.client.database("db"), read_preference=nearest)
        await bucket.upload_from_stream("f", b"1")
        await (await bucket.open_download_stream_by_name("f")).aclose()
        started = [event for event in scene.events if event.kind == "commandStartedEvent"]
        first, last = (event.command for event in started if event.command_name == "find")
        assert "$readPreference" not in first
        assert last["$readPreference"] == {"mode": "nearest"}

    play(scenario)


# Uploads that come to nothing.


def test_an_upload_that_is_aborted_leaves_no_chunks_and_takes_no_more() -> None:
    async def scenario(scene: Scene) -> None:
        upload = scene.bucket.open_upload_stream("f")
        await upload.write(b"123456789")
        assert await scene.chunks.count_documents() == 2
        await upload.abort()
        await upload.abort()
        assert await scene.chunks.count_documents() == 0
        for use in (upload.write(b"x"), upload.aclose()):
            with pytest.raises(GridFSStreamClosedError, match="is aborted"):
                await use
        assert await scene.files.count_documents() == 0

    play(scenario)


def test_the_error_of_a_source_aborts_its_upload_and_is_raised() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(ZeroDivisionError):
            await scene.bucket.upload_from_stream("f", Pipe(b"1234", ZeroDivisionError()))
        assert scene.sent()[-1] == ("delete", "fs.chunks")
        await scene.fail("delete", {"times": 1}, errorCode=13)
        with pytest.raises(ZeroDivisionError):
            await scene.bucket.upload_from_stream("f", Pipe(b"1234", ZeroDivisionError()))
        assert await scene.files.count_documents() == 0
        assert await scene.chunks.count_documents() == 1

    play(scenario)


def test_an_abort_that_cannot_delete_the_chunks_says_so() -> None:
    async def scenario(scene: Scene) -> None:
        upload = scene.bucket.open_upload_stream("f")
        await upload.write(b"1234")
        await scene.fail("delete", {"times": 1}, errorCode=13)
        with pytest.raises(ServerError):
            await upload.abort()
        with pytest.raises(GridFSStreamClosedError):
            await upload.write(b"5")

    play(scenario)


def test_a_file_that_is_there_cannot_be_written_or_aborted_any_more() -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.bucket.open_upload_stream("f") as upload:
            await upload.write(b"12345")
        await upload.aclose()
        for use in (upload.write(b"x"), upload.abort()):
            with pytest.raises(GridFSStreamClosedError, match="is closed"):
                await use
        assert await scene.download(upload.id) == b"12345"

    play(scenario)


def test_an_upload_goes_on_over_a_lost_connection_because_inserts_are_retryable_writes() -> None:
    async def scenario(scene: Scene) -> None:
        upload = scene.bucket.open_upload_stream("f")
        await upload.write(b"1234")
        await scene.fail("insert", {"times": 1}, closeConnection=True)
        await upload.write(b"5678")
        await upload.aclose()
        assert scene.sent() == [("insert", "fs.chunks"), ("insert", "fs.chunks"), ("insert", "fs.files")]
        assert await scene.download(upload.id) == b"12345678"

    play(scenario)


def test_an_upload_that_lost_its_connection_for_good_leaves_its_chunks_until_it_is_aborted() -> None:
    async def scenario(scene: Scene) -> None:
        upload = scene.bucket.open_upload_stream("f")

        async def write_two_chunks() -> None:
            async with upload:
                await upload.write(b"1234")
                await scene.fail("insert", {"times": 1}, closeConnection=True)
                await upload.write(b"5678")

        with pytest.raises(NetworkError):
            await write_two_chunks()
        assert scene.sent() == [("insert", "fs.chunks")]
        with pytest.raises(GridFSStreamClosedError, match="is failed"):
            await upload.aclose()
        assert await scene.chunks.count_documents() == 1
        assert await scene.files.count_documents() == 0
        await upload.abort()
        assert await scene.chunks.count_documents() == 0

    play(scenario, "&retryWrites=false")


def test_an_upload_that_is_cancelled_leaves_no_chunks() -> None:
    async def scenario(scene: Scene) -> None:
        sent = asyncio.Event()

        async def endless() -> None:
            async with scene.bucket.open_upload_stream("f") as upload:
                await upload.write(b"123456789")
                sent.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(endless())
        await sent.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await scene.chunks.count_documents() == 0

    play(scenario)


# Downloads.


async def spoil(scene: Scene, n: int, change: dict[str, Any] | None) -> None:
    """Change a chunk, or delete it."""
    if change is None:
        await scene.chunks.delete_one({"n": n})
    else:
        await scene.chunks.update_one({"n": n}, {"$set": change})


@pytest.mark.parametrize(
    ("n", "change", "good", "message"),
    [
        (0, None, b"", "chunk 0 of 3 is missing"),
        (1, None, b"1234", "chunk 1 of 3 is missing"),
        (2, None, b"12345678", "chunk 2 of 3 is missing"),
        (1, {"data": b"567"}, b"1234", "chunk 1 of 3 has 3 bytes instead of 4"),
        (2, {"data": b"9abc"}, b"12345678", "chunk 2 of 3 has 4 bytes instead of 2"),
        (2, {"n": 7}, b"12345678", "chunk 2 of 3 is missing"),
    ],
)
def test_a_download_is_good_up_to_the_chunk_that_is_missing_or_has_not_its_size(
    n: int, change: dict[str, Any] | None, good: bytes, message: str
) -> None:
    async def scenario(scene: Scene) -> None:
        file_id = await scene.bucket.upload_from_stream("f", b"123456789a")
        await spoil(scene, n, change)
        async with await scene.bucket.open_download_stream(file_id) as stream:
            assert await stream.read(len(good)) == good
            with pytest.raises(CorruptGridFSFileError, match=message):
                await stream.read()

    play(scenario)


def test_a_chunk_beyond_the_last_one_is_an_error_unless_it_is_empty() -> None:
    async def scenario(scene: Scene) -> None:
        file_id = await scene.bucket.upload_from_stream("f", b"1234")
        await scene.chunks.insert_one({"files_id": file_id, "n": 1, "data": b""})
        assert await scene.download(file_id) == b"1234"
        await scene.chunks.update_one({"n": 1}, {"$set": {"data": b"5"}})
        with pytest.raises(CorruptGridFSFileError, match="there is a chunk 1 of 1"):
            await scene.download(file_id)

    play(scenario)


def test_the_chunks_of_an_empty_file_are_not_asked_for() -> None:
    async def scenario(scene: Scene) -> None:
        file_id = await scene.bucket.upload_from_stream("f", b"")
        scene.events.clear()
        assert await scene.download(file_id) == b""
        assert scene.sent() == [("find", "fs.files")]

    play(scenario)


def test_a_download_that_is_closed_gives_no_more() -> None:
    async def scenario(scene: Scene) -> None:
        file_id = await scene.bucket.upload_from_stream("f", b"12345")
        stream = await scene.bucket.open_download_stream(file_id)
        await stream.read(1)
        await stream.aclose()
        await stream.aclose()
        with pytest.raises(GridFSStreamClosedError):
            await stream.read()

    play(scenario)


@pytest.mark.parametrize(("revision", "content"), [(0, b"0"), (1, b"1"), (2, b"2"), (-1, b"2"), (-3, b"0")])
def test_revisions_count_from_the_oldest_and_backwards_from_the_newest(revision: int, content: bytes) -> None:
    async def scenario(scene: Scene) -> None:
        clock = scene.client.clock
        for number in range(3):
            await scene.bucket.upload_from_stream("f", b"%d" % number)
            await clock.sleep_until(clock.now() + 1)
        stream = await scene.bucket.open_download_stream_by_name("f", revision=revision)
        assert await stream.read() == content

    play(scenario)


def test_a_missing_name_and_a_missing_revision_are_different_errors() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.bucket.upload_from_stream("f", b"")
        for revision in (1, -2):
            with pytest.raises(RevisionNotFoundError, match=f"'f' has no revision {revision}"):
                await scene.bucket.open_download_stream_by_name("f", revision=revision)
        for revision in (0, -1, 5):
            with pytest.raises(GridFSFileNotFoundError, match="no file named 'g'"):
                await scene.bucket.open_download_stream_by_name("g", revision=revision)

    play(scenario)


# Files.


def test_what_is_not_there_cannot_be_read_deleted_or_renamed() -> None:
    async def scenario(scene: Scene) -> None:
        bucket = scene.bucket
        for use in (
            bucket.open_download_stream(1),
            bucket.delete(1),
            bucket.rename(1, "g"),
            bucket.delete_by_name("f"),
            bucket.rename_by_name("f", "g"),
        ):
            with pytest.raises(GridFSFileNotFoundError):
                await use

    play(scenario)


def test_an_id_that_is_a_pattern_means_nothing_but_itself() -> None:
    async def scenario(scene: Scene) -> None:
        pattern = Regex("^ma")
        await scene.bucket.upload_from_stream_with_id("main", "f", b"1")
        with pytest.raises(GridFSFileNotFoundError):
            await scene.bucket.open_download_stream(pattern)
        with pytest.raises(GridFSFileNotFoundError):
            await scene.bucket.rename(pattern, "g")
        with pytest.raises(GridFSFileNotFoundError):
            await scene.bucket.delete(pattern)
        assert await scene.download("main") == b"1"

    play(scenario)


def test_names_are_deleted_and_renamed_with_all_their_revisions() -> None:
    async def scenario(scene: Scene) -> None:
        for name in ("f", "f", "g"):
            await scene.bucket.upload_from_stream(name, b"12345")
        await scene.bucket.rename_by_name("f", "h")
        assert await scene.files.distinct("filename") == ["g", "h"]
        await scene.bucket.delete_by_name("h")
        assert await scene.files.distinct("filename") == ["g"]
        assert await scene.chunks.count_documents() == 2
        scene.events.clear()
        await scene.bucket.drop()
        assert scene.sent() == [("drop", "fs.files"), ("drop", "fs.chunks")]

    play(scenario)


def test_who_asks_for_no_acknowledgement_does_not_hear_of_missing_files() -> None:
    async def scenario(scene: Scene) -> None:
        bucket = GridFSBucket(scene.client.database("db"), write_concern=WriteConcern(w=0))
        await bucket.delete(1)
        await bucket.rename(1, "g")

    play(scenario)


def test_a_chunk_has_a_byte_at_least() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(InvalidArgumentError):
            GridFSBucket(scene.client.database("db"), chunk_size_bytes=0)
        with pytest.raises(InvalidArgumentError):
            scene.bucket.open_upload_stream("f", UploadOptions(chunk_size_bytes=-1))

    play(scenario)

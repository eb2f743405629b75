"""The reference driver's GridFS as a table: operation of the format to method of a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from driver.gridfs.bucket import GridFSBucket
from driver.gridfs.upload import UploadOptions
from harness.adapters.base import UnsupportedOperation
from harness.adapters.reference_operations import Call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from harness.adapters.reference_operations import Arguments, Handler

_UPLOAD: Final = {
    "chunkSizeBytes": "chunk_size_bytes",
    "contentType": "content_type",
    "metadata": "metadata",
    "timeoutMS": "timeout_ms",
}
_BUCKET: Final = {"bucketName": "bucket_name", "chunkSizeBytes": "chunk_size_bytes"}
_NO_MD5: Final = "disableMD5"
"""The driver never computes one, so that this asks for what happens anyway."""


def bucket_options(given: Arguments) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options of a bucket entity into the bucket's own, as keywords, and the concerns."""
    own = {_BUCKET[name]: value for name, value in given.items() if name in _BUCKET}
    return own, {name: value for name, value in given.items() if name not in {*_BUCKET, _NO_MD5}}


def _upload_options(given: Arguments, *others: str) -> UploadOptions:
    for name in given:
        if name not in {*_UPLOAD, *others, _NO_MD5}:
            raise UnsupportedOperation(f"the reference driver takes no {name} here")
    return UploadOptions(**{_UPLOAD[name]: value for name, value in given.items() if name in _UPLOAD})


async def _upload(bucket: GridFSBucket, given: Arguments) -> Any:
    options = _upload_options(given, "filename", "source")
    return await bucket.upload_from_stream(given["filename"], given["source"], options)


async def _upload_with_id(bucket: GridFSBucket, given: Arguments) -> None:
    options = _upload_options(given, "id", "filename", "source")
    await bucket.upload_from_stream_with_id(given["id"], given["filename"], given["source"], options)


async def _download(bucket: GridFSBucket, file_id: Any, timeout_ms: int | None) -> bytes:
    async with await bucket.open_download_stream(file_id, timeout_ms=timeout_ms) as stream:
        return await stream.read()


async def _download_by_name(
    bucket: GridFSBucket, filename: str, revision: int | None, timeout_ms: int | None
) -> bytes:
    wanted = -1 if revision is None else revision
    opened = await bucket.open_download_stream_by_name(filename, revision=wanted, timeout_ms=timeout_ms)
    async with opened as stream:
        return await stream.read()


def _timed(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return a method whose last argument is its timeoutMS."""

    async def call(bucket: GridFSBucket, *arguments: Any) -> Any:
        *given, timeout_ms = arguments
        return await method(bucket, *given, timeout_ms=timeout_ms)

    return call


_TIMEOUT: Final = "timeoutMS"

BUCKET: Final[Mapping[str, Handler]] = {
    "delete": Call(_timed(GridFSBucket.delete), None, ("id",), (_TIMEOUT,)),
    "deleteByName": Call(_timed(GridFSBucket.delete_by_name), None, ("filename",), (_TIMEOUT,)),
    "download": Call(_download, None, ("id",), (_TIMEOUT,)),
    "downloadByName": Call(_download_by_name, None, ("filename",), ("revision", _TIMEOUT)),
    "drop": Call(_timed(GridFSBucket.drop), None, (), (_TIMEOUT,)),
    "find": Call(GridFSBucket.find, "find", ("filter",)),
    "rename": Call(_timed(GridFSBucket.rename), None, ("id", "newFilename"), (_TIMEOUT,)),
    "renameByName": Call(_timed(GridFSBucket.rename_by_name), None, ("filename", "newFilename"), (_TIMEOUT,)),
    "upload": _upload,
    "uploadWithId": _upload_with_id,
}

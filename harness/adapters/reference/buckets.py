"""The reference driver's GridFS as a table: operation of the format to method of a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from driver.gridfs.bucket import GridFSBucket
from driver.gridfs.streams import UploadOptions
from harness.adapters.base import Invocation, UnsupportedOperation
from harness.adapters.reference.operations import Method

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from harness.adapters.reference.operations import Arguments, Handler

_UPLOAD: Final = {
    "chunkSizeBytes": "chunk_size_bytes",
    "contentType": "content_type",
    "metadata": "metadata",
    "timeoutMS": "timeout_ms",
}
_BUCKET: Final = {"bucketName": "bucket_name", "chunkSizeBytes": "chunk_size_bytes"}
_NO_MD5: Final = "disableMD5"
"""The driver never computes one, so that this asks for what happens anyway."""


def bucket_options(options: Arguments) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options of a bucket entity into the bucket's own, as keywords, and the concerns."""
    own = {_BUCKET[name]: value for name, value in options.items() if name in _BUCKET}
    return own, {name: value for name, value in options.items() if name not in {*_BUCKET, _NO_MD5}}


def _upload_options(arguments: Arguments, *others: str) -> UploadOptions:
    for name in arguments:
        if name not in {*_UPLOAD, *others, _NO_MD5}:
            raise UnsupportedOperation(f"the reference driver takes no {name} here")
    return UploadOptions(**{_UPLOAD[name]: value for name, value in arguments.items() if name in _UPLOAD})


async def _upload(call: Invocation[GridFSBucket]) -> Any:
    options = _upload_options(call.arguments, "filename", "source")
    return await call.target.upload_from_stream(call.arguments["filename"], call.arguments["source"], options)


async def _upload_with_id(call: Invocation[GridFSBucket]) -> None:
    options = _upload_options(call.arguments, "id", "filename", "source")
    await call.target.upload_from_stream_with_id(
        call.arguments["id"], call.arguments["filename"], call.arguments["source"], options
    )


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
        *others, timeout_ms = arguments
        return await method(bucket, *others, timeout_ms=timeout_ms)

    return call


_TIMEOUT: Final = "timeoutMS"

BUCKET: Final[Mapping[str, Handler]] = {
    "delete": Method(_timed(GridFSBucket.delete), None, ("id",), (_TIMEOUT,)),
    "deleteByName": Method(_timed(GridFSBucket.delete_by_name), None, ("filename",), (_TIMEOUT,)),
    "download": Method(_download, None, ("id",), (_TIMEOUT,)),
    "downloadByName": Method(_download_by_name, None, ("filename",), ("revision", _TIMEOUT)),
    "drop": Method(_timed(GridFSBucket.drop), None, (), (_TIMEOUT,)),
    "find": Method(GridFSBucket.find, "find", ("filter",)),
    "rename": Method(_timed(GridFSBucket.rename), None, ("id", "newFilename"), (_TIMEOUT,)),
    "renameByName": Method(
        _timed(GridFSBucket.rename_by_name), None, ("filename", "newFilename"), (_TIMEOUT,)
    ),
    "upload": _upload,
    "uploadWithId": _upload_with_id,
}

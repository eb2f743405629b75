"""The layout of a file in its chunks: decisions without a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driver.errors import CorruptGridFSFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_CHUNK_SIZE_BYTES = 255 * 1024
"""So that a chunk's document fits into 256 KiB."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A file of `length` bytes in chunks of `chunk_size` bytes, of which only the last may be shorter."""

    length: int
    chunk_size: int

    @classmethod
    def of_file(cls, file: Mapping[str, Any]) -> Layout:
        """Return the layout that a files collection document describes. Raises CorruptGridFSFileError."""
        try:
            length, chunk_size = int(file["length"]), int(file["chunkSize"])
        except (KeyError, TypeError, ValueError):
            raise CorruptGridFSFileError(f"the file {file.get('_id')!r} has no length or chunkSize") from None
        if length < 0 or chunk_size <= 0:
            raise CorruptGridFSFileError(
                f"the file {file.get('_id')!r} cannot have {length} bytes in chunks of {chunk_size}"
            )
        return cls(length, chunk_size)

    @property
    def chunks(self) -> int:
        """How many chunks there are; an empty file has none."""
        return -(-self.length // self.chunk_size)

    def size_of(self, n: int) -> int:
        """Return the size in bytes of chunk `n`, which counts from 0."""
        return min(self.chunk_size, self.length - n * self.chunk_size)

    def check(self, chunk: Mapping[str, Any] | None, n: int) -> bytes:
        """Return the data of what came as chunk `n` (GridFS: File Download). Raises CorruptGridFSFileError.

        None says that no more chunks came.
        """
        if chunk is None or chunk.get("n") != n:
            raise CorruptGridFSFileError(f"chunk {n} of {self.chunks} is missing")
        data = bytes(chunk.get("data", b""))
        if len(data) != self.size_of(n):
            raise CorruptGridFSFileError(
                f"chunk {n} of {self.chunks} has {len(data)} bytes instead of {self.size_of(n)}"
            )
        return data

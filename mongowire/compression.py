"""The compressors of OP_COMPRESSED (`OP_COMPRESSED: Compression`).

zlib is always there; snappy and zstd come with optional libraries that are imported when first used.
Decompression never produces more than the size that the message announces.
"""

from __future__ import annotations

import importlib
import zlib
from enum import IntEnum
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mongowire.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_PIECE_BYTES = 1 << 20


class Compressor(IntEnum):
    """The ids of OP_COMPRESSED's `compressorId`."""

    NOOP = 0
    SNAPPY = 1
    ZLIB = 2
    ZSTD = 3

    @property
    def compressor_name(self) -> str:
        """The name that `hello` and connection strings use."""
        return self.name.lower()

    @classmethod
    def named(cls, name: str) -> Compressor:
        """Return the compressor of a `compression` list's entry. Raises `ValueError`."""
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValueError(f"unknown compressor {name!r}; known are snappy, zlib, zstd and noop") from None


@cache
def _module(name: str) -> Any | None:
    """Import a library that may be absent."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _snappy() -> Any | None:
    return _module("cramjam")


def _zstd() -> Any | None:
    return _module("compression.zstd") or _module("backports.zstd")


def _required(library: Any | None, compressor: Compressor) -> Any:
    if library is None:
        raise LocalProtocolError(
            f"{compressor.compressor_name} needs an optional library: pip install 'pushbackd[compression]'"
        )
    return library


def _findable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@cache
def available() -> tuple[str, ...]:
    """Return the names of the compressors that work here, in the server's default order of preference."""
    found = {
        "snappy": _findable("cramjam"),
        "zstd": _findable("compression.zstd") or _findable("backports.zstd"),
        "zlib": True,
    }
    return tuple(name for name, present in found.items() if present)


def negotiate(offered: Iterable[str], supported: Iterable[str]) -> tuple[str, ...]:
    """Return what both sides know, in the order of the side that offered."""
    known = frozenset(supported)
    return tuple(dict.fromkeys(name for name in offered if name in known))


def compress(compressor: Compressor, data: bytes, *, level: int = -1) -> bytes:
    """Return `data` compressed; `level` is zlib's. Raises `LocalProtocolError` if the library is absent."""
    match compressor:
        case Compressor.NOOP:
            return data
        case Compressor.ZLIB:
            return zlib.compress(data, level)
        case Compressor.SNAPPY:
            return bytes(_required(_snappy(), compressor).snappy.compress_raw(data))
        case Compressor.ZSTD:
            compressed: bytes = _required(_zstd(), compressor).compress(data)
            return compressed


def _inflate_zlib(data: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj()
    # One byte more than announced is asked for, so that a longer content shows without being inflated.
    return inflater.decompress(data, size + 1)


def _inflate_snappy(data: bytes, size: int) -> bytes:
    snappy = _required(_snappy(), Compressor.SNAPPY).snappy
    if snappy.decompress_raw_len(data) != size:
        raise ValueError("the length inside the snappy block is another")
    return bytes(snappy.decompress_raw(data))


def _inflate_zstd(data: bytes, size: int) -> bytes:
    inflated: bytes = _required(_zstd(), Compressor.ZSTD).ZstdDecompressor().decompress(data, size + 1)
    return inflated


def _inflate_noop(data: bytes, size: int) -> bytes:  # noqa: ARG001 - the signature of its siblings
    return data


_INFLATE: dict[Compressor, Callable[[bytes, int], bytes]] = {
    Compressor.NOOP: _inflate_noop,
    Compressor.SNAPPY: _inflate_snappy,
    Compressor.ZLIB: _inflate_zlib,
    Compressor.ZSTD: _inflate_zstd,
}


def _zlib_pieces(data: bytes) -> Iterator[bytes]:
    inflater = zlib.decompressobj()
    for start in range(0, len(data), _PIECE_BYTES):
        left = data[start : start + _PIECE_BYTES]
        while left and not inflater.eof:
            yield inflater.decompress(left, _PIECE_BYTES)
            left = inflater.unconsumed_tail
    yield inflater.flush()


def _zstd_pieces(data: bytes) -> Iterator[bytes]:
    inflater = _required(_zstd(), Compressor.ZSTD).ZstdDecompressor()
    yield inflater.decompress(data, _PIECE_BYTES)
    while not inflater.eof and not inflater.needs_input:
        yield inflater.decompress(b"", _PIECE_BYTES)


IN_PIECES: dict[Compressor, Callable[[bytes], Iterator[bytes]]] = {
    Compressor.ZLIB: _zlib_pieces,
    Compressor.ZSTD: _zstd_pieces,
}
"""The compressors that inflate piece by piece. The others make a message at most some twenty times longer."""


def beginning(compressor: Compressor, data: bytes, *, size: int) -> bytes:
    """Return the first `size` bytes, or fewer, of what one of `IN_PIECES` compressed; inflate no more of it.

    Raises `RemoteProtocolError` as `decompress` does.
    """
    try:
        if compressor is Compressor.ZLIB:
            return zlib.decompressobj().decompress(data, size)
        begun: bytes = _required(_zstd(), compressor).ZstdDecompressor().decompress(data, size)
    except Exception as error:  # each library has its own kind of error for damaged data
        raise _damaged(compressor, error) from error
    return begun


def pieces(compressor: Compressor, data: bytes, *, size: int) -> Iterator[bytes]:
    """Yield what `decompress` returns, piece by piece: a few bytes may be compressed from very many.

    Raises `RemoteProtocolError` as `decompress` does, before it has yielded more than announced.
    """
    if compressor not in IN_PIECES:
        yield decompress(compressor, data, size=size)
        return
    total = 0
    try:
        for piece in IN_PIECES[compressor](data):
            total += len(piece)
            if total > size:
                break
            yield piece
    except GeneratorExit:
        raise
    except Exception as error:  # each library has its own kind of error for damaged data
        raise _damaged(compressor, error) from error
    if total != size:
        raise _of_another_size(compressor, size)


def _damaged(compressor: Compressor, error: Exception) -> RemoteProtocolError:
    return RemoteProtocolError(f"cannot decompress {compressor.compressor_name} data: {error}")


def _of_another_size(compressor: Compressor, size: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"{compressor.compressor_name} data holds another number of bytes than the announced {size}"
    )


def decompress(compressor: Compressor, data: bytes, *, size: int) -> bytes:
    """Return the `size` bytes that `data` was compressed from.

    Raises `RemoteProtocolError` when `data` is damaged, holds another number of bytes, or needs a library
    that is absent.
    """
    try:
        inflated = _INFLATE[compressor](data, size)
    except Exception as error:  # each library has its own kind of error for damaged data
        raise _damaged(compressor, error) from error
    if len(inflated) != size:
        raise _of_another_size(compressor, size)
    return inflated

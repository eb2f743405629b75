"""Compressors of OP_COMPRESSED, and what damaged or lying data does to them."""

from __future__ import annotations

import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mongowire import compression
from mongowire.compression import Compressor, available, compress, decompress, negotiate
from mongowire.errors import LocalProtocolError, RemoteProtocolError

_ALL = list(Compressor)


@pytest.mark.parametrize("compressor", _ALL)
@given(data=st.binary(max_size=2000))
def test_what_was_compressed_comes_back(compressor: Compressor, data: bytes) -> None:
    assert decompress(compressor, compress(compressor, data), size=len(data)) == data


@pytest.mark.parametrize("compressor", [Compressor.SNAPPY, Compressor.ZLIB, Compressor.ZSTD])
def test_compression_makes_repetition_small(compressor: Compressor) -> None:
    assert len(compress(compressor, bytes(100_000))) < 10_000


@pytest.mark.parametrize("compressor", _ALL)
@pytest.mark.parametrize("announced", [0, 999, 1001])
def test_another_size_than_announced_is_refused(compressor: Compressor, announced: int) -> None:
    data = compress(compressor, bytes(1000))
    with pytest.raises(RemoteProtocolError):
        decompress(compressor, data, size=announced)


@pytest.mark.parametrize("compressor", _ALL)
@given(data=st.binary(max_size=200), size=st.integers(0, 1000))
def test_garbage_is_refused_or_has_the_announced_size(compressor: Compressor, data: bytes, size: int) -> None:
    with suppress(RemoteProtocolError):
        assert len(decompress(compressor, data, size=size)) == size


def test_a_bomb_is_refused_before_it_is_inflated() -> None:
    bomb = zlib.compress(bytes(50_000_000))
    inflater = zlib.decompressobj()
    assert len(inflater.decompress(bomb, 11)) == 11
    with pytest.raises(RemoteProtocolError, match="announced 10"):
        decompress(Compressor.ZLIB, bomb, size=10)


def test_zlib_takes_a_level() -> None:
    data = bytes(range(256)) * 50
    assert len(compress(Compressor.ZLIB, data, level=0)) > len(data)
    assert decompress(Compressor.ZLIB, compress(Compressor.ZLIB, data, level=0), size=len(data)) == data


def test_names_are_those_of_connection_strings() -> None:
    assert [compressor.compressor_name for compressor in _ALL] == ["noop", "snappy", "zlib", "zstd"]
    assert Compressor.named("zstd") is Compressor.ZSTD
    with pytest.raises(ValueError, match="unknown compressor 'lz4'"):
        Compressor.named("lz4")


def test_negotiation_keeps_the_order_of_who_offers_and_names_each_once() -> None:
    assert negotiate(["zlib", "lz4", "snappy", "zlib"], ["snappy", "zstd", "zlib"]) == ("zlib", "snappy")
    assert negotiate([], ["zlib"]) == ()


def test_everything_is_available_where_the_libraries_are() -> None:
    assert available() == ("snappy", "zstd", "zlib")


@pytest.fixture
def _no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_module", lambda _: None)
    monkeypatch.setattr(compression, "find_spec", lambda _: None)
    monkeypatch.setattr(compression, "available", available.__wrapped__)


@pytest.mark.usefixtures("_no_libraries")
def test_without_the_optional_libraries_only_zlib_is_available() -> None:
    assert compression.available() == ("zlib",)


@pytest.mark.usefixtures("_no_libraries")
@pytest.mark.parametrize("compressor", [Compressor.SNAPPY, Compressor.ZSTD])
def test_a_missing_library_is_named(compressor: Compressor) -> None:
    with pytest.raises(LocalProtocolError, match=r"pip install 'pushbackd\[compression\]'"):
        compress(compressor, b"data")
    with pytest.raises(RemoteProtocolError, match="optional library"):
        decompress(compressor, b"data", size=4)


def test_a_library_that_is_absent_is_not_imported_again() -> None:
    assert compression._module("surely.not.installed") is None
    assert not compression._findable("surely.not.installed")

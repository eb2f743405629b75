"""The ports on the real world keep their contracts on uvloop as well, where it is installed."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import pytest

from harness.testing.clock import check_clock
from harness.testing.listener import check_listener
from harness.testing.network import check_network
from harness.testing.stream import check_stream
from harness.testing.worlds import run_on_the_fast_loop
from mongowire import system
from mongowire.system import fast_loop

on_uvloop = pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed")


def test_without_uvloop_the_loop_is_asyncio_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "find_spec", lambda _name: None)
    assert fast_loop() is None


@on_uvloop
def test_with_uvloop_the_loop_is_uvloop_s() -> None:
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        assert type(runner.get_loop()).__module__ == "uvloop"


@on_uvloop
def test_the_system_clock_is_a_clock_on_uvloop() -> None:
    check_clock(run_on_the_fast_loop)


@on_uvloop
def test_tcp_is_a_network_on_uvloop() -> None:
    check_network(run_on_the_fast_loop)


@on_uvloop
def test_tcp_listeners_are_listeners_on_uvloop() -> None:
    check_listener(run_on_the_fast_loop)


@on_uvloop
def test_tcp_streams_are_streams_on_uvloop() -> None:
    check_stream(run_on_the_fast_loop)

"""`pushbackd demo`: what its three hints promise, and its end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from started import Started

from fakeserver import BackgroundCluster, ClusterSpec
from harness.overload.demo import Shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE = 30.0


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def cluster() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.replica_set(3)) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["stepDown", "kill"])
def test_a_change_of_primaries_and_a_lost_secondary_fail_no_order(
    cluster: BackgroundCluster, verb: str
) -> None:
    shop = Shop(cluster.uri)
    with shop.open():
        eventually(lambda: shop.orders > 0)
        cluster.control.perform(verb, {} if verb == "stepDown" else {"node": "secondary"})
        before = shop.orders
        eventually(lambda: shop.orders > before + 3)
    assert shop.failures.total() == 0


@pytest.mark.slow
def test_orders_fail_when_all_load_is_shed(cluster: BackgroundCluster) -> None:
    shop = Shop(cluster.uri)
    with shop.open():
        eventually(lambda: shop.orders > 0)
        cluster.control.perform("shed", {"share": 1, "seed": 1})
        eventually(lambda: shop.failures.total() > 0)
    assert set(shop.failures) == {"OperationFailure"}


@pytest.mark.slow
def test_the_demo_tells_its_page_and_its_hints_and_ends_at_control_c_with_what_was_met() -> None:
    with Started[str](
        [sys.executable, "-m", "harness", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        told = [demo.stdout.readline() for _ in range(8)]
        demo.send_signal(signal.SIGINT)
        rest, errors = demo.communicate(timeout=_PATIENCE)
    assert re.search(r"http://127\.0\.0\.1:\d+/#token=", "".join(told))
    assert [line[2] for line in told if line.startswith("  ")] == ["1", "2", "3"]
    assert re.search(r"^\d+ orders, 0 failed$", rest, re.MULTILINE)
    assert (demo.returncode, errors) == (0, "")

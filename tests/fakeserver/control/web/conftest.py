"""One deployment with its HTTP door, for all tests that leave it as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asking import HttpDoor

from fakeserver import BackgroundCluster, ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package")
def deployment() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.replica_set(3, seed=7)) as running:
        yield running


@pytest.fixture(scope="package")
def door(deployment: BackgroundCluster) -> HttpDoor:
    return HttpDoor(deployment.serve_ui())

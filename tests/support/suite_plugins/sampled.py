"""A plugin of pytest for suites that are not ours: one case in so many as the variable `SAMPLED` says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a case by its id, so that every run has the same ones."""
    every = int(os.environ["SAMPLED"])
    items[:] = [item for item in items if crc32(item.nodeid.encode()) % every == 0]

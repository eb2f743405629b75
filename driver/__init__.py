"""A reference driver core that follows the public driver specifications sentence by sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driver.cmap.metadata import DriverInfo
from driver.concerns import ReadConcern, ReadMode, ReadPreference, WriteConcern
from driver.editions import EDITION_2026_02_20, EDITION_2026_07_08, Edition
from driver.errors import DriverError
from driver.server_api import ServerApi

if TYPE_CHECKING:
    from driver.client import AsyncClient
    from driver.gridfs.bucket import GridFSBucket

__all__ = [
    "EDITION_2026_02_20",
    "EDITION_2026_07_08",
    "AsyncClient",
    "DriverError",
    "DriverInfo",
    "Edition",
    "GridFSBucket",
    "ReadConcern",
    "ReadMode",
    "ReadPreference",
    "ServerApi",
    "WriteConcern",
]


def __getattr__(name: str) -> Any:
    # Imported when they are asked for: they bring asyncio with them, and ssl.
    if name == "AsyncClient":
        from driver.client import AsyncClient  # noqa: PLC0415

        return AsyncClient
    if name == "GridFSBucket":
        from driver.gridfs.bucket import GridFSBucket  # noqa: PLC0415

        return GridFSBucket
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

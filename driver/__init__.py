"""A reference driver core that follows the public driver specifications sentence by sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from driver.cmap.metadata import DriverInfo
from driver.concerns import ReadConcern, ReadMode, ReadPreference, WriteConcern
from driver.editions import EDITION_2026_02_20, EDITION_2026_07_08, Edition
from driver.errors import DriverError
from driver.server_api import ServerApi
from mongowire.package import face

if TYPE_CHECKING:
    from driver.client import AsyncClient
    from driver.gridfs.bucket import GridFSBucket

    __version__: str

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

_AT_FIRST_USE: Final = {"AsyncClient": "driver.client", "GridFSBucket": "driver.gridfs.bucket"}
"""The modules that are imported when they are asked for: they bring asyncio with them, and ssl."""

__getattr__, __dir__ = face(__name__, __all__, _AT_FIRST_USE)

"""A reference driver core that follows the public driver specifications sentence by sentence."""

from __future__ import annotations

from driver.client import AsyncClient
from driver.cmap.metadata import DriverInfo
from driver.concerns import ReadConcern, ReadMode, ReadPreference, WriteConcern
from driver.editions import EDITION_2026_02_20, EDITION_2026_07_08, Edition
from driver.errors import DriverError
from driver.server_api import ServerApi

__all__ = [
    "EDITION_2026_02_20",
    "EDITION_2026_07_08",
    "AsyncClient",
    "DriverError",
    "DriverInfo",
    "Edition",
    "ReadConcern",
    "ReadMode",
    "ReadPreference",
    "ServerApi",
    "WriteConcern",
]

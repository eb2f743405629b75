"""The shared floor: a sans-I/O codec of the MongoDB wire protocol, error codes, and the ports to the world.

Nothing here knows a server or a driver. `mongowire.connection` turns bytes into messages and back,
`mongowire.codes` names errors, `mongowire.ports` has the ports to clock, random numbers and network, and
`mongowire.system` gives them from the operating system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mongowire.package import face

if TYPE_CHECKING:
    from mongowire import codes, connection, ports, system

    __version__: str

__all__ = ["codes", "connection", "ports", "system"]

__getattr__, __dir__ = face(__name__, __all__)

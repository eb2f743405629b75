"""A deployment with a control listener, in a registry of its own, inside this process."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fakeserver import BackgroundCluster, ClusterSpec
from fakeserver.control.listener import ControlListener
from fakeserver.control.registry import Registry, RegistryEntry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "the token"


@contextmanager
def controlled(
    home: Path, name: str = "shop", spec: ClusterSpec | None = None, *, tcp: bool = False
) -> Iterator[tuple[BackgroundCluster, RegistryEntry]]:
    """Run a deployment that is in the registry of the folder `home` while the block runs."""
    server = BackgroundCluster(spec or ClusterSpec.replica_set(3))
    with server, registered(server, home, name, tcp=tcp) as entry:
        yield server, entry


@contextmanager
def registered(
    server: BackgroundCluster, home: Path, name: str = "shop", *, tcp: bool = False
) -> Iterator[RegistryEntry]:
    """Open the control listener of a deployment while the block runs, and enter it into a registry."""
    registry = Registry(home)
    registry.prepare()
    about = {"id": name, "uri": server.uri, "variables": {"MONGODB_URI": server.uri}}
    listener = ControlListener(server.cluster, TOKEN, about=about)
    path = registry.socket_file(name)
    if tcp or path is None:
        server.run(listener.listen_tcp)
    else:
        server.run(lambda: listener.listen_unix(path))
    entry = RegistryEntry(name, os.getpid(), server.uri, str(server.spec.topology), listener.address, TOKEN)
    registry.write(entry)
    try:
        yield entry
    finally:
        server.run(listener.aclose)
        registry.remove(name)

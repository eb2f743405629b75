"""A forked process begins anew: its clients share no connection and no session with those of its parent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Iterable


class Resettable(Protocol):
    """What has a state that two processes must not share."""

    def reset_after_fork(self) -> None:
        """Begin anew, without touching what the parent goes on to use."""


_WATCHED: WeakSet[Resettable] = WeakSet()


def watch(client: Resettable) -> None:
    """Have the client reset in every process that is forked from now on (`CMAP: Forking`)."""
    _WATCHED.add(client)


def _reset(clients: Iterable[Resettable]) -> None:
    for client in list(clients):
        client.reset_after_fork()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=lambda: _reset(_WATCHED))

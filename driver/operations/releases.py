"""Options refused by a client because a server is too old: it would ignore them, or refuse them unheard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from driver.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.sdam.description import ServerDescription

WIRE_42: Final = 8
WIRE_44: Final = 9
WIRE_50: Final = 13

_HINTS: Final[Mapping[str, tuple[int, str]]] = {
    "update": (WIRE_42, "4.2"),
    "delete": (WIRE_44, "4.4"),
    "findAndModify": (WIRE_44, "4.4"),
}
"""Since when the commands that write take a hint."""


def refuse_unheard_hint(name: str, server: ServerDescription) -> None:
    """Refuse the hint of an unacknowledged write that an old server would refuse unheard (CRUD: Hint).

    The error of an acknowledged one is the server's to make. Raises InvalidArgumentError.
    """
    wire_version, release = _HINTS[name]
    if server.max_wire_version < wire_version:
        raise InvalidArgumentError(
            f"a hint of an unacknowledged {name} needs a server of version {release} or newer"
        )


def refuse_commit_quorum(server: ServerDescription) -> None:
    """Refuse a commitQuorum where servers know none (Index Management). Raises InvalidArgumentError."""
    if server.max_wire_version < WIRE_44:
        raise InvalidArgumentError("commitQuorum needs a server of version 4.4 or newer")


def refuse_snapshot(server: ServerDescription) -> None:
    """Refuse a session's snapshot read where there are none (Snapshot Reads). Raises InvalidArgumentError."""
    if server.max_wire_version < WIRE_50:
        raise InvalidArgumentError("Snapshot reads require MongoDB 5.0 or later")

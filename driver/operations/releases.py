"""What is not asked of older servers: options that they do not know, or that they would refuse unheard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from driver.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.sdam.description import ServerDescription

WIRE_42: Final = 8
WIRE_44: Final = 9
WIRE_50: Final = 13
WIRE_82: Final = 27

_HINTS: Final[Mapping[str, tuple[int, str]]] = {
    "update": (WIRE_42, "4.2"),
    "delete": (WIRE_44, "4.4"),
    "findAndModify": (WIRE_44, "4.4"),
}
"""Since when the commands that write take a hint."""


def leave_out(document: dict[str, Any], name: str, server: ServerDescription) -> None:
    """Take options out of a command, in place, that a server is too old for and that change no result.

    CRUD: rawData is for servers from 8.2 on. Find, getMore and killCursors: the comment of a cursor goes with
    its getMore from 4.4 on.
    """
    if server.max_wire_version < WIRE_82:
        document.pop("rawData", None)
    if name == "getMore" and server.max_wire_version < WIRE_44:
        document.pop("comment", None)


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

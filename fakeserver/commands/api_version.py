"""The commands that exist to test API versions, where test commands are enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.commands.table import CommandTable, Reply
from fakeserver.profile import WIRE_50

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()


@table.command("testDeprecation", kind="internal", test_only=True, since=WIRE_50)
def deprecated(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Be deprecated in API version 1."""
    return {}


@table.command("testVersion2", kind="internal", test_only=True, since=WIRE_50)
def new_in_version_2(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Be new in API version 2."""
    return {}


@table.command("testDeprecationInVersion2", kind="internal", test_only=True, since=WIRE_50)
def deprecated_in_version_2(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Be deprecated in API version 2."""
    return {}

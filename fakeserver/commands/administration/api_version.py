"""The commands for tests of API versions: deprecated ones, and a new one.

Behaviour: Each answers ok. What they are for is decided before they run: under `apiStrict` a command outside
the declared version is refused with 323, under `apiDeprecationErrors` a deprecated one with 324. They exist
where `enableTestCommands` is on, and version 2 can be declared where `acceptApiVersion2` is on too.

Versions: Since 5.0, the first release that knows API versions.

Not modelled: `testRemoval` and `testVersions1And2`, the other two commands that a server has for this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.idl.command_table import CommandTable, Reply
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

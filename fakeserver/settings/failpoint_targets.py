"""The commands that a fail point is about, and a command as its filters see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class CommandNames(NamedTuple):
    """The commands that a fail point is about: those listed, or all but those listed."""

    listed: frozenset[str]
    all_but: bool

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> CommandNames:
        """Read `failCommands`, or `failAllCommands` and `failCommandsExcept`."""
        all_but = bool(data.get("failAllCommands"))
        listed = data.get("failCommandsExcept" if all_but else "failCommands")
        names = listed if isinstance(listed, list) else ()
        return cls(frozenset(name for name in names if isinstance(name, str)), all_but)

    def cover(self, names: tuple[str, ...]) -> bool:
        """Return whether a command of these names is one of them."""
        # `configureFailPoint` never is, or a point for all commands could not be switched off.
        return self.listed.isdisjoint(names) is self.all_but and "configureFailPoint" not in names


NO_COMMANDS: Final[CommandNames] = CommandNames(frozenset(), all_but=False)
ONLY_GET_MORE: Final = CommandNames(frozenset({"getMore"}), all_but=False)


class FailPointTarget(NamedTuple):
    """A command as the filters of a fail point see it: its names, and its client."""

    names: tuple[str, ...]
    namespace: str
    app_name: str = ""
    thread_name: str = ""
    internal_client: bool = False
    has_priority: bool = False
    """It came by the port for priority."""

"""What the shell completes: names that are fixed, and those of the server that runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from click.shell_completion import CompletionItem

from fakeserver.cli.values import Filled
from fakeserver.control.client import ControlClient, find
from fakeserver.control.registry import Registry
from fakeserver.settings.failpoints import NAMES
from mongowire.codes import ErrorCode
from mongowire.documents.arguments import Kind
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import click

    from mongowire.documents.arguments import Argument


class ServerId(Filled):
    """An id in the registry of running servers, which the shell completes."""

    name = "ID"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002 - click's signature
        return [CompletionItem(word) for word in Registry().ids() if word.startswith(incomplete)]


_OUTCOMES: Final = ("ok", "error", "disconnect", "silence")
ERROR_NAMES: Final = tuple(sorted(each.code_name for each in ErrorCode))
"""The names of error codes."""


def commands(_: click.Context | None = None) -> Iterable[str]:
    """Return the names of the server's commands."""
    from fakeserver.commands.default_table import default_table  # noqa: PLC0415 - loads every command

    return default_table().commands


def servers(context: click.Context) -> Iterable[str]:
    """Return the names of the members of the server that runs, and the roles that stand for one."""
    found = [str(server.get("name")) for server in _asked(context, "state").get("servers", ())]
    return (*found, "primary", "secondary", "mongos")


def _ids(verb: str, field: str) -> Callable[[click.Context], Iterable[str]]:
    return lambda context: [str(each.get("id")) for each in _asked(context, verb).get(field, ())]


def _asked(context: click.Context, verb: str) -> Mapping[str, Any]:
    """Return the answer of the server that runs, empty where none does: completion tells no mistakes."""
    with suppress(ControlError, OSError):
        return ControlClient(find(context.params.get("server_id"))).perform(verb, {})
    return {}


_BY_KIND: Final[Mapping[Kind, Any]] = {
    Kind.SERVER: servers,
    Kind.SERVERS: lambda context: (*servers(context), "all"),
    Kind.GROUPS: lambda context: (*servers(context), "clients"),
    Kind.CODES: ERROR_NAMES,
    Kind.OUTCOME: (*_OUTCOMES, *ERROR_NAMES),
    Kind.MODE: ("alwaysOn", "off"),
}
_BY_NAME: Final[Mapping[tuple[str, str], Any]] = {
    ("setFailPoint", "name"): NAMES,
    ("removeRule", "id"): lambda context: (*_ids("listRules", "rules")(context), "all"),
    ("removeFault", "id"): _ids("listFaults", "faults"),
}


def words_for(verb: str, argument: Argument) -> Any:
    """Return the words that an argument of a verb may be, or what returns them; empty for any text."""
    if argument.known:
        return argument.known
    if argument.name == "command":
        return commands
    return _BY_NAME.get((verb, argument.name), _BY_KIND.get(argument.kind, ()))

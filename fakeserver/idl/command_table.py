"""Commands are plain functions in explicitly merged tables.

A table is data, and the order of imports is not behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fakeserver.idl.features import fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeserver.idl.fields import Fields

Reply: TypeAlias = dict[str, Any]
"""The fields of a successful reply; the pipeline adds `ok`, labels and cluster time."""

Handler: TypeAlias = "Callable[[Any, dict[str, Any]], Reply]"
"""Runs a validated command on a `CommandContext`, which is above this module and so is not named here.

Raises `CommandError`. Never waits: a handler that must raises `Park`.
"""

Home: TypeAlias = Literal["anywhere", "mongod", "mongos"]
"""The kind of server that has a command."""

Kind: TypeAlias = Literal["read", "write", "admin", "internal"]
"""`read` may opt in to secondaries, `write` needs a primary, `admin` and `internal` run on any member."""


@dataclass(frozen=True, slots=True, eq=False)
class CommandSpec:
    """What the pipeline must know of a command before it runs it.

    `sequences` names the fields that may come as document sequences, `handshake` marks the commands that
    introduce a client, `in_transaction` those that a transaction may hold, `on_secondaries` the reads that
    secondaries run unasked, `test_only` those that need `enableTestCommands`, `home` is the kind of server
    that has the command; `since` and `until` are the wire versions of the first and the last release that
    know the command.
    """

    name: str
    handler: Handler
    kind: Kind
    help: str
    fields: Fields | None = None
    aliases: tuple[str, ...] = ()
    requires_auth: bool = True
    admin_only: bool = False
    sequences: tuple[str, ...] = ()
    write_concern: bool = False
    retryable_write: bool = False
    in_transaction: bool = False
    on_secondaries: bool = False
    handshake: bool = False
    test_only: bool = False
    home: Home = "anywhere"
    since: int = 0
    until: int = 1000

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return (self.name, *self.aliases)


@dataclass(slots=True)
class CommandTable:
    """Commands by name and alias. Merging two tables that share a name is an error."""

    commands: dict[str, CommandSpec] = field(default_factory=dict)

    def command(self, name: str, *, kind: Kind, **facts: Any) -> Callable[[Handler], Handler]:
        """Enter the decorated function as the command `name`; its docstring's first line is the help."""

        def enter(handler: Handler) -> Handler:
            help_line = (handler.__doc__ or "").strip().split("\n", 1)[0]
            self.add(CommandSpec(name=name, handler=handler, kind=kind, help=help_line, **facts))
            return handler

        return enter

    def add(self, spec: CommandSpec) -> None:
        """Enter `spec` under its name and aliases. Raises `ValueError` for a name that is taken."""
        for name in spec.names:
            if name in self.commands:
                raise ValueError(f"two commands are named {name!r}")
            self.commands[name] = spec

    def get(self, name: str) -> CommandSpec | None:
        """Return the command called `name`, or None."""
        return self.commands.get(name)

    def __iter__(self) -> Iterator[CommandSpec]:
        """Iterate over the commands, each once, by name."""
        return iter([spec for name, spec in sorted(self.commands.items()) if name == spec.name])

    @staticmethod
    def merge(*tables: CommandTable) -> CommandTable:
        """Return one table of all. Raises `ValueError` for a name that two of them hold."""
        merged = CommandTable()
        for table in tables:
            for spec in table:
                merged.add(spec)
        return merged

    def known_to(self, wire_version: int) -> CommandTable:
        """Return the commands of a server of this maximal wire version, with the fields that it knows."""
        chosen = CommandTable()
        for spec in self:
            if spec.since <= wire_version <= spec.until:
                chosen.add(fit(spec, wire_version))
        return chosen

    def on_mongod(self) -> CommandTable:
        """Return the commands of a mongod."""
        return self._without("mongos")

    def on_mongos(self) -> CommandTable:
        """Return the commands of a mongos."""
        return self._without("mongod")

    def _without(self, home: Home) -> CommandTable:
        chosen = CommandTable()
        for spec in self:
            if spec.home != home:
                chosen.add(spec)
        return chosen

    def without_test_commands(self) -> CommandTable:
        """Return the commands of a server that was not started for tests."""
        chosen = CommandTable()
        for spec in self:
            if not spec.test_only:
                chosen.add(spec)
        return chosen

"""The form of a verb: a row of the table (`table`) from which every door is made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from fakeserver.deployment.spec import ClusterSpec
    from mongowire.documents.arguments import Argument

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Applies(Enum):
    """The deployments that a verb applies to; the value completes the sentence "it is for …"."""

    ALL = "every deployment"
    SETS = "replica sets and sharded clusters"
    REPLICA_SET = "replica sets"
    ROUTED = "sharded clusters"

    def covers(self, spec: ClusterSpec) -> bool:
        """Return whether a deployment of `spec` is one of them."""
        if self is Applies.SETS:
            return spec.is_replica_set or spec.is_sharded
        if self is Applies.REPLICA_SET:
            return spec.is_replica_set
        return spec.is_sharded if self is Applies.ROUTED else True


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb. `name` is its name on the wire, in YAML and over HTTP; the others are made of it.

    `command` is its spelling on the command line, behind `pushbackd`. `act` gets the subject and the parsed
    arguments by name, in snake case; it returns the result, or an awaitable of it.
    """

    name: str
    command: str
    arguments: tuple[Argument, ...]
    act: Callable[..., Any | Awaitable[Any]]
    help: str
    applies: Applies = Applies.ALL
    undone_by: str = ""
    """The verb that undoes it; "" for one that changes nothing, or that only `reset` undoes."""
    reads: bool = False
    """It changes nothing."""
    example: str = ""
    """A command line, behind `pushbackd`."""

    @property
    def python(self) -> str:
        """The name of its method: `stepDown` is `step_down`."""
        return snake(self.name)

    def parse(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as `act` takes them. Raises `ControlError` that names the field."""
        known = {argument.name: argument for argument in self.arguments}
        for name in given:
            if name not in known:
                if not known:
                    raise ControlError(f"{self.name} takes no argument", path=(name,))
                raise unknown("argument", name, known, path=())
        parsed = {}
        for argument in self.arguments:
            value = given.get(argument.name)
            if value is None and argument.is_required:
                raise ControlError(f"{self.name} needs {argument.name}: {argument.help}")
            value = argument.default if value is None else value
            parsed[snake(argument.name)] = None if value is None else argument.parse(value)
        return parsed


class Verbs:
    """Verbs by name. Raises `ValueError` for two of one name."""

    def __init__(self, verbs: Sequence[Verb]) -> None:
        self._by_name = {verb.name: verb for verb in verbs}
        if len(self._by_name) != len(verbs):
            raise ValueError("two verbs have one name")

    def __iter__(self) -> Iterator[Verb]:
        """Iterate over the verbs, in the order of the table."""
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Verb:
        """Return a verb. Raises `ControlError` for an unknown name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise unknown("verb", name, self._by_name) from None


def snake(name: str) -> str:
    """Return a camelCase name in snake_case."""
    return _HUMP.sub("_", name).lower()


def kebab(name: str) -> str:
    """Return a camelCase name in kebab-case, as options of a command line are written."""
    return _HUMP.sub("-", name).lower()

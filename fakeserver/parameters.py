"""Server parameters: one table, and the values of one server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.idl import type_name, whole
from fakeserver.profile import WIRE_50, WIRE_90
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeserver.profile import Profile

Kind: TypeAlias = Literal["bool", "int", "long", "strings", "document"]

_NUMBERS: Final = frozenset({"int", "long", "double", "decimal", "bool"})
FAIL_POINT_PREFIX: Final = "failpoint."


@dataclass(frozen=True, slots=True)
class Parameter:
    """One server parameter. `default` may depend on the release; `since` is the wire version that has it.

    A mongos has those that are `on_mongos`.
    """

    name: str
    kind: Kind
    default: Any
    at_startup: bool = True
    at_runtime: bool = True
    minimum: float | None = None
    maximum: float | None = None
    since: int = 0
    on_mongos: bool = True

    def default_of(self, profile: Profile) -> Any:
        """Return the value that nobody set."""
        return self.default(profile) if callable(self.default) else self.default

    def parse(self, value: Any) -> Any:
        """Return `value`, also given as text, as the parameter's type. Raises `CommandError` 2 BadValue."""
        parsed = _PARSERS[self.kind](value)
        if parsed is None:
            raise CommandError(
                ErrorCode.BAD_VALUE,
                f"Failed to parse value {value!r} of type {type_name(value)} for parameter {self.name}",
            )
        if self.minimum is not None and parsed < self.minimum:
            raise self._out_of_range(parsed, f"greater than or equal to {self.minimum}")
        if self.maximum is not None and parsed > self.maximum:
            raise self._out_of_range(parsed, f"less than or equal to {self.maximum}")
        return parsed

    def _out_of_range(self, value: Any, bound: str) -> CommandError:
        return CommandError(
            ErrorCode.BAD_VALUE, f"Invalid value for parameter {self.name}: {value} is not {bound}"
        )


def _parse_bool(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "1": True, "false": False, "0": False}.get(value)
    return bool(value) if type_name(value) in _NUMBERS else None


def _parse_int(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return whole(value) if type_name(value) in _NUMBERS else None


def _parse_strings(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [each.strip() for each in value.split(",") if each.strip()]
    return list(value) if isinstance(value, list | tuple) else None


def _parse_document(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return dict(value) if isinstance(value, Mapping) else None


_PARSERS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    "bool": _parse_bool,
    "int": _parse_int,
    "long": _parse_int,
    "strings": _parse_strings,
    "document": _parse_document,
}

_TEST_ITERATIONS: Final = 5000
"""The fewest that a server admits, and our default: tests want speed, a real server takes 10,000 or more."""
_MAX_ITERATIONS: Final = 10_000_000
_MECHANISMS: Final = ["MONGODB-X509", "SCRAM-SHA-1", "SCRAM-SHA-256"]


def _feature_compatibility(profile: Profile) -> dict[str, str]:
    return {"version": profile.feature_compatibility_version}


TABLE: Final[Mapping[str, Parameter]] = MappingProxyType(
    {
        parameter.name: parameter
        for parameter in (
            Parameter("acceptApiVersion2", "bool", default=False, at_runtime=False, since=WIRE_50),
            Parameter("authenticationMechanisms", "strings", _MECHANISMS, at_runtime=False),
            Parameter("enableTestCommands", "bool", default=True, at_runtime=False),
            Parameter("externalClientBaseBackoffMS", "long", 0, minimum=0, since=WIRE_90),
            Parameter(
                "featureCompatibilityVersion",
                "document",
                _feature_compatibility,
                at_startup=False,
                at_runtime=False,
            ),
            Parameter("localLogicalSessionTimeoutMinutes", "int", 30, at_runtime=False, minimum=1),
            Parameter("logLevel", "int", 0, minimum=0, maximum=5),
            Parameter("maxTransactionLockRequestTimeoutMillis", "int", 5, on_mongos=False),
            Parameter("enableLocalhostAuthBypass", "bool", default=True, at_runtime=False),
            Parameter("quiet", "bool", default=False),
            Parameter(
                "scramIterationCount",
                "int",
                _TEST_ITERATIONS,
                minimum=_TEST_ITERATIONS,
                maximum=_MAX_ITERATIONS,
            ),
            Parameter(
                "scramSHA256IterationCount",
                "int",
                _TEST_ITERATIONS,
                minimum=_TEST_ITERATIONS,
                maximum=_MAX_ITERATIONS,
            ),
            Parameter("requireApiVersion", "bool", default=False, since=WIRE_50),
            Parameter("transactionLifetimeLimitSeconds", "int", 60, minimum=1, on_mongos=False),
        )
    }
)
"""Every parameter by name; those that a release does not have are left out of its values."""


class ServerParameters:
    """The parameters of one server. Reading one is `parameters["logLevel"]`."""

    def __init__(self, profile: Profile, startup: Mapping[str, Any], *, is_mongos: bool = False) -> None:
        """Take the values given at start-up; a mongos leaves those that are a mongod's alone.

        Raises `CommandError` as setting one would.
        """
        released = {name: each for name, each in TABLE.items() if each.since <= profile.max_wire_version}
        known = {name: each for name, each in released.items() if each.on_mongos or not is_mongos}
        self._table = known
        self._values = {name: each.default_of(profile) for name, each in known.items()}
        for name, value in startup.items():
            if not name.startswith(FAIL_POINT_PREFIX) and (name in known or name not in released):
                self._set(name, value, at_startup=True)

    def __getitem__(self, name: str) -> Any:
        """Return a value, 0 or false by default where the release does not have the parameter."""
        return self._values[name]

    def __iter__(self) -> Iterator[Parameter]:
        """Iterate over the parameters of this release, by name."""
        return iter([self._table[name] for name in sorted(self._table)])

    def get(self, name: str) -> Parameter | None:
        """Return the declaration of a parameter that this release has, or None."""
        return self._table.get(name)

    def set(self, name: str, value: Any) -> Any:
        """Set a parameter at runtime and return what it was. Raises `CommandError` 72, 20 or 2."""
        return self._set(name, value, at_startup=False)

    def _set(self, name: str, value: Any, *, at_startup: bool) -> Any:
        parameter = self._table.get(name)
        if parameter is None:
            raise CommandError(
                ErrorCode.INVALID_OPTIONS,
                f"attempted to set unrecognized parameter [{name}], use help:true to see options ",
            )
        if not (parameter.at_startup if at_startup else parameter.at_runtime):
            when = "startup" if at_startup else "runtime"
            raise CommandError(ErrorCode.ILLEGAL_OPERATION, f"not allowed to change [{name}] at {when}")
        parsed = parameter.parse(value)
        was, self._values[name] = self._values[name], parsed
        return was

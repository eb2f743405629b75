"""Server parameters: one table, and the values of one server."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.admission import parameters as admission
from fakeserver.errors import CommandError
from fakeserver.profile import WIRE_50
from fakeserver.settings import log_components, without_effect
from fakeserver.settings.declaration import Parameter
from mongowire.codes import ErrorCode
from mongowire.framing import MAX_MESSAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeserver.profile import Profile

FAIL_POINT_PREFIX: Final = "failpoint."

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
            Parameter("authSchemaVersion", "int", 5, at_startup=False, at_runtime=False),
            Parameter("authenticationMechanisms", "strings", _MECHANISMS, at_runtime=False),
            Parameter("cursorTimeoutMillis", "long", 600_000, minimum=1),
            Parameter("enableTestCommands", "bool", default=True, at_runtime=False),
            *admission.TABLE,
            Parameter(
                "featureCompatibilityVersion",
                "document",
                _feature_compatibility,
                at_startup=False,
                at_runtime=False,
            ),
            Parameter("internalQueryExecYieldPeriodMS", "int", 10, minimum=0),
            Parameter("localLogicalSessionTimeoutMinutes", "int", 30, at_runtime=False, minimum=1),
            Parameter("logLevel", "int", 0, minimum=0, maximum=5),
            Parameter(log_components.NAME, "document", log_components.default(), merge=log_components.merged),
            Parameter("maxTransactionLockRequestTimeoutMillis", "int", 5, on_mongos=False),
            Parameter("preAuthMaximumMessageSizeBytes", "int", 16_384, minimum=16, maximum=MAX_MESSAGE_SIZE),
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
            Parameter("ttlMonitorEnabled", "bool", default=True, on_mongos=False),
            Parameter("ttlMonitorSleepSecs", "int", 60, minimum=1, on_mongos=False),
            *without_effect.TABLE,
        )
    }
)
"""Every parameter by name; those that a release does not have are left out of its values."""


class _Release(NamedTuple):
    """The parameters that a release has, by name; those that its mongos have; the default of every one."""

    known: Mapping[str, Parameter]
    of_mongos: Mapping[str, Parameter]
    defaults: Mapping[str, Any]


@cache
def _release(profile: Profile) -> _Release:
    known = {name: TABLE[name] for name in sorted(TABLE) if TABLE[name].since <= profile.max_wire_version}
    return _Release(
        known,
        {name: each for name, each in known.items() if each.on_mongos},
        {name: each.default_of(profile) for name, each in TABLE.items()},
    )


class ServerParameters:
    """The parameters of one server. Reading one is `parameters["logLevel"]`.

    `changed`, where it is set, hears of the names that were set at runtime, under the newest name of each.
    """

    def __init__(self, profile: Profile, startup: Mapping[str, Any], *, is_mongos: bool = False) -> None:
        """Take the values of the start-up; a mongos leaves those that are a mongod's alone.

        Raises `CommandError` as setting one would.
        """
        release = _release(profile)
        self._table = release.of_mongos if is_mongos else release.known
        self._values = dict(release.defaults)
        self._profile = profile
        self.changed: Callable[[frozenset[str]], None] | None = None
        self.was_set: Callable[[str, Any, Any], None] | None = None
        """Hears of each parameter that changes at runtime: its name, the old value, the new one."""
        parsed = {
            name: value
            for name, value in startup.items()
            if not name.startswith(FAIL_POINT_PREFIX) and (name in self._table or name not in release.known)
        }
        self.yield_period = 0.0
        """The seconds for which a command runs before it gives way to others (`waiting/turns.py`)."""
        self.requires_api_version = False
        """`requireApiVersion`, which is asked with each command."""
        chosen = self._parse(parsed, at_startup=True)
        followed = admission.what_sizes_end(chosen, self._values, profile)
        self.sizes_end_probing = bool(followed)
        """The sizes of ticket pools that the start-up sets have ended throughput probing."""
        self._update({**chosen, **followed})

    def _update(self, parsed: Mapping[str, Any]) -> None:
        self._values.update(parsed)
        values = self._values
        if log_components.NAME in parsed:
            values[log_components.LEVEL] = values[log_components.NAME]["verbosity"]
        elif log_components.LEVEL in parsed:
            level = values[log_components.LEVEL]
            values[log_components.NAME] = {**values[log_components.NAME], "verbosity": level}
        self.yield_period = self._values["internalQueryExecYieldPeriodMS"] / 1000
        self.requires_api_version = self._values["requireApiVersion"]

    def __getitem__(self, name: str) -> Any:
        """Return a value, the default of one that the release does not have."""
        return self._values[TABLE[name].alias_of or name]

    def __iter__(self) -> Iterator[Parameter]:
        """Iterate over the parameters of this release, by name."""
        return iter(self._table.values())

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def get(self, name: str) -> Parameter | None:
        """Return the declaration of a parameter that this release has, or None."""
        return self._table.get(name)

    @property
    def values(self) -> Mapping[str, Any]:
        """A copy of all values, as `restore` takes it."""
        return dict(self._values)

    def restore(self, values: Mapping[str, Any]) -> None:
        """Take back the values of an earlier time."""
        if self._values == values:
            return
        different = {name: value for name, value in values.items() if self._values[name] != value}
        self._tell(different)
        self._update(different)
        if self.changed is not None:
            self.changed(frozenset(different))

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise `CommandError` as `set` would, and set nothing."""
        self._parse(settings, at_startup=False)

    def set(self, settings: Mapping[str, Any]) -> Any:
        """Set parameters at runtime, all or none, and return what the first of them was.

        Raises `CommandError`: 72 for a name that is not known, 20 for one that is set at start-up alone
        and for a number of tickets that is probed for, 2 for a value, 14, 40414 or 40415 for a document.
        """
        parsed = self._parse(settings, at_startup=False)
        was = self[next(iter(settings))]
        self._tell(parsed)
        self._update(parsed)
        if self.changed is not None:
            self.changed(frozenset(parsed))
        return was

    def _tell(self, new: Mapping[str, Any]) -> None:
        if self.was_set is not None:
            for name, value in new.items():
                if self._values[name] != value:
                    self.was_set(name, self._values[name], value)

    def _parse(self, settings: Mapping[str, Any], *, at_startup: bool) -> dict[str, Any]:
        parsed = dict(self._parse_one(*each, at_startup=at_startup) for each in settings.items())
        after = {**self._values, **parsed}
        admission.check_together(after)
        if not at_startup:
            admission.check_change(parsed, self._values, after, self._profile)
        return parsed

    def _parse_one(self, name: str, value: Any, *, at_startup: bool) -> tuple[str, Any]:
        parameter = self._table.get(name)
        if parameter is None:
            raise CommandError(
                ErrorCode.INVALID_OPTIONS,
                f"attempted to set unrecognized parameter [{name}], use help:true to see options ",
            )
        if not (parameter.at_startup if at_startup else parameter.at_runtime):
            when = "startup" if at_startup else "runtime"
            raise CommandError(ErrorCode.ILLEGAL_OPERATION, f"not allowed to change [{name}] at {when}")
        parsed = parameter.parse(value, text=at_startup)
        if parameter.merge is not None:
            parsed = parameter.merge(self._values[name], parsed)
        return parameter.alias_of or name, parsed

"""A deployment that the user gives by its connection string: which one, what it is, and what that means.

A run drops collections. So it is never the environment alone that chooses servers: the user says `env`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness import interruption
from harness.external import external
from harness.targets import name_of
from harness.unified.uri import ConnectionString
from mongowire.system import SystemClock, fresh_rng

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.external import ExternalDeployment

ENVIRONMENT: Final = "env"
"""What stands for the environment's connection strings where one is asked for."""

VARIABLE: Final = "MONGODB_URI"
_BALANCERS: Final = ("SINGLE_MONGOS_LB_URI", "MULTI_MONGOS_LB_URI")
_CHOOSES_BALANCERS: Final = "LOAD_BALANCER"


@dataclass(frozen=True, slots=True)
class Given:
    """Connection strings: of one mongos or a whole deployment, and of all mongos where they differ."""

    uri: str
    uri_multi: str = ""

    @classmethod
    def of(cls, uri: str | None, uri_multi: str | None, environment: Mapping[str, str]) -> Given | None:
        """Return what the user has given, None if nothing. Raises `ValueError` when it makes no sense."""
        if uri == "" or uri_multi == "":  # `not` would take it for nothing at all
            raise ValueError("a connection string is empty")
        if uri is None:
            if uri_multi is not None:
                raise ValueError("the connection string of several mongos needs that of one")
            return None
        if uri != ENVIRONMENT:
            return cls(uri, uri_multi or "")
        if uri_multi:
            raise ValueError(f"'{ENVIRONMENT}' names all connection strings: give no other one")
        return cls._of_environment(environment)

    @classmethod
    def _of_environment(cls, environment: Mapping[str, str]) -> Given:
        """Read the variables of drivers' own suites; `LOAD_BALANCER=true` prefers the load balancers'."""
        single, multi = (environment.get(name, "") for name in _BALANCERS)
        balanced = bool(single or multi)
        if environment.get(VARIABLE) and not (balanced and environment.get(_CHOOSES_BALANCERS) == "true"):
            return cls(environment[VARIABLE])
        if not balanced:
            raise ValueError(f"none of {VARIABLE}, {' and '.join(_BALANCERS)} is set in the environment")
        return cls(single or multi, multi or single)


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a deployment turned out to be: its name in results, and lines that a user should see."""

    target: str
    lines: tuple[str, ...]


def introduce(given: Given) -> Introduction:
    """Ask a deployment what it is; must not be called in an event loop. Raises `DeploymentError`."""

    async def ask() -> Introduction:
        clock, rng = SystemClock(), fresh_rng("introduction")
        async with external(given.uri, given.uri_multi, clock=clock, rng=rng) as deployment:
            return Introduction(name_of(deployment), tuple(_lines(deployment)))

    return interruption.run(ask())


def _lines(deployment: ExternalDeployment) -> Iterator[str]:
    version = ".".join(map(str, deployment.server_version))
    where = ConnectionString.of(deployment.uri_multi).redacted()
    yield f"on {name_of(deployment)}, MongoDB {version}, at {where}"
    yield "  the collections that scenarios name are dropped there"
    yield from (f"  {note}" for note in deployment.notes)

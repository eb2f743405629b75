"""Connection strings of servers to run on, from the command line or the environment.

A run drops collections. The environment alone therefore never chooses servers: the user has to write `env`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.deployments.external import external
from harness.deployments.targets import name_of
from harness.running import cancelling
from harness.unified.uri import ConnectionString
from mongowire.system import SystemClock, fresh_rng

if TYPE_CHECKING:
    from collections.abc import Mapping

ENVIRONMENT: Final = "env"
"""The word that stands for the connection strings of the environment."""

VARIABLE: Final = "MONGODB_URI"
_BALANCERS: Final = ("SINGLE_MONGOS_LB_URI", "MULTI_MONGOS_LB_URI")
_CHOOSES_BALANCERS: Final = "LOAD_BALANCER"


@dataclass(frozen=True, slots=True)
class ExternalUris:
    """Connection strings: of one mongos or a whole deployment, and of all mongos where the two differ."""

    uri: str
    uri_multi: str = ""

    @classmethod
    def of(
        cls, uri: str | None, uri_multi: str | None, environment: Mapping[str, str]
    ) -> ExternalUris | None:
        """Return the connection strings that the user named, None without any.

        `environment` is read when `uri` is `env`. Raises `ValueError` for a contradiction.
        """
        if (
            uri == "" or uri_multi == ""
        ):  # a variable that is not set, as a rule: no reason to start fake servers
            raise ValueError("a connection string is empty")
        if uri is None:
            if uri_multi is not None:
                raise ValueError("the connection string of several mongos needs that of one")
            return None
        if uri != ENVIRONMENT:
            return cls(uri, uri_multi or "")
        if uri_multi:
            raise ValueError(f"'{ENVIRONMENT}' names all connection strings: give no other one")
        # The variables of the drivers' own suites. Both kinds may be set; LOAD_BALANCER says which counts.
        single, multi = (environment.get(name, "") for name in _BALANCERS)
        balanced = bool(single or multi)
        if environment.get(VARIABLE) and not (balanced and environment.get(_CHOOSES_BALANCERS) == "true"):
            return cls(environment[VARIABLE])
        if not balanced:
            raise ValueError(f"none of {VARIABLE}, {' and '.join(_BALANCERS)} is set in the environment")
        return cls(single or multi, multi or single)


@dataclass(frozen=True, slots=True)
class Introduction:
    """A deployment's name in results, and lines that announce it to the user."""

    target: str
    lines: tuple[str, ...]


def introduce(uris: ExternalUris) -> Introduction:
    """Ask a deployment for topology and version, outside of any event loop. Raises `DeploymentError`."""

    async def ask() -> Introduction:
        clock, rng = SystemClock(), fresh_rng("introduction")
        async with external(uris.uri, uris.uri_multi, clock=clock, rng=rng) as deployment:
            version = ".".join(map(str, deployment.server_version))
            where = ConnectionString.of(deployment.uri_multi).redacted()
            lines = (
                f"on {name_of(deployment)}, MongoDB {version}, at {where}",
                "  the collections that scenarios name are dropped there",
                *(f"  {note}" for note in deployment.notes),
            )
            return Introduction(name_of(deployment), lines)

    return cancelling.run(ask())

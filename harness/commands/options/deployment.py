"""The options for the servers that cases run on: fake ones of some topologies, or servers by URI.

Names of deployments are those of `harness.deployments.targets`. Two functions stand apart because of their
cost: `external_uris` only reads strings and may refuse them at once, `deployments_of` asks servers, and is
called last, when nothing else can be wrong any more.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.adapters.deployment import Topology
from harness.commands.options.common import TopologyName, profile_option
from harness.commands.options.types import Filled
from harness.commands.output import bad_input
from harness.deployments import targets
from harness.deployments.embedded import check_scenario
from harness.deployments.external import ENVIRONMENT, VARIABLE, DeploymentError, ExternalUris, introduce
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.commands.options.common import Options

F = TypeVar("F", bound="Callable[..., Any]")

_OPTIONS = (
    click.option(
        "--topology",
        type=TopologyName(targets.NAMES),
        metavar="NAME[+auth]",
        multiple=True,
        default=(Topology.REPLICA_SET.value,),
        show_default=True,
        help="Topology to run on: single, replicaset, sharded or load-balanced, each also with access control"
        " (+auth). 'all' is each of them without access control, 'matrix' is single+auth, replicaset, sharded"
        " and load-balanced+auth, 'thorough' is every deployment and release that a bundled scenario needs."
        " Repeat the option for more.",
    ),
    click.option(
        "--auth/--no-auth",
        default=False,
        help="Switch access control on in every deployment.  [default: where +auth is]",
    ),
    profile_option,
    click.option(
        "--uri",
        type=Filled(),
        metavar="URI|env",
        help="Run on the servers of this connection string instead of fake ones; collections there are"
        f" dropped. 'env' reads {VARIABLE}, or SINGLE_MONGOS_LB_URI and MULTI_MONGOS_LB_URI"
        " (docs/REAL-SERVERS.md).",
    ),
    click.option(
        "--uri-multi",
        type=Filled(),
        metavar="URI",
        help="Connection string of the load balancer in front of all mongos, where --uri is of the balancer"
        " of one.  [default: --uri]",
    ),
    click.option(
        "--server-scenario",
        type=Filled(),
        metavar="FILE|NAME",
        help="Scenario for the fake servers: users, data, parameters, rules, faults and timeline, from the"
        " beginning in each case; the topology is that of --topology (docs/SERVER-SCENARIOS.md).",
    ),
)


def deployment_options(command: F) -> F:
    """Give a command the options for servers."""
    # The last decorator that is applied comes first in the help.
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def external_uris(options: Options) -> ExternalUris | None:
    """Return the connection strings of a command line, None if it names none.

    Raises `click.UsageError` for options that contradict them.
    """
    try:
        uris = ExternalUris.of(options.uri, options.uri_multi, os.environ)
    except ValueError as error:
        raise click.UsageError(f"--uri: {error}") from error
    return uris


def deployments_of(options: Options, uris: ExternalUris | None) -> tuple[str, ...]:
    """Return the names of the deployments to run on. Raises `click.ClickException`.

    Servers by URI are asked for their topology, and announced: collections are dropped there.
    """
    if uris is None:
        # Suites of drivers use these servers as soon as the variable is set. Here collections are dropped, so
        # it takes a word on the command line.
        if os.environ.get(VARIABLE) and not options.quiet:
            click.echo(f"{VARIABLE} is not used; --uri {ENVIRONMENT} would run on those servers", err=True)
        names = targets.targets(options.topology, auth=options.auth, profiles=options.profiles)
        scenario = options.server_scenario
        # On each deployment: a scenario may name members that one of them has not.
        for name in names if scenario else ():
            auth, profile = targets.has_auth(name), targets.profile_of(name)
            with bad_input(ControlError):
                check_scenario(str(scenario), targets.topology_of(name), auth=auth, profile=profile)
        return names
    try:
        introduction = introduce(uris)
    except DeploymentError as error:
        raise click.ClickException(str(error)) from error
    for line in introduction.lines:
        click.echo(line, err=True)
    return (introduction.target,)

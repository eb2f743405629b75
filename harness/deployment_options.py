"""The options of a command line that say where cases run, and what follows from them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from harness import targets
from harness.given import ENVIRONMENT, VARIABLE, Given, introduce
from harness.options import profile_option
from harness.survey import DeploymentError
from harness.unified.deployment import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_OPTIONS = (
    click.option(
        "--topology",
        type=click.Choice(targets.NAMES),
        metavar="NAME[+auth]",
        multiple=True,
        default=(Topology.REPLICA_SET.value,),
        show_default=True,
        help="The deployment to run on: single, replicaset, sharded or load-balanced, each also with access"
        " control (+auth). 'all' is each without, 'matrix' single+auth, replicaset, sharded and"
        " load-balanced+auth. Give it again for more.",
    ),
    click.option(
        "--auth/--no-auth",
        default=False,
        help="Access control on every deployment.  [default: where +auth is]",
    ),
    profile_option,
    click.option(
        "--uri",
        metavar="URI|env",
        help="Run on these servers, whose collections are dropped, instead of fake ones; 'env' stands for"
        f" {VARIABLE}, or SINGLE_MONGOS_LB_URI and MULTI_MONGOS_LB_URI (docs/REAL-SERVERS.md).",
    ),
    click.option(
        "--uri-multi",
        metavar="URI",
        help="Of the load balancer of all mongos, where --uri is of that of one.  [default: --uri]",
    ),
)


def deployment_options(command: F) -> F:
    """Give a command the options that say where cases run."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given_by(context: click.Context) -> Given | None:
    """Return the deployment that a command line gives. Raises `click.UsageError` for a contradiction."""
    try:
        given = Given.of(context.params["uri"], context.params["uri_multi"], os.environ)
    except ValueError as error:
        raise click.UsageError(f"--uri: {error}") from error
    if given is None:
        return None
    source = context.get_parameter_source
    if ParameterSource.COMMANDLINE in (source("topology"), source("auth"), source("profiles")):
        raise click.UsageError(
            "--uri: the servers say themselves what they are; leave out --topology, --auth and --profile"
        )
    if context.params["time"] == "virtual":
        raise click.UsageError("--uri: those servers have no clock but the wall's; use --time real")
    if (context.params["jobs"] or 1) > 1:
        raise click.UsageError("--uri: cases that run at once would disturb each other; leave out --jobs")
    return given


def targets_of(context: click.Context, given: Given | None) -> tuple[str, ...]:
    """Return the deployments to run on; say it when they are not ours. Raises `click.ClickException`."""
    if given is None:
        if os.environ.get(VARIABLE) and not context.params["quiet"]:
            click.echo(f"{VARIABLE} is not used; --uri {ENVIRONMENT} would run on those servers", err=True)
        asked = context.params
        return targets.targets(asked["topology"], auth=asked["auth"], profiles=asked["profiles"])
    try:
        introduction = introduce(given)
    except DeploymentError as error:
        raise click.ClickException(str(error)) from error
    for line in introduction.lines:
        click.echo(line, err=True)
    return (introduction.target,)

"""The options of `start` and `exec`, and the arguments of `serve` that they are.

They are those of mongodb-runner, also as `MONGODB_RUNNER_…` in the environment; besides, the variables count
by which the drivers' evergreen tools start servers.

`starting_of` puts arguments of `serve` together from four sources, the weakest first: variables of the
environment, options, the arguments in the file of `--config`, and what stands behind `--`. `serve` itself
takes the last of two values of an option, so order is all that decides. It parses them here once, before a
process is started: a mistake is told at once, and the topology is known for the id.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from fakeserver.cli.values import OneOf, ScenarioName
from fakeserver.control.registry import Registry, check_id
from fakeserver.control.scenario.loader import ProblemReport, read
from fakeserver.deployment.spec import ClusterSpec, Topology, topology_name
from fakeserver.profile import DEFAULT_PROFILE, PROFILES
from harness.commands.options.types import Count, FilePath, Filled
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.control.scenario.loader import PlacedValue


# The file of `start --config`: the options of mongodb-runner as JSON, and what has no option there.


_MEMBER: Final = ("arbiterOnly",)


def options_in(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the options of a file by name, and its arguments of `serve`.

    Raises `ScenarioFileError`, with a line for each mistake.
    """
    marked, report = read(path), ProblemReport()
    options: dict[str, Any] = {}
    arguments: list[str] = []
    if not marked.is_mapping:
        report.add(marked, f"holds a document of {', '.join(_KEYS)}")
    for name, inner in marked.members.items() if marked.is_mapping else ():
        reader = _KEYS.get(str(name))
        if reader is None:
            report.add(marked, unknown("key", name, _KEYS).message, place=marked.keys.get(str(name)))
        else:
            found = reader(inner, report)
            options |= found.get("options", {})
            arguments += found.get("arguments", [])
    report.end()
    return options, arguments


def _text(option: str) -> Callable[[PlacedValue, ProblemReport], dict[str, Any]]:
    def read_text(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
        if isinstance(marked.value, str):
            return {"options": {option: marked.value}}
        report.add(marked, f"{marked.value!r} is no text")
        return {}

    return read_text


def _count(option: str) -> Callable[[PlacedValue, ProblemReport], dict[str, Any]]:
    def read_count(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
        # mongodb-runner has a list with the options of each shard here; only how many there are is supported.
        value = len(marked.value) if option == "shards" and isinstance(marked.value, list) else marked.value
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return {"options": {option: value}}
        report.add(marked, f"{value!r} is no whole number")
        return {}

    return read_count


def _arguments(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
    if isinstance(marked.value, list) and all(isinstance(each, str) for each in marked.value):
        return {"arguments": marked.value}
    report.add(marked, "holds a list of texts, each an argument of serve")
    return {}


def _members(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
    """Read the members of a set, of which only their number and the arbiters count."""
    members = list(marked.members.values()) if isinstance(marked.value, list) else []
    if not members or not all(member.is_mapping for member in members):
        report.add(marked, "holds a list of documents, one for each member")
        return {}
    for member in members:
        for name in member.value:
            if name not in _MEMBER:
                report.add(member, f"{name} of a member is not supported; known is arbiterOnly")
    arbiters = sum(bool(member.value.get("arbiterOnly")) for member in members)
    # One member is the primary.
    return {"options": {"secondaries": len(members) - arbiters - 1, "arbiters": arbiters}}


def _users(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
    users = marked.value if isinstance(marked.value, list) else [None]
    # Users without access control would be of no use.
    arguments = ["--auth"]
    for user in users:
        if not isinstance(user, dict) or not all(
            isinstance(user.get(name), str) for name in ("username", "password")
        ):
            report.add(marked, "holds a list of documents with username and password")
            return {}
        arguments += ["--user", f"{user['username']}:{user['password']}"]
    return {"arguments": arguments}


_KEYS: Final[Mapping[str, Callable[[PlacedValue, ProblemReport], dict[str, Any]]]] = {
    "topology": _text("topology"),
    "version": _text("profile"),
    "id": _text("name"),
    "secondaries": _count("secondaries"),
    "arbiters": _count("arbiters"),
    "shards": _count("shards"),
    "args": _arguments,
    "rsMembers": _members,
    "users": _users,
}


_MEMBERS_MAX: Final = 50
_SECONDARIES: Final = 2
_YES: Final = {"true", "yes", "1", "on"}
_USER: Final = "bob:pwd123"
"""The user whom the drivers' evergreen tools make."""


@dataclass(frozen=True, slots=True)
class StartingServer:
    """A server to start: its id, where it is registered and logs, and its arguments of `serve`."""

    name: str
    registry: Registry
    arguments: tuple[str, ...]
    log: Path | None = None
    spec: ClusterSpec | None = field(default=None, repr=False)
    plays_scenario: bool = False

    @property
    def topology(self) -> Topology | None:
        """Its topology, where that is known."""
        return None if self.spec is None else self.spec.topology


class Release(Filled):
    """A release, also as 8.0.4 or latest."""

    name = "RELEASE"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002 - click's signature
        return [CompletionItem(each) for each in PROFILES if each.startswith(incomplete)]


def starting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the options of a command that starts a server; its function gets them as `**options`."""
    for declare in reversed(_OPTIONS):
        command = declare(command)
    return command


def _option(*names: str, **facts: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    name = names[-1].lstrip("-")
    words = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name)
    return click.option(*names, envvar=f"MONGODB_RUNNER_{words}", **facts)


runner_folder: Final = _option(
    "runner_folder",
    "--runner-dir",
    "--runnerDir",
    type=FilePath(file_okay=False),
    help="Folder of the registry of running servers.  [default: $PUSHBACKD_HOME]",
)
"""Declares the option of a command that reads the registry."""

_OPTIONS: Final = (
    _option(
        "-t",
        "--topology",
        type=OneOf(map(str, Topology), topology_name),
        help="Kind of deployment.  [default: single]",
    ),
    click.option(
        "--members",
        type=Count(1, _MEMBERS_MAX),
        help="Members of a set, arbiters included: another way to say --secondaries.  [default: 3]",
    ),
    _option(
        "--secondaries",
        type=Count(0, _MEMBERS_MAX - 1),
        help="Secondaries beside the primary of a set.  [default: 2]",
    ),
    _option(
        "--arbiters",
        type=Count(0, _MEMBERS_MAX - 1),
        help="Arbiters beside those, with the last ports of the set.  [default: 0]",
    ),
    _option("--shards", type=Count(1, _MEMBERS_MAX), help="Number of shards.  [default: 1]"),
    _option(
        "--scenario",
        type=ScenarioName(),
        metavar="FILE|NAME",
        help="Play this scenario file, or one of the package by name; -t runs it on another topology.",
    ),
    _option(
        "--profile",
        "--version",
        type=Release(),
        metavar=f"[{'|'.join(PROFILES)}]",
        help=f"MongoDB release to imitate.  [default: {DEFAULT_PROFILE}]",
    ),
    _option("name", "--id", metavar="ID", help="Id of the server.  [default: a new one]"),
    _option(
        "log_folder", "--log-dir", "--logDir", type=FilePath(file_okay=False), help="Folder for the log."
    ),
    runner_folder,
    _option(
        "--config",
        type=FilePath(dir_okay=False),
        help="File with these options as JSON, and with args, rsMembers and users; those given here win.",
    ),
    _option("debug", "-v", "--verbose", "--debug", is_flag=True, help="Log more (as `serve -v`)."),
)


def starting_of(options: Mapping[str, Any], arguments: Sequence[str]) -> StartingServer:
    """Return the server that the options describe; `arguments` are those of `serve` besides.

    Raises `ControlError`, `ValueError`; ends the process for arguments that `serve` would refuse.
    """
    from fakeserver.cli.description import described, log_of  # noqa: PLC0415 - a help text needs no server

    given: list[str] = []
    if options["config"] is not None:
        of_file, given = options_in(options["config"])
        # What is given on the command line or in the environment wins over the file.
        options = {**options, **{name: value for name, value in of_file.items() if options[name] is None}}
    served = (*_from_environment(os.environ), *_from_options(options), *given, *arguments)
    # Before a process is started: a mistake ends here, and not in the log of a server.
    found = described(served, os.environ)
    file = log_of(served)
    spec = found if isinstance(found, ClusterSpec) else found.spec
    registry = Registry(options["runner_folder"])
    name = registry.fresh_id(str(spec.topology)) if options["name"] is None else check_id(options["name"])
    folder = options["log_folder"]
    if folder is not None and file is not None:
        raise ControlError("--log-dir and --logpath both say where the log is; write one of them")
    log = None if folder is None else folder / f"{name}.log"
    log = log if file is None else Path(file)
    return StartingServer(name, registry, served, log, spec, plays_scenario=found is not spec)


def _from_options(options: Mapping[str, Any]) -> list[str]:
    arguments = []
    if options["topology"] is not None:
        arguments += ["--topology", topology_name(options["topology"])]
    secondaries, arbiters, members = options["secondaries"], options["arbiters"] or 0, options["members"]
    if members is not None:
        if secondaries is not None:
            raise ControlError("--members and --secondaries both say how many there are; write one of them")
        arguments += ["--members", str(members), "--arbiters", str(arbiters)]
        arbiters = 0
    if secondaries is not None or arbiters:
        members = 1 + (_SECONDARIES if secondaries is None else secondaries) + arbiters
        arguments += ["--members", str(members), "--arbiters", str(arbiters)]
    if options["scenario"] is not None:
        arguments += ["--scenario", options["scenario"]]
    if options["shards"] is not None:
        arguments += ["--shards", str(options["shards"])]
    if options["profile"] is not None:
        arguments += ["--profile", _profile(options["profile"])]
    return [*arguments, "-v"] if options["debug"] else arguments


def _from_environment(environment: Mapping[str, str]) -> list[str]:
    """Return the arguments that the drivers' evergreen tools mean by their variables.

    `serve` itself reads `TOPOLOGY` and `LOAD_BALANCER`.
    """
    arguments = []
    if environment.get("AUTH") == "auth":
        arguments += ["--auth", "--user", _USER]
    if version := environment.get("MONGODB_VERSION"):
        arguments += ["--profile", _profile(version)]
    if environment.get("REQUIRE_API_VERSION", "").lower() in _YES:
        arguments += ["--setParameter", "requireApiVersion=1"]
    if environment.get("DISABLE_TEST_COMMANDS", "").lower() in _YES:
        arguments += ["--setParameter", "enableTestCommands=0"]
    if environment.get("SSL") in {"yes", "ssl"} and (file := environment.get("TLS_PEM_KEY_FILE")):
        arguments += ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", file]
        authority = environment.get("TLS_CA_FILE")
        arguments += ["--tlsCAFile", authority] if authority else []
        # With a CA file, a server would otherwise ask every client for a certificate.
        arguments.append("--tlsAllowConnectionsWithoutCertificates")
    return arguments


def _profile(version: str) -> str:
    """Return the profile of a release: 8.0 of `8.0.4`, the newest of `latest`. Raises `ControlError`."""
    if version in {"latest", "rapid", "stable"}:
        # The newest stands first in the table.
        return next(iter(PROFILES))
    profile = ".".join(version.removeprefix("v").split(".")[:2])
    if profile not in PROFILES:
        raise unknown("release", version, PROFILES)
    return profile

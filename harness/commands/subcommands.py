"""The subcommands of `pushbackd`: their modules, which are imported when they are called, and their help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Subcommand(NamedTuple):
    """A subcommand: its module in `harness.commands`, and its line of help."""

    module: str
    help: str


SUBCOMMANDS: Final[Mapping[str, Subcommand]] = {
    "certs": Subcommand("certs", "Make throw-away certificates for tests with TLS."),
    "check-adapter": Subcommand("check_adapter", "Say which parts of the protocol an adapter keeps."),
    "conform": Subcommand("conform", "Run scenarios against a driver and report the results."),
    "data": Subcommand("control", "Seed, drop, save and restore data of a running server."),
    "demo": Subcommand("servers.demo", "Start a replica set, a small shop and the live page, and break it."),
    "drill": Subcommand("servers.drill", "Run a command against a deployment that sheds load."),
    "drivers": Subcommand("drivers", "Set drivers against the rules: which each keeps, which it breaks."),
    "exec": Subcommand("servers.exec", "Run a command with a fake server of its own."),
    "explain": Subcommand("explain", "Run one case and show the events of driver and servers."),
    "fail-point": Subcommand("control", "Set fail points on a running server."),
    "govern": Subcommand("govern", "Let a policy set the request rate limiter of a running server."),
    "hunt": Subcommand("hunt", "Find the places of a command that do not bear a fault."),
    "journal": Subcommand("control", "Read the journal of a running server, and verify it."),
    "limits": Subcommand("control", "Limit the requests and connections of a running server."),
    "lint": Subcommand("lint", "Check scenarios without running them."),
    "ls": Subcommand("servers.ls", "List the servers that run."),
    "mutants": Subcommand("mutants", "Try wrong drivers and servers, and list those that nothing finds."),
    "network": Subcommand("control", "Partition the network of a running server, and disturb its bytes."),
    "new": Subcommand("new", "Write a scenario or an adapter to start from."),
    "node": Subcommand("control", "Kill, restart, pause or slow a member of a running server."),
    "open": Subcommand("servers.open", "Open the live page of a running server in the browser."),
    "propose": Subcommand(
        "propose", "Prove a rule before it is proposed, and write what a pull request needs."
    ),
    "prune": Subcommand("servers.prune", "Remove what servers left behind that have ended."),
    "record": Subcommand("record", "Run a scenario and write its events down as expectations."),
    "report": Subcommand("report", "Make one HTML page of the results of several runs."),
    "reset": Subcommand("control", "Bring a running server back to its beginning."),
    "rule": Subcommand("control", "Make requests to a running server fail, by rules."),
    "schema": Subcommand("schema", "Print the JSON Schema of scenarios, for editors."),
    "serve": Subcommand("servers.serve", "Run a fake MongoDB deployment (takes the options of mongod)."),
    "simulate": Subcommand(
        "simulate", "Simulate fleets of clients, the article on retries, swarms of faults."
    ),
    "start": Subcommand("servers.start", "Start a fake server in the background, and print its URI."),
    "state": Subcommand("control", "Show the members of a running server, and what is wrong with them."),
    "stop": Subcommand("servers.stop", "Stop servers that run in the background."),
    "swarm": Subcommand("swarm", "Run a driver through drawn cases, judged by the rules themselves."),
    "to-json": Subcommand("to_json", "Convert YAML scenarios to JSON."),
}

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Servers": ("serve", "start", "stop", "ls", "open", "exec", "demo", "drill", "hunt", "prune", "certs"),
    "Control of a running server": (
        "state",
        "node",
        "network",
        "limits",
        "rule",
        "fail-point",
        "data",
        "journal",
        "reset",
        "govern",
    ),
    "Tests of drivers": (
        "conform",
        "explain",
        "record",
        "swarm",
        "check-adapter",
        "report",
        "drivers",
        "mutants",
        "propose",
    ),
    "Scenarios": ("new", "lint", "schema", "to-json"),
    "Simulations": ("simulate",),
}
"""The subcommands as the help lists them: by what they are for, and the first to meet first."""

FORMER: Final[Mapping[str, str]] = {"fault": "rule"}
"""Former names of subcommands, which work with a notice."""

FORMER_VERBS: Final[Mapping[str, Mapping[str, str]]] = {"network": {"faults": "ls", "mend": "rm"}}
"""Former names of verbs by their group."""

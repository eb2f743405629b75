"""The subcommands of `pushbackd`: their modules, which are imported when they are called, and their help.

Three tables, each read by `harness.cli` and by the tests of help texts: `SUBCOMMANDS` leads from a name to
its module, `GROUPS` has the order of `pushbackd --help`, `EXAMPLES` the end of each help text. A name has to
be in all three. Examples are parsed by a test, so none can be of an option that there is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import click


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
    "drivers": Subcommand("report", "Set drivers against the rules: which each keeps, which it breaks."),
    "exec": Subcommand("servers.exec", "Run a command with a fake server of its own."),
    "explain": Subcommand("explain", "Run one case and show the events of driver and servers."),
    "fail-point": Subcommand("control", "Set fail points on a running server."),
    "govern": Subcommand("govern", "Let a policy set the request rate limiter of a running server."),
    "hunt": Subcommand("hunt", "Find the places of a command that do not bear a fault."),
    "journal": Subcommand("control", "Read the journal of a running server, and verify it."),
    "limits": Subcommand("control", "Limit the requests and connections of a running server."),
    "lint": Subcommand("lint", "Check scenarios without running them."),
    "ls": Subcommand("servers.background", "List the servers that run."),
    "mutants": Subcommand("mutants", "Try wrong drivers and servers, and list those that nothing finds."),
    "network": Subcommand("control", "Partition the network of a running server, and disturb its bytes."),
    "new": Subcommand("scenario_files", "Write a scenario or an adapter to start from."),
    "node": Subcommand("control", "Kill, restart, pause or slow a member of a running server."),
    "open": Subcommand("servers.background", "Open the live page of a running server in the browser."),
    "propose": Subcommand(
        "propose", "Prove a rule before it is proposed, and write what a pull request needs."
    ),
    "prune": Subcommand("servers.background", "Remove what servers left behind that have ended."),
    "record": Subcommand("record", "Run a scenario and write its events down as expectations."),
    "report": Subcommand("report", "Make one HTML page of the results of several runs."),
    "reset": Subcommand("control", "Bring a running server back to its beginning."),
    "rule": Subcommand("control", "Make requests to a running server fail, by rules."),
    "schema": Subcommand("scenario_files", "Print the JSON Schema of scenarios, for editors."),
    "serve": Subcommand("servers.serve", "Run a fake MongoDB deployment (takes the options of mongod)."),
    "simulate": Subcommand(
        "simulate", "Simulate fleets of clients, the article on retries, swarms of faults."
    ),
    "start": Subcommand("servers.background", "Start a fake server in the background, and print its URI."),
    "state": Subcommand("control", "Show the members of a running server, and what is wrong with them."),
    "stop": Subcommand("servers.background", "Stop servers that run in the background."),
    "swarm": Subcommand("swarm", "Run a driver through drawn cases, judged by the rules themselves."),
    "to-json": Subcommand("scenario_files", "Convert YAML scenarios to JSON."),
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


# The examples in the help of commands, by the words of the command; those of verbs stand in their table.


EXAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "certs": ("certs ./certs", "certs ./certs --client CN=app"),
    "check-adapter": ("check-adapter 'cmd: node adapter.js'",),
    "conform": (
        "conform",
        "conform retryable-writes --adapter pymongo",
        "conform scenario.yml --adapter 'cmd: node adapter.js' --topology all --html report.html",
        "conform --repeat 20 --perturb --case-timeout 2m",
    ),
    "data": ("data seed shop.orders '[{\"_id\": 1}]'", "data snapshot before"),
    "demo": ("demo", "demo --open --for 2m"),
    "drill": (
        "drill -- npm test",
        "drill --failover 10s --for 1m --html drill.html -- python app.py",
        "drill --latency 200ms --lost 1% -- go test ./...",
        "drill --shed 5% --for 15m --topology sharded --json summary.json -- ./app",
    ),
    "drivers": ("drivers before.jsonl now=results.jsonl -o drivers.html",),
    "exec": (
        "exec -t replicaset -- pytest",
        "exec --scenario retry-storm -- ./app",
        "exec -t sharded --profile 8.0 -- --mongos 3 -- npm test",
    ),
    "explain": ("explain --last-failed", "explain retryable-writes::insert --html case.html"),
    "fail-point": ("fail-point ls",),
    "govern": (
        "govern mongodb://localhost:27017",
        "govern mongodb://localhost:27017 --policy observe --seconds 10m --html readings.html",
        "govern mongodb://localhost:27017 --capacity 2000/s --timeout 2s",
    ),
    "hunt": ("hunt --budget 3m -- npm test", "hunt --budget 60s --junit hunt.xml -- pytest"),
    "journal": ("journal --command find --limit 20", "journal --follow"),
    "limits": ("limits --requests 20/s", "limits --off"),
    "lint": ("lint scenarios", "lint scenario.yml"),
    "ls": ("ls", "ls --json"),
    "mutants": ("mutants",),
    "network": ("network partition node0,clients node1,node2", "network heal"),
    "new": ("new scenario.yml", "new --adapter python my-adapter"),
    "node": ("node kill node1", "node step-down --seconds 10s"),
    "open": ("open", "open shop"),
    "propose": (
        "propose rule.yml --patch wanted.yml",
        "propose rule.yml --patch wanted.yml --adapter pymongo --out proposal",
    ),
    "prune": ("prune",),
    "record": ("record scenario.yml --in-place",),
    "report": ("report before.jsonl now=results.jsonl -o report.html",),
    "rule": ("rule add --command find --delay 200ms --times 3", "rule ls"),
    "schema": ("schema", "schema --server"),
    "simulate": ("simulate overload", "simulate claim jitter"),
    "simulate article": ("simulate article --clients 1000 --timeout 2s", "simulate article --html page.html"),
    "simulate claim": ("simulate claim", "simulate claim jitter --plot jitter.svg"),
    "simulate governed": ("simulate governed --seconds 20s",),
    "simulate overload": ("simulate overload --seconds 20s --plot overload.svg",),
    "simulate probing": ("simulate probing --start 10 --seconds 20s",),
    "simulate swarm": ("simulate swarm --seeds 100", "simulate swarm --replay 7"),
    "simulate rate-limiter": (
        "simulate rate-limiter --capacity 2000/s --peak 4500/s --clients 20000 --timeout 2s",
        "simulate rate-limiter --capacity 300/s --peak 500/s --clients 400 --timeout 5s --html limit.html",
    ),
    "simulate sweep": ("simulate sweep --grid grid.yml --csv results.csv",),
    "start": (
        "start -t replicaset --id shop",
        "start -t sharded -- --mongos 3 --port 27017",
    ),
    "stop": ("stop shop", "stop --all"),
    "swarm": ("swarm --adapter pymongo --seeds 50", "swarm --seed 7 --write found.yml"),
    "to-json": ("to-json scenarios --check",),
}
# click keeps the lines of a paragraph that begins with this character; it would join them otherwise.
_HEAD: Final = "\b\nExamples:"


def epilog_of(examples: Sequence[str]) -> str:
    """Return the end of a help text: a line for each example."""
    return "\n".join((_HEAD, *(f"  pushbackd {each}" for each in examples)))


def with_examples(command: click.Command, words: str) -> click.Command:
    """Return a command with its examples at the end of its help."""
    if command.epilog is None and words in EXAMPLES:
        command.epilog = epilog_of(EXAMPLES[words])
    return command

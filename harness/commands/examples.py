"""The examples in the help of commands, by the words of the command; those of verbs stand in their table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import click

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
        "drill --failover 10s --for 1m -- python app.py",
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
    "govern": ("govern mongodb://localhost:27017", "govern mongodb://localhost:27017 --interval 500ms"),
    "hunt": ("hunt --budget 3m -- npm test", "hunt --budget 60s --junit hunt.xml -- pytest"),
    "journal": ("journal --command find --limit 20", "journal --follow"),
    "limits": ("limits --requests 20/s", "limits --off"),
    "lint": ("lint scenarios", "lint scenario.yml"),
    "ls": ("ls", "ls --json"),
    "mutants": ("mutants",),
    "network": ("network partition node0,clients node1,node2", "network heal"),
    "new": ("new scenario.yml",),
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
    "simulate sweep": ("simulate sweep --grid grid.yml --csv results.csv",),
    "start": (
        "start -t replicaset --id shop",
        "start -t sharded -- --mongos 3 --port 27017",
    ),
    "stop": ("stop shop", "stop --all"),
    "swarm": ("swarm --adapter pymongo --seeds 50", "swarm --seed 7 --write found.yml"),
    "to-json": ("to-json scenarios --check",),
}
_HEAD: Final = "\b\nExamples:"


def epilog_of(examples: Sequence[str]) -> str:
    """Return the end of a help text: a line for each example."""
    return "\n".join((_HEAD, *(f"  pushbackd {each}" for each in examples)))


def with_examples(command: click.Command, words: str) -> click.Command:
    """Return a command with its examples at the end of its help."""
    if command.epilog is None and words in EXAMPLES:
        command.epilog = epilog_of(EXAMPLES[words])
    return command

"""The drivers of the field under drawn cases: nothing breaks but what each is known to break."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from example_adapters import EXAMPLES, PYTHON
from sizes import again, size

from harness.cli import cli

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_NUMBERS: Final = {
    "numbered": "one multi-document write costs a whole bulk write its transaction numbers",
}
_OF_JAVA: Final = {
    **_NO_NUMBERS,
    "idle": "connections are used that were idle for longer than maxIdleTimeMS",
    "numbers": "connections are numbered across all pools",
}
_NOT_AGAIN: Final = {"given-up": "create and drop are not tried again after overload"}
_UNORDERED: Final = {"bulk-ends": "an unordered bulk write goes on after a command that failed"}

KNOWN: Final[Mapping[str, Mapping[str, str]]] = {
    "pymongo": _NO_NUMBERS,
    "pymongo-async": _NO_NUMBERS,
    "node": {
        "cluster-time": "a connection gossips what it has heard itself, not what the client has",
        "labels": "errors of reads are labelled RetryableWriteError",
        "numbers": "behind a load balancer connections are told of before their pool",
        "pool-grammar": "behind a load balancer a pool is ready before it is told of",
        "pool-options": "a new pool tells the defaults of options that nobody gave",
    },
    "go": {
        **_UNORDERED,
        **_NOT_AGAIN,
        "closed-reason": "what is in use when its pool closes is closed as stale",
        "error": "DistinctResult.Decode hides the error of the server",
    },
    "java": _OF_JAVA,
    "java-reactive": _OF_JAVA,
    "rust": {**_NOT_AGAIN, "pool-grammar": "behind a load balancer no pool tells that it is ready"},
    "c": {
        **_UNORDERED,
        "given-up": "reads are not retried after ExceededTimeLimit",
        "max-connecting": "there is no maxConnecting",
    },
    "ruby": {
        "backoff-connection": "behind a load balancer a read that failed keeps its connection",
        "given-up": "create, drop and their kin are not tried again after overload",
        "handshake": "backpressure stands in the document client",
        "labels": "errors of reads are labelled RetryableWriteError",
        "not-cleared": "behind a load balancer a command that tells of a new state clears a pool",
        "numbers": "behind a load balancer the numbers of a pool's connections begin above 1",
        "retried": "writes in transactions are retried for the label RetryableWriteError",
        "start": "such a retry does not start its transaction again",
    },
}
"""The oracles that a driver is known to fail, each with what it does."""

NO_UNLIMITED_POOLS: Final = {"rust", "c", "java", "java-reactive"}
"""Drivers that have no pool without a limit: Rust refuses maxPoolSize=0, Java beside minPoolSize, C waits."""

_DRIVERS: Final = [
    *(pytest.param(name, name, id=name, marks=pytest.mark.slow) for name in ("pymongo", "pymongo-async")),
    *(
        pytest.param(each.language, f"cmd:{each.command}", id=each.language, marks=each.marks)
        for each in EXAMPLES
        if each is not PYTHON
    ),
]


@pytest.mark.parametrize(("driver", "adapter"), _DRIVERS)
def test_drawn_cases_show_nothing_of_a_driver_that_is_not_known(driver: str, adapter: str) -> None:
    without = [word for oracle in KNOWN[driver] for word in ("--without", oracle)]
    arguments = ["--adapter", adapter, "--seeds", str(size("drawn")), "--jobs", "4", "--json", *without]
    done = CliRunner().invoke(cli, ["swarm", *arguments])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [line for line in lines if line.get("status") == "failed"]
    if driver in NO_UNLIMITED_POOLS:
        failed = [line for line in failed if "oracle" in line]
    assert [f"seed {line['seed']}: {line['reason']}" for line in failed] == [], again("drawn")
    assert lines[-1]["summary"].get("passed", 0) > 0, done.output

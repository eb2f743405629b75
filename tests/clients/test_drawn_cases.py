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

_CURSORS_LEFT: Final = {
    "given-up:gave up killCursors": "a killCursors that met overload is not sent again: the cursor times out",
}
_NO_NUMBERS: Final = {
    "numbered:^(bulkWrite|insertMany|clientBulkWrite) of .* without a transaction number": (
        "one multi-document write costs a whole bulk write its transaction numbers"
    ),
}
_OF_JAVA: Final = {
    **_NO_NUMBERS,
    **_CURSORS_LEFT,
    "numbers:follows": "connections are numbered across all pools",
}
_OF_CATALOGUE: Final = r"(create|drop|modify|update)\w*(Index|Indexes|Collection|Database)|createCollection"
_NOT_AGAIN: Final = {
    f"given-up:^({_OF_CATALOGUE}) of": "create, drop and their kin are not tried again after overload",
}
_ENDED_AGAIN: Final = {"ended-sessions:twice$": "endSessions is sent again after overload"}
_UNORDERED: Final = {
    "bulk-ends:^(bulkWrite|insertMany) of": "an unordered bulk write goes on after a command that failed",
}
_LABELS_OF_READS: Final = {
    "labels:with RetryableWriteError, which nobody": "errors of reads are labelled RetryableWriteError",
}

KNOWN: Final[Mapping[str, Mapping[str, str]]] = {
    "pymongo": {**_NO_NUMBERS, **_CURSORS_LEFT},
    "pymongo-async": {**_NO_NUMBERS, **_CURSORS_LEFT},
    "node": {
        **_CURSORS_LEFT,
        **_LABELS_OF_READS,
        "cluster-time:without the newest": (
            "a connection gossips what it has heard itself, not what the client has"
        ),
        "numbers:follows 0": "behind a load balancer connections are told of before their pool",
        "given-up:^commitTransaction of": (
            "with retryWrites=false a commit that met overload is not sent again"
        ),
        "pool-grammar:pool that is unknown|poolCreated of a pool that is ready|check-out that had started": (
            "behind a load balancer a pool is ready before it is told of"
        ),
        "pool-options:which nobody gave": "a new pool tells the defaults of options that nobody gave",
    },
    "go": {
        **_CURSORS_LEFT,
        **_UNORDERED,
        **_NOT_AGAIN,
        **_ENDED_AGAIN,
        "closed-reason:as stale, and no clear": "what is in use when its pool closes is closed as stale",
        "error:^distinct of": "DistinctResult.Decode hides the error of the server",
        "monitor-hellos:its client is to poll": "checks are streamed with serverMonitoringMode=poll too",
    },
    "java": _OF_JAVA,
    "java-reactive": _OF_JAVA,
    "rust": {
        **_CURSORS_LEFT,
        **_NOT_AGAIN,
        **_ENDED_AGAIN,
        "pool-grammar:of a pool that is paused": "behind a load balancer no pool tells that it is ready",
    },
    "c": {
        **_UNORDERED,
        r"given-up:error 262": "reads are not retried after ExceededTimeLimit",
        "max-connecting:at once": "there is no maxConnecting",
        "check-pace:said hello again after": "a round trip is measured right after the handshake",
        r"error:raised error \d+, where error": "NoWritesPerformed came a month after this release",
        "labels:without RetryableWriteError, which the server": "the error before would have had it",
    },
    "ruby": {
        **_CURSORS_LEFT,
        **_LABELS_OF_READS,
        **_NOT_AGAIN,
        "backoff-connection:kept its connection": (
            "behind a load balancer a read that failed keeps its connection"
        ),
        "handshake:has backpressure None": "backpressure stands in the document client",
        "not-cleared:no error was its cause": (
            "behind a load balancer a command that tells of a new state clears a pool"
        ),
        "numbers:follows 0": ("behind a load balancer the numbers of a pool's connections begin above 1"),
        "retried:with .*RetryableWriteError, which is not": (
            "writes in transactions are retried for the label RetryableWriteError"
        ),
        "start:again without startTransaction": "such a retry does not start its transaction again",
    },
}
"""The findings that a driver is known for, each an oracle and what its sentences say, with what it does."""

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


@pytest.mark.skipif(not size("drawn"), reason="takes minutes: `tox -e adapters`, or PUSHBACKD_TESTS=drawn=4")
@pytest.mark.parametrize(("driver", "adapter"), _DRIVERS)
def test_drawn_cases_show_nothing_of_a_driver_that_is_not_known(driver: str, adapter: str) -> None:
    without = [word for finding in KNOWN[driver] for word in ("--without", finding)]
    arguments = ["--adapter", adapter, "--seeds", str(size("drawn")), "--jobs", "4", "--json", *without]
    done = CliRunner().invoke(cli, ["swarm", *arguments])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [line for line in lines if line.get("status") == "failed"]
    if driver in NO_UNLIMITED_POOLS:
        failed = [line for line in failed if "oracle" in line]
    assert [f"seed {line['seed']}: {line['reason']}" for line in failed] == [], again("drawn")
    assert lines[-1]["summary"].get("passed", 0) > 0, done.output

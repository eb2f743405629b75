"""Scenarios of pools behind a load balancer once more, for members of a replica set.

    python tests/support/pool_copies.py        writes pool-under-overload-of-a-member.yml

Behind a load balancer nobody monitors, so that what a case says of hellos meets pools alone. Of a member the
monitor has asked before, and does not again while the case runs. A test of tests/tidy compares the file with
what would be written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "spec_tests" / "connection-monitoring-and-pooling"
ORIGINAL: Final = FOLDER / "pool-under-overload.yml"
FILE: Final = FOLDER / "pool-under-overload-of-a-member.yml"

LEFT_OUT: Final = (
    "a handshake that times out costs its own connection only",
    "a handshake is not repeated on its connection",
    "the smallest number of connections is reached although the server closes some",
)
"""What servers see of these cases looks like a monitor: connections that say hello and nothing else."""

HEAD: Final = """\
# What pool-under-overload.yml says of pools behind a load balancer, of the pool of a member: its monitor has
# asked before, and does not while a case runs.
# `python tests/support/pool_copies.py` writes this file from that one.
# CMAP: Connection Pool, Checking Out a Connection; Client Backpressure: Overload retry policy
description: pool-under-overload-of-a-member
"""

_QUIET: Final = "uriOptions: { heartbeatFrequencyMS: 60000, serverMonitoringMode: poll, "
_KNOWN: Final = """\
      - name: waitForEvent
        object: testRunner
        arguments:
          client: *%s
          event: { serverDescriptionChangedEvent: { newDescription: { type: RSSecondary } } }
          count: 2
      - name: waitForEvent
        object: testRunner
        arguments:
          client: *%s
          event: { serverDescriptionChangedEvent: { newDescription: { type: RSPrimary } } }
          count: 1
"""
_CREATION: Final = re.compile(
    r"^      - name: createEntities\n(?:        .*\n|          .*\n)*?(?=      - |    \w)", re.MULTILINE
)
_CLIENT: Final = re.compile(r"client:\s*\{?\s*id: &(\w+) ")


def text() -> str:
    """Return the file's text."""
    original = ORIGINAL.read_text(encoding="utf-8")
    before, *cases = re.split(r"(?m)^(?=  - description: )", original[original.index("schemaVersion") :])
    kept = [case for case in cases if case.partition("description: ")[2].partition("\n")[0] not in LEFT_OUT]
    before = before.replace('minServerVersion: "5.0"', 'minServerVersion: "4.9"')
    before = before.replace("[load-balanced]", "[replicaset]")
    return HEAD + _observed(_quiet(before)) + "".join(map(_case, kept)).rstrip("\n") + "\n"


def _quiet(part: str) -> str:
    return part.replace("uriOptions: { ", _QUIET)


def _observed(part: str) -> str:
    """Have every client tell of its servers."""
    part = part.replace("observeEvents: [", "observeEvents: [serverDescriptionChangedEvent, ")
    part = part.replace("observeEvents:\n", "observeEvents:\n        - serverDescriptionChangedEvent\n")
    return re.sub(
        r"(- client: \{ id: &\w+ \w+, useMultipleMongoses: false, uriOptions: \{.*?\}) \}",
        r"\1, observeEvents: [serverDescriptionChangedEvent] }",
        part,
    )


def _case(case: str) -> str:
    case = _observed(_quiet(case)).replace(
        "        - appName: ", "        - on: primary\n          appName: "
    )
    if _CREATION.search(case):
        return _CREATION.sub(_and_known, case)
    return case.replace("    operations:\n", "    operations:\n" + _KNOWN % ("client", "client"), 1)


def _and_known(creation: re.Match[str]) -> str:
    made = _CLIENT.search(creation[0])
    return creation[0] if made is None else creation[0] + _KNOWN % (made[1], made[1])


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")

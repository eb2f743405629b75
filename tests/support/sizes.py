"""How much is done by the tests that draw or repeat: a table of sizes, and one variable that changes them.

`PUSHBACKD_TESTS=full` gives each its full size, `PUSHBACKD_TESTS=statements=100000` one of them that number;
several are separated by blanks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")

VARIABLE: Final = "PUSHBACKD_TESTS"


class SizeError(ValueError):
    """The variable names no size, or gives one no number."""


@dataclass(frozen=True, slots=True)
class Size:
    """A number that a test takes: by default, at full size, and of what."""

    default: int
    full: int
    unit: str


SIZES: Final = {
    "answers": Size(100, 3_000, "expressions, stages and updates that are compared, place by place"),
    "arrivals": Size(3_000, 1_000_000, "arrivals at a queue whose waits are compared with the formulas"),
    "bundled": Size(10, 100, "percent of the bundled files that PyMongo runs, with threads and without"),
    "chaos": Size(4, 60, "seconds in which servers die under clients: 8 of them, at full size 50"),
    "clients": Size(
        1, 3, "deployments that a program of a released driver meets: they take turns, or each does"
    ),
    "deployments": Size(
        0, 4, "deployments on which adapters run bundled scenarios: on one three folders, at full size all"
    ),
    "drawn": Size(0, 50, "drawn cases of the swarm through the adapter of each real driver"),
    "files": Size(1, 9, "ninths of a sample of the bundled files, which are recorded anew and run by URI"),
    "functional": Size(0, 1, "whether the public functional tests are run, where their checkout is"),
    "guides": Size(
        0, 1, "whether the long commands of the guides are run: a rule's proof, a limiter's sizing"
    ),
    "hunted": Size(1, 70, "applications with a planted bug that are hunted, with their correct twins"),
    "interruptions": Size(3, 200, "runs that are interrupted at a random instant"),
    "journals": Size(0, 1, "whether all folders of bundled scenarios are run twice, or one of them"),
    "measurements": Size(0, 1, "whether overload is simulated at its full length, and every benchmark begun"),
    "mutants": Size(0, 1, "whether each wrong driver, server and rule meets the test that it failed last"),
    "packets": Size(150, 10_000, "mutated packets"),
    "pages": Size(1, 4, "ways to read a page that axe sees: light on a desk or dark on a phone, or all"),
    "paths": Size(1, 3, "topologies on which the path of a command is compared with a walk of all stages"),
    "planted": Size(0, 200, "seeds that are searched for a planted fault; 0 runs the schedule that is kept"),
    "public": Size(3, 100, "percent of the public cases that PyMongo, and old editions and servers, run"),
    "reference": Size(
        20, 100, "percent of the public cases that the reference driver runs: of its own subjects it runs all"
    ),
    "seeds": Size(10, 1_000, "schedules of the swarm"),
    "stalls": Size(2_000, 20_000, "elements of a large request; all requests from 20000 on, a sample below"),
    "statements": Size(4_000, 40_000, "drawn statements"),
    "swarm": Size(24, 20_000, "drawn cases of the swarm for any driver, with the reference driver"),
    "waiting": Size(100, 5_000, "requests that wait while the control listener is asked"),
}


def size(name: str) -> int:
    """Return the size that a test takes. Raises `SizeError` for a variable that cannot be read."""
    return _sizes(os.environ.get(VARIABLE, ""))[name]


def some_of(deployments: Iterable[T], first: int) -> Sequence[T]:
    """Return as many deployments as a program of a released driver meets, from the first one on."""
    every = [*deployments]
    return [*every[first:], *every[:first]][: size("clients")]


def is_full(name: str) -> bool:
    """Return whether a test takes its full size, or more."""
    return size(name) >= SIZES[name].full


def in_full(name: str, because: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test unless it takes its full size, and says why, and how it is run."""
    reason = f"{because}: {VARIABLE}={name}={SIZES[name].full} runs it"
    return pytest.mark.skipif(not is_full(name), reason=reason)


def again(name: str) -> str:
    """Return the setting with which a shell repeats a test at its size of today."""
    return f"{VARIABLE}={name}={size(name)}"


def table() -> str:
    """Return the rows of the table of sizes in CONTRIBUTING.md."""
    rows = (f"| `{name}` | {each.default} | {each.full} | {each.unit} |" for name, each in SIZES.items())
    return "\n".join(rows) + "\n"


def _sizes(text: str) -> dict[str, int]:
    found = {name: each.default for name, each in SIZES.items()}
    for setting in text.split():
        if setting == "full":
            found |= {name: each.full for name, each in SIZES.items()}
            continue
        name, _, number = setting.partition("=")
        if name not in SIZES or not number.isdecimal():
            known = ", ".join(SIZES)
            raise SizeError(
                f"{VARIABLE}: {setting!r} is neither 'full' nor NAME=NUMBER with a name of {known}"
            )
        found[name] = int(number)
    return found

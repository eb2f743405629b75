"""The formats of test files: how a file of each is recognised, and what makes its cases run.

Most scenarios are in the unified test format. The other formats are older; they look at parts of a driver
(its pool, its view of the deployment, how it reads a connection string). Pools are asked of any adapter
that can drive one; of the other parts only a driver in this process can be asked: the reference driver.
Scenarios for servers (`fakeserver.load_scenario`) test nobody; they are told apart here because the two are
easily mistaken for each other.

This module stays light, because whoever looks for files asks it. `harness.formats.case` makes cases.

A file goes three ways. `declared_in` looks at its text, to tell the files of a folder that are tests from all
others, without parsing each. `format_of` looks at the parsed document, for its format. `case.cases_of` checks
it against `grammar`, imports what `Format.runs` names and returns its cases: `cmap` (pools), `discovery`
(monitoring), `selection` (choosing servers, three formats), `strings` (connection strings and concerns). The
executor then asks `case.run_alone` or `case.run_on_server`, and gets an outcome as of a unified test.

To add a format, enter it in `FORMATS` and its table in `grammar.SCHEMAS`, and write the function that makes
`Runs` of a case.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

__all__ = ["ADAPTERS", "FORMATS", "UNIFIED", "Format", "Marks", "declared_in", "format_of", "is_for_servers"]

ADAPTERS: Final = ("reference",)
"""The adapters whose drivers can be asked for their parts; each runs the cases of every format."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The fields by which a file shows its format: of the file, and of the elements of its `tests`."""

    of_file: tuple[str, ...]
    of_tests: tuple[str, ...] = ()

    def in_document(self, value: Any) -> bool:
        """Return whether a document has these fields."""
        if not isinstance(value, dict) or not value.keys() >= {*self.of_file}:
            return False
        return not self.of_tests or any(test.keys() >= {*self.of_tests} for test in _tests(value))

    def in_yaml(self, text: str) -> bool:
        """Return whether a text seems to have these fields; it need not be sound YAML.

        Regular expressions look for them: parsing YAML takes many times longer than reading it, and most
        files of a folder are none of ours. A mapping in braces has no margin to look at, so that there any
        depth will do.
        """
        find = _inside if text.lstrip().startswith("{") else _at_the_margin
        return all(find(name).search(text) for name in self.of_file) and all(
            _inside(name).search(text) for name in self.of_tests
        )

    def in_broken_json(self, text: str) -> bool:
        """Return whether a text mentions these fields somewhere.

        So that a test with a comma too many is an error that names its place, and not a file that nobody
        runs.
        """
        return all(f'"{name}"' in text for name in (*self.of_file, *self.of_tests))


@dataclass(frozen=True, slots=True)
class Format:
    """A format of test files: its name, what its cases are about, and its marks, of which any will do.

    `runs` names a function, `module:function`, that makes `Runs` of a case; the module is imported when a
    file of the format is read. With `in_tests`, the cases are the elements of `tests`, otherwise a file is a
    case.
    """

    name: str
    about: str
    marks: tuple[Marks, ...]
    runs: str = ""
    in_tests: bool = False


UNIFIED: Final = Format("unified", "operations, events and outcomes", (Marks(("schemaVersion",)),))

# The unified format is first: its mark is the only one that says what it is, so that other fields cannot make
# another format of such a file.
FORMATS: Final = (
    UNIFIED,
    Format(
        "cmap",
        "what a connection pool does",
        (Marks(("operations", "style")), Marks(("operations", "poolOptions"))),
        "harness.formats.cmap:runs",
    ),
    Format(
        "sdam",
        "discovery and monitoring",
        (Marks(("phases", "uri")), Marks(("phases", "description"))),
        "harness.formats.discovery:runs",
    ),
    Format(
        "in-window",
        "the least loaded server in the latency window",
        (Marks(("mocked_topology_state",)),),
        "harness.formats.selection:in_window",
    ),
    Format(
        "server-selection",
        "suitable servers",
        (Marks(("topology_description",)),),
        "harness.formats.selection:suitable_servers",
    ),
    Format(
        "rtt",
        "average round trip time",
        (Marks(("new_rtt_ms",)), Marks(("new_avg_rtt",))),
        "harness.formats.selection:round_trip_times",
    ),
    Format(
        "connection-string",
        "connection strings, their options, credentials and concerns",
        (Marks(("tests",), ("uri", "valid")),),
        "harness.formats.strings:runs",
        in_tests=True,
    ),
    Format(
        "concern",
        "read and write concerns as documents",
        (Marks(("tests",), ("readConcern", "valid")), Marks(("tests",), ("writeConcern", "valid"))),
        "harness.formats.strings:runs_of_concerns",
        in_tests=True,
    ),
)
"""All formats. A file is of the first whose marks it has."""


# A scenario for servers has this key at the top; in a unified test it stands in cases.
_FOR_SERVERS: Final = Marks(("pushbackd",))
_OF_SERVERS_ALONE: Final = (Marks(("rules",)), Marks(("faults",)), Marks(("timeline",)))


def is_for_servers(value: Any) -> bool:
    """Return whether a document is a scenario for servers: it says so, and has the marks of no test.

    One that has forgotten to say so is known by what only such a file has.
    """
    is_test = any(mark.in_document(value) for each in FORMATS for mark in each.marks)
    is_own = any(mark.in_document(value) for mark in (_FOR_SERVERS, *_OF_SERVERS_ALONE))
    return is_own and not is_test


def format_of(value: Any) -> Format:
    """Return the format of a document; one of no format is left to the unified one, to be refused."""
    return next((each for each in FORMATS if any(m.in_document(value) for m in each.marks)), UNIFIED)


def declared_in(text: str, *, is_json: bool, servers: bool = False) -> bool:
    """Return whether a file declares itself to be of a format. A broken file that seems to does.

    With `servers` it may also be a scenario for servers.
    """
    marks = [*(mark for each in FORMATS for mark in each.marks), *([_FOR_SERVERS] if servers else [])]
    if not is_json:
        return any(mark.in_yaml(text) for mark in marks)
    # Names that do not stand in the text cannot be fields: most files need no parsing at all.
    mentioned = [mark for mark in marks if mark.in_broken_json(text)]
    if not mentioned:
        return False
    try:
        # What mentions the fields and is no JSON is taken for a broken test, so that its author is told.
        value = json.loads(text)
    except ValueError:
        return True
    return any(mark.in_document(value) for mark in mentioned)


def _tests(value: dict[str, Any]) -> list[dict[str, Any]]:
    tests = value.get("tests")
    return [test for test in tests if isinstance(test, dict)] if isinstance(tests, list) else []


@cache
def _at_the_margin(name: str) -> re.Pattern[str]:
    """Return what finds a field of the outermost mapping of a YAML file."""
    return re.compile(rf"""^(["']?){name}\1\s*:""", re.MULTILINE)


@cache
def _inside(name: str) -> re.Pattern[str]:
    """Return what finds a field further inside, or of a mapping in braces."""
    return re.compile(rf"""(?:^[ \t]+|[-{{,]\s*)(["']?){name}\1\s*:""", re.MULTILINE)

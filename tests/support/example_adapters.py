"""The adapters of `examples/adapters`: how each is started, and what its tests need.

Those of compiled languages are built before the tests, by `examples/adapters/build.sh FOLDER`;
`PUSHBACKD_ADAPTERS` names that folder. `PUSHBACKD_RUBY_DRIVER` names the folder `lib` of the Ruby driver.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.adapters.base import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path(__file__).parents[2] / "examples" / "adapters"
BUILT = Path(os.environ.get("PUSHBACKD_ADAPTERS", "") or os.devnull)
MODULES = os.environ.get("PUSHBACKD_NODE_MODULES", "").split(os.pathsep)[0]
RUBY_DRIVER = os.environ.get("PUSHBACKD_RUBY_DRIVER", "")


@dataclass(frozen=True)
class Example:
    """An adapter: its command, the name and the features that it declares, and why it may be skipped."""

    language: str
    name: str
    words: tuple[str, ...]
    features: frozenset[Feature]
    absent: str = ""
    """Why it cannot run here; empty where it can."""
    races: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The checks of the contract that its driver passes by chance, or cannot pass, each with the reason."""
    lacks: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The checks of a feature that need an operation that its driver has not, each with that operation."""

    @property
    def command(self) -> str:
        """The words as a command line."""
        return shlex.join(self.words)

    @property
    def marks(self) -> Sequence[pytest.MarkDecorator]:
        """The marks of its tests."""
        return (pytest.mark.slow, pytest.mark.skipif(bool(self.absent), reason=self.absent))

    def param(self, *values: object) -> object:
        """Return a parameter of a test: the example, and values that belong to it."""
        return pytest.param(self, *values, id=self.language, marks=self.marks)


def _features(names: str) -> frozenset[Feature]:
    return frozenset(Feature[name] for name in names.split())


def _needs_built(language: str, program: str) -> str:
    if (BUILT / program).exists():
        return ""
    return (
        f"PUSHBACKD_ADAPTERS names no folder with the built {language} adapter (examples/adapters/build.sh)"
    )


def _needs_node() -> str:
    if shutil.which("node") is None:
        return "there is no node on this machine"
    if not MODULES or not (Path(MODULES) / "mongodb").is_dir():
        return "PUSHBACKD_NODE_MODULES names no folder with the Node driver (npm install mongodb@7)"
    return ""


def _needs_ruby() -> str:
    if shutil.which("ruby") is None:
        return "there is no ruby on this machine"
    if not RUBY_DRIVER or not (Path(RUBY_DRIVER) / "mongo.rb").exists():
        return "PUSHBACKD_RUBY_DRIVER names no folder with the Ruby driver (lib of the gem mongo 2.26)"
    return ""


_EVENTS = "COMMAND_EVENTS POOL_EVENTS SDAM_EVENTS LOG_MESSAGES "
_ENTITIES = "SESSIONS TRANSACTIONS CHANGE_STREAMS GRIDFS FIND_CURSORS CLIENT_BULK_WRITE SERVER_API "

PYTHON = Example(
    "python",
    "pymongo-example",
    (sys.executable, str(FOLDER / "python" / "adapter.py")),
    _features("COMMAND_EVENTS MAX_ADAPTIVE_RETRIES"),
    lacks={"concerns_and_preferences_are_those_that_were_asked_for": "database"},
)
NODE = Example(
    "node",
    "node",
    ("env", f"NODE_PATH={MODULES}", "node", str(FOLDER / "node" / "adapter.cjs")),
    _features(_EVENTS + _ENTITIES + "COMMAND_CURSORS POOLS MAX_ADAPTIVE_RETRIES"),
    _needs_node(),
)
GO = Example(
    "go",
    "go",
    (str(BUILT / "go-adapter"),),
    _features(_EVENTS + _ENTITIES + "COMMAND_CURSORS TIMEOUT_MS MAX_ADAPTIVE_RETRIES"),
    _needs_built("Go", "go-adapter"),
)
_LAST_HEARTBEATS = {
    "the_life_of_a_topology_is_observed_in_order": "the driver tells that a topology was closed while"
    " its monitors may still tell of a server",
}


_NO_CALLBACKS = "the driver has no withTransaction"


SHORT_RUNS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""What spares a virtual machine that ends after a minute a third of its work: one compiler, one collector."""


def _java(name: str, program: str, features: str, absent: Mapping[str, str]) -> Example:
    return Example(
        name,
        name,
        ("java", *SHORT_RUNS, "-cp", f"{BUILT / name}{os.pathsep}{BUILT / name / 'lib'}/*", program),
        _features(_EVENTS + _ENTITIES + "TIMEOUT_MS " + features),
        _needs_built("Java", name) or ("" if shutil.which("java") else "there is no java on this machine"),
        {**_LAST_HEARTBEATS, **absent},
    )


JAVA = _java("java", "Sync", "MAX_ADAPTIVE_RETRIES", {})
JAVA_REACTIVE = _java(
    "java-reactive",
    "Reactive",
    "",
    {
        "a_callback_runs_here_while_its_transaction_waits_there": _NO_CALLBACKS,
        "an_error_in_a_callback_is_the_drivers_own_again": _NO_CALLBACKS,
        "a_callback_that_fails_by_itself_aborts_and_says_why": _NO_CALLBACKS,
        "a_change_stream_asks_for_no_batch_before_it_is_iterated": (
            "a publisher is opened by a demand for its first change, and goes on until it has one"
        ),
    },
)
RUST = Example(
    "rust",
    "rust",
    (str(BUILT / "rust-adapter"),),
    _features(_EVENTS + _ENTITIES + "COMMAND_CURSORS TRACING MAX_ADAPTIVE_RETRIES"),
    _needs_built("Rust", "rust-adapter"),
    lacks=dict.fromkeys(
        (
            "bulk_writes_count_and_name_upserts_by_index",
            "a_bulk_write_that_fails_reports_what_it_did",
            "a_bulk_write_that_lost_its_connection_is_an_error_of_the_client",
        ),
        "bulkWrite",
    ),
)
C = Example(
    "c",
    "c",
    (str(BUILT / "c-adapter"),),
    _features(
        "COMMAND_EVENTS SDAM_EVENTS SESSIONS TRANSACTIONS CHANGE_STREAMS GRIDFS FIND_CURSORS COMMAND_CURSORS"
        " SERVER_API"
    ),
    _needs_built("C", "c-adapter"),
    lacks={
        "a_file_is_found_by_the_name_that_it_was_given_last": "downloadByName",
        "a_bucket_is_dropped_with_both_of_its_collections": "drop",
    },
)
RUBY = Example(
    "ruby",
    "ruby",
    ("ruby", "-I", RUBY_DRIVER, str(FOLDER / "ruby" / "adapter.rb")),
    _features(
        "COMMAND_EVENTS POOL_EVENTS SDAM_EVENTS SESSIONS TRANSACTIONS CHANGE_STREAMS GRIDFS FIND_CURSORS"
        " COMMAND_CURSORS TIMEOUT_MS SERVER_API MAX_ADAPTIVE_RETRIES"
    ),
    _needs_ruby(),
    lacks={"a_file_is_found_by_the_name_that_it_was_given_last": "rename"},
)
EXAMPLES = (PYTHON, NODE, GO, JAVA, JAVA_REACTIVE, RUST, C, RUBY)

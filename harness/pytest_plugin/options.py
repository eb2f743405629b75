"""The options of the plugin: the command line's, or else the ini file's. Read by each run of pytest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAME = "harness.pytest_plugin"
SUFFIXES = (".yml", ".yaml", ".json")
OPTIONS = {
    "adapter": (
        "driver to test: reference, pymongo, pymongo-async, or cmd: and a command line",
        ["reference"],
    ),
    "topology": (
        "topology to run on: single, replicaset, sharded, load-balanced (each also with +auth), all, matrix",
        ["replicaset"],
    ),
    "profile": ("MongoDB release that the servers imitate, from 4.2 to 9.0", ["8.2"]),
    "time": (
        "clock of the run: real or virtual; drivers that cannot run in virtual time run in real time",
        ["real"],
    ),
    "edition": ("edition of the specifications, for drivers that follow several", []),
    "seed": ("seed for every random choice", ["0"]),
    "reruns": ("how often a case that failed in real time runs again: a busy machine is late", ["2"]),
}
METAVARS = {"profile": "RELEASE", "time": "CLOCK", "edition": "DATE", "seed": "N", "reruns": "N"}
"""The words for the value of an option in the help; of others their name."""

DEPLOYMENT = {
    "uri": "connection string of servers to run on instead, or env; collections there are dropped",
    "uri-multi": "connection string of the load balancer of all mongos, where uri is of the balancer of one",
}


def ini_name(name: str) -> str:
    """Return the name of an option in the ini file."""
    return f"pushbackd_{name.replace('-', '_')}"


class PluginOptions:
    """The options of a run, and the files that opt in."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._opted_in: frozenset[Path] | None = None

    def values(self, name: str) -> Sequence[str]:
        """Return the values of an option: the command line's, or else the ini file's."""
        values: Sequence[str] = self.config.getoption(f"--pushbackd-{name}") or self.config.getini(
            ini_name(name)
        )
        return values

    def whole(self, name: str) -> int:
        """Return the value of an option that is a whole number. Raises `UsageError`."""
        text = self.values(name)[-1]
        try:
            return int(text)
        except ValueError as error:
            raise pytest.UsageError(f"pushbackd {name}: '{text}' is not a number") from error

    def text(self, name: str) -> str:
        """Return the value of an option that takes one: the command line's, or else the ini file's."""
        return str(self.config.getoption(f"--pushbackd-{name}") or self.config.getini(ini_name(name)))

    def given(self, name: str) -> str | None:
        """Return the value of an option, None where neither the command line nor the ini file has it."""
        option = self.config.getoption(f"--pushbackd-{name}")
        return str(option) if option is not None else str(self.config.getini(ini_name(name))) or None

    def opted_in(self, path: Path) -> bool:
        """Return whether a file is, or is below, what has opted in."""
        if self._opted_in is None:
            patterns, root = self.config.getini("pushbackd_scenarios"), self.config.rootpath
            named = [found for pattern in patterns for found in root.glob(pattern)]
            self._opted_in = frozenset(named or self._conftest_folders())
        # Of a scenario in both forms, YAML and JSON, the YAML counts.
        is_copy = path.suffix == ".json" and any(path.with_suffix(suffix).exists() for suffix in SUFFIXES[:2])
        return not self._opted_in.isdisjoint((path, *path.parents)) and not is_copy

    def _conftest_folders(self) -> Iterator[Path]:
        for plugin in self.config.pluginmanager.get_plugins():
            loaded = getattr(plugin, "pytest_plugins", ())
            if _NAME in ([loaded] if isinstance(loaded, str) else loaded):
                yield Path(plugin.__file__).parent

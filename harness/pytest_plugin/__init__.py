"""Scenarios as pytest items: each case of a file in the unified test format, or in another one, is a test.

Load the plugin with `pytest_plugins = ["harness.pytest_plugin"]` in the topmost conftest, or with
`-p harness.pytest_plugin`. Collected are files below the folder of that conftest, or those that the ini
option `pushbackd_scenarios` names (folders or globs), and files that are named on the command line. Other
YAML is never touched.

This module has the hooks and imports nothing slow, because pytest loads it in every run of a project.
`options` reads the command line and the ini file; `items` is imported when the first scenario is met, and
runs cases as `pushbackd conform` does in one process: the same plan, the same executor, the same
expectations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.pytest_plugin.options import DEPLOYMENT, METAVARS, OPTIONS, SUFFIXES, PluginOptions, ini_name

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN_OPTIONS = pytest.StashKey[PluginOptions]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--pushbackd-…` for one run and `pushbackd_…` for the ini file; both take several values."""
    group = parser.getgroup("pushbackd", "pushbackd: scenarios against drivers")
    for name, (help_text, default) in OPTIONS.items():
        group.addoption(
            f"--pushbackd-{name}",
            action="append",
            metavar=METAVARS.get(name, name.upper()),
            help=f"{help_text} (may be repeated)",
        )
        parser.addini(f"pushbackd_{name}", help_text, type="args", default=default)
    for name, help_text in DEPLOYMENT.items():
        group.addoption(f"--pushbackd-{name}", metavar="URI", help=help_text)
        parser.addini(ini_name(name), help_text, default="")
    parser.addini(
        "pushbackd_scenarios", "folders or globs of the scenario files to collect", type="args", default=[]
    )
    parser.addini("pushbackd_expectations", "file that lists the cases known to fail", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that every case carries. Raises `UsageError` for workers that share servers."""
    config.addinivalue_line("markers", "pushbackd: a case of a scenario")
    options = config.stash[PLUGIN_OPTIONS] = PluginOptions(config)
    # Workers of xdist would share the servers, and one case drops what another has just written.
    if options.text("uri") and config.getoption("dist", "no") != "no":
        raise pytest.UsageError("pushbackd uri: cases that run at the same time disturb each other: add -n 0")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print the options of the cases, so that a run can be repeated."""
    options = config.stash[PLUGIN_OPTIONS]
    words = (f"{name} {' '.join(options.values(name))}" for name in OPTIONS if options.values(name))
    where: list[str] = []
    for name in DEPLOYMENT:
        if uri := options.text(name):
            from harness.unified.uri import ConnectionString  # noqa: PLC0415 - most runs name no servers

            # The header is printed and kept by CI servers: passwords are left out.
            where.append(f"{name} {ConnectionString.of(uri).redacted() if '://' in uri else uri}")
    return [f"pushbackd: {', '.join((*words, *where))}"]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a scenario file that has opted in."""
    if file_path.suffix not in SUFFIXES:
        return None
    options = parent.config.stash[PLUGIN_OPTIONS]
    if not (parent.session.isinitpath(file_path) or options.opted_in(file_path)):
        return None
    from harness.pytest_plugin.items import collector  # noqa: PLC0415 - a run without scenarios loads no driver

    return collector(file_path, parent, options)

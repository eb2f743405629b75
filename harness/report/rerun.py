"""The commands that repeat one case, and explain it, with the same options.

Reports of every kind end a failure with these lines. They are built from the result and the settings of its
run, not from the command line that was typed, since results files and worker processes know only those. What
is default in `explain` is left out there, so that its line stays short; `conform` gets all of it, so that the
run is the same wherever it is repeated.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from fakeserver.profile import DEFAULT_PROFILE
from harness.adapters.registry import DRIVERS
from harness.deployments.targets import NO_SERVER, is_by_uri, profile_of, without_profile
from harness.explaining.text import shown
from harness.planning.discovery import bundled_root
from harness.unified.uri import ConnectionString

if TYPE_CHECKING:
    from harness.planning.plan import Settings
    from harness.planning.result import Result


def rerun_command(result: Result, settings: Settings) -> str:
    """Return the command that repeats this case."""
    words = [
        "pushbackd",
        "conform",
        shown(result.file),
        "--adapter",
        f"cmd:{command}" if (command := settings.command(result.adapter)) else result.adapter,
    ]
    if is_by_uri(result.topology):  # without a password
        multi = settings.uri_multi
        words += ["--uri", ConnectionString.of(settings.uri).redacted()]
        words += ["--uri-multi", ConnectionString.of(multi).redacted()] if multi else []
    elif result.topology != NO_SERVER:
        profile, scenario = profile_of(result.topology), settings.server_scenario
        words += ["--topology", without_profile(result.topology)]
        words += [] if profile == DEFAULT_PROFILE else ["--profile", profile]
        words += ["--server-scenario", scenario] if scenario else []
    seed = settings.seed if result.seed is None else result.seed
    words += ["--edition", result.edition, "--time", settings.time, "--seed", str(seed)]
    words += [] if result.schedule is None else ["--schedule", result.schedule]
    description = result.id.partition("::")[2]
    mark = next((mark for mark in "\"'" if mark not in description), None)
    # With both kinds of quotes in it, a description has no form for `-k`: the whole file runs.
    words += ["-k", f"{mark}{description}{mark}"] if mark else []
    return shlex.join(words)


def explain_command(result: Result, settings: Settings) -> str:
    """Return the command that explains this case, empty where `explain` cannot run it.

    It has no servers by URI, none of a scenario of their own, and no disturbances.
    """
    if is_by_uri(result.topology) or settings.server_scenario or result.schedule is not None:
        return ""
    is_bundled = Path(result.file).is_relative_to(bundled_root())
    name = result.group if is_bundled else shown(result.file)
    words = ["pushbackd", "explain", f"{name}::{result.id.partition('::')[2]}"]
    command, driver = settings.command(result.adapter), DRIVERS.get(result.adapter)
    profile = profile_of(result.topology)
    seed = settings.seed if result.seed is None else result.seed
    options = {
        "--adapter": f"cmd:{command}" if command else result.adapter,
        "--topology": "" if result.topology == NO_SERVER else without_profile(result.topology),
        "--profile": "" if profile == DEFAULT_PROFILE else profile,
        "--edition": result.edition if driver and result.edition != driver.editions[0] else "",
        "--time": "real" if driver and driver.virtual_time and settings.time == "real" else "",
        "--seed": str(seed or ""),
    }
    return shlex.join([*words, *(word for option in options.items() if option[1] for word in option)])

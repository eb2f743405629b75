"""The command that repeats one case, with the same options."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from fakeserver.profile import DEFAULT_PROFILE
from harness.deployments.targets import NO_SERVER, is_by_uri, profile_of, without_profile
from harness.explaining.text import shown
from harness.unified.uri import ConnectionString

if TYPE_CHECKING:
    from harness.running.plan import Settings
    from harness.running.result import Result


def rerun_command(result: Result, settings: Settings) -> str:
    """Return the command that repeats this case."""
    words = [
        "pushbackd",
        "conform",
        shown(result.file),
        "--adapter",
        f"cmd:{command}" if (command := settings.command(result.adapter)) else result.adapter,
    ]
    words += _where(result, settings) if result.topology != NO_SERVER else []
    seed = settings.seed if result.seed is None else result.seed
    words += ["--edition", result.edition, "--time", settings.time, "--seed", str(seed)]
    words += [] if result.schedule is None else ["--schedule", result.schedule]
    description = result.id.partition("::")[2]
    mark = next((mark for mark in "\"'" if mark not in description), None)
    words += ["-k", f"{mark}{description}{mark}"] if mark else []
    return shlex.join(words)


def _where(result: Result, settings: Settings) -> list[str]:
    """Return the options that name the deployment, without a password."""
    if not is_by_uri(result.topology):
        profile = profile_of(result.topology)
        where = ["--topology", without_profile(result.topology)]
        where += [] if profile == DEFAULT_PROFILE else ["--profile", profile]
        scenario = settings.server_scenario
        return [*where, "--server-scenario", scenario] if scenario else where
    multi = ["--uri-multi", ConnectionString.of(settings.uri_multi).redacted()] if settings.uri_multi else []
    return ["--uri", ConnectionString.of(settings.uri).redacted(), *multi]

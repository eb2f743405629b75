"""The command that runs one case again, just as it ran."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from fakeserver.profile import DEFAULT_PROFILE
from harness.report.text import shown
from harness.targets import NO_SERVER, is_by_uri, profile_of, without_profile
from harness.unified.uri import ConnectionString

if TYPE_CHECKING:
    from harness.plan import Settings
    from harness.result import Result


def command_again(result: Result, settings: Settings) -> str:
    """Return the command that runs this case again."""
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
        topology = ["--topology", without_profile(result.topology)]
        return topology if profile == DEFAULT_PROFILE else [*topology, "--profile", profile]
    multi = ["--uri-multi", ConnectionString.of(settings.uri_multi).redacted()] if settings.uri_multi else []
    return ["--uri", ConnectionString.of(settings.uri).redacted(), *multi]

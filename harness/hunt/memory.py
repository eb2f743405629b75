"""What earlier hunts of a command found: trials that failed come first, those that held come last.

So a hunt that was interrupted goes on where it ended, with single faults or with pairs of them; a bug that
is mended is seen first, and nothing that was tried once is taken for granted.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from harness.hunt.wishes import trial_written
from mongowire.documents.errors import ControlError
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.hunt.hunting import Report
    from harness.hunt.wire import Strike

SCHEMA: Final = "pushbackd-hunt-memory/1"
_FAILED: Final = "failed"
_HELD: Final = frozenset({"held", "reported"})
_ORDER: Final = {_FAILED: 0, "": 1}
_TRIED: Final = 2


def read(path: Path, command: str) -> dict[str, str]:
    """Return the status of each trial of that command, by the text of the trial.

    A file that is not there remembers nothing. Raises `OSError`, and `ValueError` for another file.
    """
    if not path.exists():
        return {}
    remembered: dict[str, str] = _commands(path).get(command, {})
    return dict(remembered)


def write(path: Path, command: str, report: Report) -> None:
    """Add the trials of a hunt to the file. Raises `OSError` and `ValueError`."""
    commands = _commands(path) if path.exists() else {}
    tried = {text_of(trial.strikes): trial.judgement.status for trial in report.trials}
    commands[command] = {**commands.get(command, {}), **tried}
    write_whole(
        path, json.dumps({"schema": SCHEMA, "commands": commands}, indent=1, ensure_ascii=False) + "\n"
    )


def ordered(plan: Sequence[tuple[Strike, ...]], remembered: Mapping[str, str]) -> list[tuple[Strike, ...]]:
    """Return the plan with failed trials first, new ones next, and those that held at the end."""
    return sorted(plan, key=lambda each: _ORDER.get(remembered.get(text_of(each), ""), _TRIED))


def is_tried(strikes: Sequence[Strike], remembered: Mapping[str, str]) -> bool:
    """Return whether an earlier hunt has tried this, without finding a bug."""
    return remembered.get(text_of(strikes), _FAILED) != _FAILED


def has_failed(strikes: Sequence[Strike], remembered: Mapping[str, str]) -> bool:
    """Return whether this has found a bug in an earlier hunt."""
    return remembered.get(text_of(strikes)) == _FAILED


def has_held(strikes: Sequence[Strike], remembered: Mapping[str, str]) -> bool:
    """Return whether the command has borne this in an earlier hunt, or told its user of it."""
    return remembered.get(text_of(strikes)) in _HELD


def failed_pairs(remembered: Mapping[str, str]) -> list[tuple[Strike, ...]]:
    """Return the pairs of faults that failed, but for those of faults that are no more."""
    found = []
    for text, status in remembered.items():
        with suppress(ValueError, ControlError):
            strikes = trial_written(text)
            if status == _FAILED and len(strikes) > 1:
                found.append(strikes)
    return found


def text_of(strikes: Sequence[Strike]) -> str:
    """Return a trial as `--only` takes it."""
    return " + ".join(map(str, strikes))


def _commands(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"{path} is no memory of hunts; name another file, or remove it")
    commands: dict[str, Any] = document["commands"]
    return commands

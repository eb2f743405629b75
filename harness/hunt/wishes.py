"""The wishes of a user, from the options of a hunt, and the memory of earlier hunts of the command.

Names and lines that a hunt has printed are read back. Trials that failed come first, those that held come
last: a hunt that was interrupted goes on where it ended, with single faults or with pairs of them; a bug that
is mended is seen first, and nothing that was tried once is taken for granted.

The memory is a JSON file of the schema `pushbackd-hunt-memory/1`: by command, and then by the text of a
trial, the status that it ended with. A trial whose text can no longer be read, because its fault is gone, is
passed over.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.hunt.faults import BY_NAME, FAULTS
from harness.hunt.places import Place
from harness.hunt.wire import Strike
from harness.world.processes import processors
from mongowire.documents.errors import ControlError, unknown
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.hunt.faults import Fault
    from harness.hunt.hunting import Report
    from harness.hunt.invariants import Invariants

SCHEMA: Final = "pushbackd-hunt-memory/1"
_FAILED: Final = "failed"
_HELD: Final = frozenset({"held", "reported"})
_ORDER: Final = {_FAILED: 0, "": 1}
_TRIED: Final = 2
_JOBS_PER_PROCESSOR: Final = 2
"""A trial waits for much of its time: for timers of drivers, and for faults to end."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The user's wishes for a hunt. `budget` is in seconds."""

    budget: float
    seed: int = 0
    jobs: int = 1
    confirmations: int = 10
    faults: tuple[Fault, ...] = FAULTS
    only: tuple[tuple[Strike, ...], ...] = ()
    invariants: Invariants | None = None
    pairs: bool = True
    """Pairs of faults are tried when every single one was."""
    first: bool = False
    """The hunt ends with the first bug that came again."""
    remembered: Mapping[str, str] = field(default_factory=dict)
    """The status of trials of earlier hunts, by their text."""
    goes_on: bool = True
    """Those hunts were of this command: what it has borne once is repeated after everything else."""
    besides: tuple[str, ...] = ()
    """The options without which a trial is another one, as the line that repeats it has them."""

    @property
    def of_this_command(self) -> Mapping[str, str]:
        """The memory of this command, and not of others that ask the same."""
        return self.remembered if self.goes_on else {}


def wishes_of(
    given: Mapping[str, Any], invariants: Invariants | None, remembered: Mapping[str, str]
) -> Wishes:
    """Return what the options ask for. Raises `ControlError` or `ValueError` for what they name."""
    names = given["faults"]
    return Wishes(
        given["budget"],
        given["seed"],
        given["jobs"] or processors() * _JOBS_PER_PROCESSOR,
        given["confirm"],
        FAULTS if names is None else tuple(fault_named(name.strip()) for name in names.split(",")),
        tuple(trial_written(each) for each in given["only"]),
        invariants,
        not given["singles"],
        given["first"],
        remembered,
    )


def fault_named(name: str) -> Fault:
    """Return the fault of that name. Raises `ControlError`."""
    if name not in BY_NAME:
        raise unknown("fault", name, BY_NAME)
    return BY_NAME[name]


def trial_written(text: str) -> tuple[Strike, ...]:
    """Return the strikes of a trial, from the form in which a hunt prints them. Raises `ValueError`."""
    strikes = []
    for part in text.split(" + "):
        name, at, place = part.partition(" @ ")
        if not at:
            raise ValueError(f"{part!r} is no trial; write it as a hunt prints it: FAULT @ PLACE")
        strikes.append(Strike(fault_named(name.strip()), Place.parse(place)))
    return tuple(strikes)


def recalled(path: Path, command: str) -> dict[str, str]:
    """Return the status of each trial of that command, by the text of the trial.

    A file that is not there remembers nothing. Raises `OSError`, and `ValueError` for another file.
    """
    if not path.exists():
        return {}
    remembered: dict[str, str] = _commands(path).get(command, {})
    return dict(remembered)


def remember(path: Path, command: str, report: Report) -> None:
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

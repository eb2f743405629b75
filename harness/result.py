"""What a run says of one case: a flat value that reports are made of and that crosses processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class ResultStatus(StrEnum):
    """The five ends of a case, after its expectations file has been heard."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    KNOWN_FAILING = "known-failing"
    """It failed, as its expectations file says."""
    UNEXPECTED_PASS = "unexpected-pass"  # noqa: S105 - a status, not a password
    """It passed, though its expectations file says that it fails: the entry is stale."""


class ExitCode(IntEnum):
    """How a run ends; 0 to 5 are pytest's."""

    PASSED = 0
    FAILED = 1
    BAD_INPUT = 2
    """A file cannot be read or is no valid scenario, or the user interrupted the run."""
    INTERNAL_ERROR = 3
    USAGE = 4
    NOTHING_RAN = 5
    UNEXPECTED_PASS = 6


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one case on one topology with one driver.

    `duration_ms` is measured on the clock that the case ran on, so in virtual time it depends on the seed
    only. `file` and `line` are the place that explains the result; `expected`, `actual`, `events` and
    `journal` are text, ready to be printed.
    """

    id: str
    status: ResultStatus
    topology: str
    adapter: str
    edition: str
    reason: str = ""
    duration_ms: float = 0.0
    file: str = ""
    line: int = 0
    server_version: str = ""
    mismatch: str = ""
    expected: str | None = None
    actual: str | None = None
    events: tuple[str, ...] = ()
    journal: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Return `file:line`, as editors and terminals understand it."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def group(self) -> str:
        """Return the part of the id that names the file: `spec/file`."""
        return self.id.partition("::")[0]

    def becomes(self, status: ResultStatus, reason: str) -> Result:
        """Return the same result under another judgement."""
        return replace(self, status=status, reason=reason)

    def to_dict(self) -> dict[str, Any]:
        """Return a document of plain values, which `from_dict` reads back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Result:
        """Read what `to_dict` wrote, also when JSON has made lists of tuples."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        values["status"] = ResultStatus(values["status"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many cases ended how, and what that makes of the run."""

    counts: Mapping[ResultStatus, int]

    @classmethod
    def of(cls, results: Iterable[Result]) -> Tally:
        """Count results."""
        counted = Counter(result.status for result in results)
        return cls({status: counted[status] for status in ResultStatus})

    def __getitem__(self, status: ResultStatus) -> int:
        return self.counts[status]

    @property
    def ran(self) -> int:
        """How many cases were run to some end."""
        return sum(self.counts.values()) - self.counts[ResultStatus.SKIPPED]

    @property
    def exit_code(self) -> ExitCode:
        """What the process returns when nothing but the cases can go wrong."""
        if self.counts[ResultStatus.FAILED]:
            return ExitCode.FAILED
        if self.counts[ResultStatus.UNEXPECTED_PASS]:
            return ExitCode.UNEXPECTED_PASS
        return ExitCode.PASSED if self.ran else ExitCode.NOTHING_RAN

    def __str__(self) -> str:
        said = (f"{count} {status.value}" for status, count in self.counts.items() if count)
        return ", ".join(said) or "no cases"

"""The result of one case: a flat value that reports are made of, and that crosses processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class ResultStatus(StrEnum):
    """The ends of a case, as its expectations file sees them."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    KNOWN_FAILING = "known-failing"
    """It failed, as its expectations file predicts."""
    UNEXPECTED_PASS = "unexpected-pass"  # noqa: S105 - a status, not a password
    """It passed, although its expectations file predicts a failure: the entry is stale."""
    NOT_RUN = "not-run"
    """The run ended before it, or in the middle of it."""


class ExitCode(IntEnum):
    """Exit codes; 0 to 5 are pytest's, but 4, those from 128 on are what shells report for a signal."""

    PASSED = 0
    FAILED = 1
    BAD_INPUT = 2
    """The command line is wrong, a file cannot be read or written, or servers do not answer."""
    INTERNAL_ERROR = 3
    NOTHING_RAN = 5
    UNEXPECTED_PASS = 6
    HUNG_UP = 129
    INTERRUPTED = 130
    """By Ctrl-C (SIGINT)."""
    NOBODY_READS = 141
    """The reader of standard output has gone (SIGPIPE), `head` for instance."""
    TERMINATED = 143


class Moment(NamedTuple):
    """One line of a case's timeline.

    `at` is in seconds since the case began. `side` is `test` (an operation of the scenario), `client` or
    `server`; `source` the entity, the client or the server's address. `about` is the command or operation
    concerned, if there is one, and `link` the request id by which a command that a client tells of and one
    that a server tells of are the same. `text` is for readers. `outcome` says how a command ended, in a few
    words: `ok`, `error 91`, `write error 11000`, `failed`; empty for everything else.
    """

    at: float
    side: str
    source: str
    kind: str
    about: str = ""
    link: int | None = None
    text: str = ""
    outcome: str = ""


EVENTS: Final = "events"
ATTEMPTS: Final = "attempts"


class Row(NamedTuple):
    """An expected event beside the actual one. The first row that is not `same` is the first divergence.

    `verdict` is `same`, `differs`, `missing` or `extra`; `client` the entity that observed, `line` where the
    expectation stands in the file, 0 where nothing was expected. `about` is `events`, or what servers saw:
    `attempts` (`client` names the commands and the operation), `connections` or `metrics`.
    """

    client: str
    verdict: str
    expected: str | None
    actual: str | None
    line: int = 0
    why: str = ""
    about: str = EVENTS


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one case on one topology with one driver.

    `duration_ms` is measured on the clock that the case ran on, so in virtual time it depends on the seed
    only. `file` and `line` explain the result; `mismatch`, `expected` and `actual` are
    text, ready to be printed. `comparison` aligns expected and actual events, `timeline` merges the events
    of the driver and of the servers, `causes` are likely ones; a result that needs no explanation has none.
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
    comparison: tuple[Row, ...] = ()
    timeline: tuple[Moment, ...] = ()
    causes: tuple[str, ...] = ()
    cause: str = ""
    """The name of the first of the likely causes, which other cases share ("no backoff")."""
    rules: tuple[str, ...] = ()
    """The ids of the rules that forbid it."""
    blame: str = ""
    """Whether it looks like the fault of the driver or of its adapter; empty where that cannot be told."""
    runs: int = 1
    """How often the case ran until this result; see `harness.running.run`, on late cases."""
    is_error: bool = False
    """Whether the driver could not be judged: its adapter was lost, the case hung, the scenario is wrong."""
    seed: int | None = None
    """The seed of this case, where it is not the run's."""
    schedule: str | None = None
    """The schedule that disturbed it (`harness.world.schedule`), None for nothing."""
    script: tuple[tuple[str, int, str], ...] = ()
    """What the scenario for servers had for this case: a rule, a fault or its steps by name, how often it
    happened, and what it is where that never did."""
    disturbed: tuple[str, ...] = ()
    """The effects of the schedule: a perturbation, two spaces, and the packets or tasks it met."""

    @property
    def location(self) -> str:
        """Return `file:line`, as editors and terminals understand it."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def group(self) -> str:
        """Return the part of the id that names the file: `spec/file`."""
        return self.id.partition("::")[0]

    @property
    def specification(self) -> str:
        """Return the part of the id that names the folder of the file."""
        return self.group.rpartition("/")[0] or self.group

    def becomes(self, status: ResultStatus, reason: str) -> Result:
        """Return the same result with another status."""
        return replace(self, status=status, reason=reason)

    def without_account(self) -> Result:
        """Return the same result without comparison and timeline, which take the most memory."""
        return replace(self, comparison=(), timeline=())

    def to_dict(self) -> dict[str, Any]:
        """Return a document of plain values, which `from_dict` reads back."""
        document = {name: getattr(self, name) for name in _FIELDS}
        document["comparison"] = [row._asdict() for row in self.comparison]
        document["timeline"] = [moment._asdict() for moment in self.timeline]
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Result:
        """Read what `to_dict` wrote, also when it has been JSON since. Raises `TypeError`, `ValueError`."""
        values = dict(document)
        values["status"] = ResultStatus(values["status"])
        values["comparison"] = tuple(Row(**row) for row in values.get("comparison", ()))
        values["timeline"] = tuple(Moment(**moment) for moment in values.get("timeline", ()))
        for name in ("causes", "rules"):
            values[name] = tuple(values.get(name, ()))
        values["disturbed"] = tuple(values.get("disturbed", ()))
        values["script"] = tuple(tuple(each) for each in values.get("script", ()))
        return cls(**values)


_FIELDS = tuple(field.name for field in fields(Result))


@dataclass(frozen=True, slots=True)
class Tally:
    """The numbers of cases by status, and the exit code of the run."""

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
        """The number of cases that were run to some end."""
        left_out = (ResultStatus.SKIPPED, ResultStatus.NOT_RUN)
        return sum(count for status, count in self.counts.items() if status not in left_out)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run in which nothing failed but cases."""
        if self.counts[ResultStatus.FAILED]:
            return ExitCode.FAILED
        if self.counts[ResultStatus.UNEXPECTED_PASS]:
            return ExitCode.UNEXPECTED_PASS
        if self.counts[ResultStatus.NOT_RUN]:
            return ExitCode.BAD_INPUT
        return ExitCode.PASSED if self.ran else ExitCode.NOTHING_RAN

    def __str__(self) -> str:
        said = (f"{count} {status.value}" for status, count in self.counts.items() if count)
        return ", ".join(said) or "no cases"

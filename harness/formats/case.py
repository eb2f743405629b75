"""One case of a format that drives parts of a driver, and how it complains.

A case of these formats has no entities and no adapter's operations: it is a document and a function that
compares. `require` is nearly all of that; it keeps the place in the file with what is compared, so that a
failure points at the line of the expectation. Outcomes are those of the unified runner, and so are ids,
timelines and reports.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from driver.errors import DriverError
from harness.adapters.base import OperationFailed, UnsupportedOperation
from harness.formats import UNIFIED, format_of, is_for_servers
from harness.formats.grammar import check
from harness.unified.build import build, case_names, decoded, id_prefix
from harness.unified.errors import ScenarioError
from harness.unified.matching.matcher import Mismatch
from harness.unified.model import UNSET, Case, TestFile
from harness.unified.outcome import CaseFailedError, CaseOutcome, CaseSkippedError, Status
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from pathlib import Path

    from harness.adapters.base import DriverAdapter, Event
    from harness.adapters.deployment import Deployment
    from harness.unified.account import Account
    from harness.unified.matching.comparison import Comparison
    from mongowire.documents.marks import Marked


DRIVER: Final = "driver"
"""The name under which what the driver published stands in a timeline."""


@dataclass(slots=True)
class Notes:
    """What is kept of a case while it runs: what was done, what the driver published, how events compare."""

    account: Account
    heard: list[Event] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A timeline asks for what was heard when it is drawn, at the end, and not when the case begins.
        self.account.clients[DRIVER] = lambda: tuple(self.heard)


Alone: TypeAlias = Callable[[Notes], None]
OnServer: TypeAlias = "Callable[[Deployment, DriverAdapter, Notes], Awaitable[None]]"


@dataclass(frozen=True, slots=True)
class Runs:
    """What runs a case: the reference driver's parts without any server, a driver on a deployment, or both.

    Both raise CaseFailedError, CaseSkippedError and ScenarioError. With `reference_alone`, the reference
    driver runs the case without a server only. `seconds` is how long it waits by its own account.
    """

    alone: Alone | None = None
    on_server: OnServer | None = None
    reference_alone: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class FormatCase:
    """A case: its id, which is `spec/file::description` as in the unified test format, and what runs it."""

    id: str
    description: str
    index: int
    document: Marked
    runs: Runs

    @property
    def path(self) -> Path:
        """The file."""
        return self.document.path

    @property
    def line(self) -> int:
        """The line where the case begins."""
        return self.document.mark.line

    @property
    def location(self) -> Location:
        """Where the case begins."""
        return self.document.location


@dataclass(frozen=True, slots=True)
class FormatFile:
    """A file of such a format, which has passed validation."""

    path: Path
    cases: tuple[FormatCase, ...]


def failure(expected: Marked, why: str, *, wanted: Any = UNSET, actual: Any = UNSET) -> CaseFailedError:
    """Return the error for an expectation that is not met, with its place in the file.

    `wanted` and `actual` are left out where no two values differ, such as for an error that was not expected.
    """
    mismatch = Mismatch(expected.field, wanted, actual, why)
    return CaseFailedError(str(mismatch), location=expected.location, mismatch=mismatch)


def require(expected: Marked, actual: Any, *, wanted: Any = UNSET, of: str = "") -> None:
    """Raise CaseFailedError unless a value is what stands in the file, or `wanted`, which follows from it."""
    value = expected.value if wanted is UNSET else wanted
    if actual != value:
        whose = f"{of}: " if of else ""
        raise failure(expected, f"{whose}expected {value!r}, got {actual!r}", wanted=value, actual=actual)


# Runs cases of the formats that drive parts of a driver, and says how they ended.


# The endings of a case. Any other exception is a mistake in this program, and is not made a failure of the
# driver.
_ENDS = (
    *(CaseFailedError, CaseSkippedError, ScenarioError),
    *(DriverError, OperationFailed, UnsupportedOperation),
)


def run_alone(case: FormatCase, account: Account) -> CaseOutcome:
    """Run a case that needs no server; `account` keeps what was done and seen."""
    assert case.runs.alone is not None
    notes = Notes(account)
    try:
        case.runs.alone(notes)
    except _ENDS as error:
        return _ended(case, error, notes)
    return CaseOutcome(Status.PASSED, **_seen(notes))


async def run_on_server(
    case: FormatCase, deployment: Deployment, adapter: DriverAdapter, account: Account
) -> CaseOutcome:
    """Run a case on a deployment with a driver, which is left open; `account` as above."""
    assert case.runs.on_server is not None
    notes = Notes(account)
    try:
        await case.runs.on_server(deployment, adapter, notes)
    except _ENDS as error:
        return _ended(case, error, notes)
    return CaseOutcome(Status.PASSED, **_seen(notes))


def _seen(notes: Notes) -> dict[str, Any]:
    return {"events": notes.account.heard(), "comparisons": tuple(notes.comparisons)}


def _ended(case: FormatCase, error: Exception, notes: Notes) -> CaseOutcome:
    """Return the outcome of a case that an error ended.

    What an adapter has not is skipped, and what a file states wrongly is an error of the file (`ERROR`): only
    what the driver did otherwise, or raised, is a failure.
    """
    seen = _seen(notes)
    match error:
        case CaseSkippedError() | UnsupportedOperation():
            return CaseOutcome(Status.SKIPPED, str(error), location=case.location)
        case CaseFailedError():
            place = error.location or case.location
            return CaseOutcome(Status.FAILED, error.reason, error.mismatch, place, **seen)
        case ScenarioError():
            hint = f" ({error.fix})" if error.fix else ""
            place = error.location or case.location
            return CaseOutcome(Status.ERROR, f"{error.message}{hint}", location=place, **seen)
        case _:
            why = f"the driver raised {type(error).__name__}: {error}"
            return CaseOutcome(Status.FAILED, why, location=case.location, **seen)


# From a document of any format to its cases.


AnyCase: TypeAlias = Case | FormatCase
AnyFile: TypeAlias = TestFile | FormatFile


def cases_of(document: Marked) -> AnyFile:
    """Check a document as its format asks for, and return its cases. Raises `ScenarioError`.

    The unified format is built by its own module. Of the others each value is decoded from extended JSON
    once, for all cases; those without a description are called by the subject of the format, with a number
    where they are several.
    """
    if is_for_servers(document.value):
        raise ScenarioError(
            "is a scenario for servers, and tests no driver",
            location=Location(document.path, 1, 1),
            fix="--server-scenario runs tests on such servers, `pushbackd serve --scenario` runs them alone",
        )
    of = format_of(document.value)
    check(document, of)
    if of is UNIFIED:
        return build(document)
    make_runs = resolve_name(of.runs)
    plain = replace(document, value=decoded(document))
    nodes = plain["tests"].items() if of.in_tests else (plain,)
    names = case_names([node.value.get("description", of.about) for node in nodes])
    prefix = id_prefix(document.path)
    return FormatFile(
        document.path,
        tuple(
            FormatCase(f"{prefix}::{name}", name, index, node, make_runs(node))
            for index, (name, node) in enumerate(zip(names, nodes, strict=True))
        ),
    )

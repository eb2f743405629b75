"""The plan of a run: each case with each driver on each deployment, in an order that never changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from harness.deployments.targets import NO_SERVER
from harness.formats import ADAPTERS
from harness.formats.case import cases_of
from harness.lint.engine import flaws
from harness.planning.result import Result, ResultStatus
from harness.unified import loops
from harness.unified.errors import ScenarioError
from harness.unified.loader import read
from harness.unified.model import Case, Flaw, TestFile, nested
from harness.world import interruption
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.formats.case import AnyCase, AnyFile
    from harness.unified.model import EntitySpec, Operation

Time: TypeAlias = Literal["real", "virtual"]
Detail: TypeAlias = Literal["failures", "all"]


_MOST_RETRIES = 5

LEAST_WALL_LIMIT = 60.0
"""Seconds of the wall clock that every case in virtual time may take."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that all items of a run share.

    `case_timeout` and `loop_seconds` are in seconds of the clock that cases run on; loops also end after
    `loop_iterations`, and with `interrupt_ends_loops` at the first Ctrl-C. `journal_dir` is empty when no
    journals are wanted. `commands` are pairs: the name of an adapter that is a process of its own, and its
    command line; `drivers` are the names of adapters and the driver's own name with its version, where that
    is known. `detail` says which results carry a timeline: those of `failures`, or of `all` cases; with
    `wire` it includes every message between drivers and servers.
    `uri` is the connection string of servers that the run does not start, and `uri_multi` that of all their
    mongos where the two differ; where `uri` is empty, the run starts fake servers. `least_wall_limit` is in
    seconds of the wall clock, for cases in virtual time. `server_scenario` is the file or the name of a
    scenario for the fake servers, which are then started anew for each case; empty for none. `trace` is the
    file that the dialogue with adapters in processes of their own is added to, empty for none.
    """

    time: Time = "real"
    seed: int = 0
    case_timeout: float = 60.0
    journal_dir: str = ""
    loop_iterations: int = loops.ITERATIONS
    loop_seconds: float = loops.SECONDS
    interrupt_ends_loops: bool = False
    commands: tuple[tuple[str, str], ...] = ()
    drivers: tuple[tuple[str, str], ...] = ()
    detail: Detail = "failures"
    wire: bool = False
    uri: str = field(default="", repr=False)
    uri_multi: str = field(default="", repr=False)
    least_wall_limit: float = LEAST_WALL_LIMIT
    server_scenario: str = ""
    trace: str = ""

    @property
    def wall_limit(self) -> float:
        """The seconds of the wall clock after which a case counts as hung, apart from its own clock.

        In virtual time a healthy case takes a fraction of a second. The limit is far from that, so that no
        result depends on the machine, also where `case_timeout` is short.
        """
        return self.case_timeout if self.time == "real" else max(self.least_wall_limit, self.case_timeout)

    def command(self, adapter: str) -> str | None:
        """Return the command line of an adapter that is a process of its own, or else None."""
        return dict(self.commands).get(adapter)

    def driver(self, adapter: str) -> str:
        """Return the name and the version of an adapter's driver (`nodejs 7.9.0`), empty if unknown."""
        return dict(self.drivers).get(adapter, "")

    def to_dict(self) -> dict[str, Any]:
        """Return a document of plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Settings:
        """Return the settings that `to_dict` made a document of, also when it has been JSON since."""
        pairs = {
            name: tuple((adapter, text) for adapter, text in document.get(name, ()))
            for name in ("commands", "drivers")
        }
        return cls(**{**document, **pairs})


@dataclass(frozen=True, slots=True)
class Item:
    """One case with one driver, in one edition of the specifications, on one deployment.

    `topology` is the deployment's name (`deployments.targets`), such as `single+auth`, or `NO_SERVER`.
    `seed` is its own where that is not the run's; `schedule` disturbs it (`flake_lab.schedule`), None for
    nothing.
    """

    id: str
    path: str
    index: int
    adapter: str
    edition: str
    topology: str
    seed: int | None = None
    schedule: str | None = None

    def case(self) -> AnyCase:
        """Return the case itself, from its file."""
        return loaded(self.path).cases[self.index]

    @property
    def flaw(self) -> str:
        """A complaint about a case that cannot be used; empty for one that can."""
        case = self.case()
        return case.flaw.complaint if isinstance(case, Case) and case.flaw else ""

    def result(self, status: ResultStatus, reason: str) -> Result:
        """Return a result for an item that did not get to an end of its own."""
        line = self.case().line
        return Result(
            *(self.id, status, self.topology, self.adapter, self.edition, reason),
            file=self.path,
            line=line,
            seed=self.seed,
            schedule=self.schedule,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a document of plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Load:
    """The scenario files that could be read, and a complaint for each that could not."""

    files: tuple[AnyFile, ...]
    complaints: tuple[str, ...]

    @property
    def cases(self) -> Iterable[AnyCase]:
        """All cases, in order."""
        return (case for file in self.files for case in file.cases)


@cache
def loaded(path: str) -> AnyFile:
    """Return a scenario file, read once in each process; its cases know their flaws.

    Raises `ScenarioError` for a file that its format's schema refuses.
    """
    document = read(Path(path))
    file = cases_of(document)
    if not isinstance(file, TestFile):
        return file
    cases = list(file.cases)
    for index, findings in flaws(document).items():
        first = findings[0]
        flaw = Flaw(
            "; ".join(f"{each.message}{each.hint and f' ({each.hint})'}" for each in findings),
            Location(Path(first.path), first.line, first.column),
            "\n".join(map(str, findings)),
        )
        cases[index] = replace(cases[index], flaw=flaw)
    return replace(file, cases=tuple(cases))


def forget() -> None:
    """Have files read anew: they may have changed."""
    loaded.cache_clear()


def load_all(paths: Iterable[Path]) -> Load:
    """Read all files; one that is broken does not hide the others."""
    files: list[AnyFile] = []
    complaints: list[str] = []
    for path in paths:
        interruption.check()
        try:
            files.append(loaded(str(path)))
        except ScenarioError as error:
            complaints.append(str(error))
    return Load(tuple(files), tuple(complaints))


def plan(
    cases: Iterable[AnyCase],
    *,
    drivers: Mapping[str, str],
    topologies: Sequence[str],
    wanted: Callable[[str], bool] = lambda _: True,
) -> tuple[Item, ...]:
    """Return the items of a run, in the order of its report; `drivers` maps adapters to editions.

    Cases of other formats than the unified one that need no server are for the drivers of
    `harness.formats.ADAPTERS`, and run once, whatever the topologies. Those of pools are for every driver.
    """
    chosen = [case for case in cases if wanted(case.id)]
    return tuple(
        Item(case.id, str(case.path), case.index, adapter, edition, topology)
        for adapter, edition in drivers.items()
        for topology in (*topologies, NO_SERVER)
        for case in chosen
        if _belongs(case, adapter, topology)
    )


def _belongs(case: AnyCase, adapter: str, topology: str) -> bool:
    """Return whether a case is for a driver on a deployment."""
    if isinstance(case, Case):
        return topology != NO_SERVER
    if topology == NO_SERVER:
        return adapter in ADAPTERS and case.runs.alone is not None
    return case.runs.on_server is not None and not (case.runs.reference_alone and adapter in ADAPTERS)


def left_out(
    cases: Iterable[AnyCase], drivers: Iterable[str], wanted: Callable[[str], bool] = lambda _: True
) -> str:
    """Return a sentence on the cases that some of the drivers cannot be asked, or nothing."""
    count = sum(
        not isinstance(case, Case) and case.runs.on_server is None and wanted(case.id) for case in cases
    )
    others = [name for name in drivers if name not in ADAPTERS]
    if not (count and others):
        return ""
    which = "1 case of another format is" if count == 1 else f"{count} cases of other formats are"
    return f"{which} for {' and '.join(ADAPTERS)} only, not for {', '.join(others)} (docs/FORMATS.md)"


def longest_first(items: Mapping[int, Item]) -> list[int]:
    """Return the indexes of the items in the order to start them: no long one is left for the end."""

    def length(index: int) -> int:
        case = items[index].case()
        return cost(case) + (_backoff(case) if isinstance(case, Case) else 0)

    return sorted(items, key=lambda index: (-length(index), index))


def cost(case: AnyCase) -> int:
    """Return a guess at a case's length: the milliseconds that it waits, and one for each operation."""
    if not isinstance(case, Case):
        return 1 + round(case.runs.seconds * 1000)
    return sum(1 + _waits(operation) for operation in case.operations)


def _backoff(case: Case) -> int:
    """Return a guess at the milliseconds that a driver waits before the retries that fail points cause."""
    waits = always = 0
    for operation in case.operations:
        fail_point = operation.arguments.get("failPoint")
        data = fail_point.get("data") if isinstance(fail_point, dict) else None
        labels = data.get("errorLabels") if isinstance(data, dict) else None
        if not isinstance(labels, list) or "SystemOverloadedError" not in labels:
            refusals = 0
        else:
            refusals = min(_MOST_RETRIES, _times(operation, _MOST_RETRIES))
        if refusals and operation.arguments["failPoint"].get("mode") == "alwaysOn":
            always = _mean_backoff(refusals)
        elif refusals:
            waits += _mean_backoff(refusals)
        elif operation.name == "repeat":
            inside = operation.arguments.get("operations", ())
            waits += always * len(inside) * _milliseconds(operation.arguments.get("times"))
        elif operation.object != "testRunner":
            waits += always
    return waits


def _mean_backoff(retries: int) -> int:
    """Client Backpressure: half of 100 ms, which double with each retry."""
    return 50 * ((1 << retries) - 1)


def allowance(case: AnyCase) -> float:
    """Return how long a case waits by its own account, in seconds.

    That is what it waits and blocks, each block as often as its fail point counts (`alwaysOn`: once for each
    operation), and how long its clients may look for a server.
    """
    if not isinstance(case, Case):
        return case.runs.seconds
    operations = tuple(nested(case.operations))
    waits = sum(_waits(each) * _times(each, len(operations)) for each in operations)
    entities: list[EntitySpec] = [*case.entities]
    for each in operations:
        if each.name == "createEntities":
            entities += each.arguments.get("entities", ())
    options = (entity.body.get("uriOptions", {}) for entity in entities)
    return (waits + sum(_milliseconds(each.get("serverSelectionTimeoutMS")) for each in options)) / 1000


def _times(operation: Operation, most: int) -> int:
    """Return how often a fail point acts."""
    fail_point = operation.arguments.get("failPoint")
    mode = fail_point.get("mode") if isinstance(fail_point, dict) else None
    if isinstance(mode, dict):
        return _milliseconds(mode.get("times", 1))
    return most if mode == "alwaysOn" else 1


def _waits(operation: Operation) -> int:
    if operation.name == "wait":
        return _milliseconds(operation.arguments.get("ms"))
    fail_point = operation.arguments.get("failPoint")
    data = fail_point.get("data") if isinstance(fail_point, dict) else None
    return _milliseconds(data.get("blockTimeMS")) if isinstance(data, dict) else 0


def _milliseconds(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0

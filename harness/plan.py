"""What a run is made of: each case with each driver on each topology, in an order that never changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from harness.lint.engine import flaws
from harness.result import Result, ResultStatus
from harness.unified.build import build
from harness.unified.errors import ScenarioError
from harness.unified.loader import read
from harness.unified.model import Operation
from harness.unified.schema import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.unified.model import Case, EntitySpec, TestFile

Time: TypeAlias = Literal["real", "virtual"]
Detail: TypeAlias = Literal["failures", "all"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What all items of a run share.

    `case_timeout` is in seconds of the clock that cases run on; `journal_dir` is empty when no journals are
    wanted. `commands` are pairs: the name of an adapter that is a process of its own, and its command line.
    `detail` says which results carry what happened: those of `failures`, or of `all` cases; with `wire` that
    includes every message between drivers and servers.
    """

    time: Time = "real"
    seed: int = 0
    case_timeout: float = 60.0
    journal_dir: str = ""
    commands: tuple[tuple[str, str], ...] = ()
    detail: Detail = "failures"
    wire: bool = False

    def command(self, adapter: str) -> str | None:
        """Return the command line of an adapter that is a process of its own, or else None."""
        return dict(self.commands).get(adapter)

    def to_dict(self) -> dict[str, Any]:
        """Return a document of plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Settings:
        """Return the settings that `to_dict` made a document of, also when it has been JSON since."""
        commands = tuple((name, command) for name, command in document["commands"])
        return cls(**{**document, "commands": commands})


@dataclass(frozen=True, slots=True)
class Item:
    """One case with one driver, in one edition of the specifications, on one deployment.

    `topology` is the deployment's name (`harness.targets`), which may end in `+auth`.
    """

    id: str
    path: str
    index: int
    adapter: str
    edition: str
    topology: str

    def case(self) -> Case:
        """Return the case itself, from its file."""
        return loaded(self.path).cases[self.index]

    def result(self, status: ResultStatus, reason: str) -> Result:
        """Return a result for an item that did not get to an end of its own."""
        line = self.case().line
        return Result(
            self.id, status, self.topology, self.adapter, self.edition, reason, file=self.path, line=line
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a document of plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Load:
    """The scenario files that could be read, and a complaint for each that could not."""

    files: tuple[TestFile, ...]
    complaints: tuple[str, ...]
    flaws: Mapping[Path, str] = field(default_factory=dict)
    """Why no run of a file can go well, for those files of which that is certain."""

    @property
    def cases(self) -> Iterable[Case]:
        """All cases, in order."""
        return (case for file in self.files for case in file.cases)


def loaded(path: str) -> TestFile:
    """Return a scenario file, read once in each process. Raises `ScenarioError`."""
    return _loaded(path)[0]


def forget() -> None:
    """Have files read anew: they may have changed."""
    _loaded.cache_clear()


@cache
def _loaded(path: str) -> tuple[TestFile, str]:
    """Return a scenario file with its flaws."""
    document = read(Path(path))
    check(document)
    return build(document), "\n".join(map(str, flaws(document)))


def load_all(paths: Iterable[Path]) -> Load:
    """Read all files; one that is broken does not hide the others."""
    files: list[TestFile] = []
    complaints: list[str] = []
    flawed: dict[Path, str] = {}
    for path in paths:
        try:
            file, flawed[path] = _loaded(str(path))
            files.append(file)
        except ScenarioError as error:
            complaints.append(str(error))
    return Load(tuple(files), tuple(complaints), {path: why for path, why in flawed.items() if why})


def plan(
    cases: Iterable[Case],
    *,
    drivers: Mapping[str, str],
    topologies: Sequence[str],
    wanted: Callable[[str], bool] = lambda _: True,
) -> tuple[Item, ...]:
    """Return the items of a run, in the order of its report; `drivers` maps adapters to editions."""
    chosen = [case for case in cases if wanted(case.id)]
    return tuple(
        Item(case.id, str(case.path), case.index, adapter, edition, topology)
        for adapter, edition in drivers.items()
        for topology in topologies
        for case in chosen
    )


def longest_first(items: Mapping[int, Item]) -> list[int]:
    """Return the places of the items in the order to start them: no long one is left for the end."""
    return sorted(items, key=lambda place: (-cost(items[place].case()), place))


def cost(case: Case) -> int:
    """Return a guess at a case's length: the milliseconds that it waits, and one for each operation."""
    return sum(1 + _waits(operation) for operation in case.operations)


def allowance(case: Case) -> float:
    """Return how long a case waits by its own account, in seconds.

    That is what it waits and blocks, each block as often as its fail point counts (`alwaysOn`: once for each
    operation), and how long its clients may look for a server.
    """
    operations = tuple(_nested(case.operations))
    waits = sum(_waits(each) * _times(each, len(operations)) for each in operations)
    options = (spec.body.get("uriOptions", {}) for spec in _clients(case, operations))
    return (waits + sum(_milliseconds(each.get("serverSelectionTimeoutMS")) for each in options)) / 1000


def _nested(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations, and those inside callbacks and on threads."""
    for operation in operations:
        yield operation
        inside = operation.arguments.get("callback", ())
        yield from _nested(inside if isinstance(inside, tuple) else ())
        on_thread = operation.arguments.get("operation")
        yield from _nested((on_thread,) if isinstance(on_thread, Operation) else ())


def _clients(case: Case, operations: Iterable[Operation]) -> Iterator[EntitySpec]:
    yield from case.entities
    for operation in operations:
        if operation.name == "createEntities":
            yield from operation.arguments.get("entities", ())


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

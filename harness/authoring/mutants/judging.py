"""Runs cases in a process that is a mutant, or that is watched for the functions that a case calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.running.executor import ItemExecutor
from harness.running.plan import Item, Settings
from harness.running.result import ResultStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

SETTINGS: Final = Settings(time="virtual")


def judge(
    documents: Sequence[Mapping[str, Any]], report: Callable[[tuple[Any, ...]], None], *, stops: bool
) -> None:
    """Run items in their order and report each that fails; with `stops`, end with the first one."""
    with ItemExecutor(SETTINGS) as executor:
        for index, document in enumerate(documents):
            report(("begins", index))
            result = executor.run(Item(**document))
            if result.status is ResultStatus.FAILED:
                report(("killed", index, result.reason.strip().partition("\n")[0]))
                if stops:
                    break
    report(("ended",))


def watch(items: Iterable[Item], reached: set[str]) -> Iterator[tuple[ResultStatus, frozenset[str]]]:
    """Run items, and yield the status of each with the names that it has added to `reached`."""
    with ItemExecutor(SETTINGS) as executor:
        for item in items:
            reached.clear()
            status = executor.run(item).status
            yield status, frozenset(reached)

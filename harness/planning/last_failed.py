"""The cases that failed the last time that they ran, as pytest remembers them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.planning.result import ResultStatus
from harness.world.cache_folder import read_cached, write_cached

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.planning.plan import Item
    from harness.planning.result import Result

_NAME: Final = "last-failed.json"
_BAD: Final = frozenset({ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS})


class FailedCase(NamedTuple):
    """A case that failed the last time that it ran: its file, its id, and what it ran with."""

    path: Path
    id: str
    adapter: str
    edition: str
    topology: str


def failed_cases() -> tuple[FailedCase, ...]:
    """Return the cases that are remembered, and whose files are still there."""
    cases = []
    for key in _known():
        path, _, rest = key.partition("\n")
        words = rest.rsplit("\n", 3)  # an id may have several lines
        if len(words) == len(FailedCase._fields) - 1 and Path(path).is_file():
            cases.append(FailedCase(Path(path), *words))
    return tuple(cases)


def _key(item: Item) -> str:
    words = (str(Path(item.path).absolute()), item.id, item.adapter, item.edition, item.topology)
    return "\n".join(words)


def _known() -> dict[str, None]:
    document = read_cached(_NAME)
    return dict.fromkeys(map(str, document)) if isinstance(document, list) else {}


def last_failed(items: Sequence[Item]) -> tuple[tuple[Item, ...], str]:
    """Return the items to run, and a sentence on them: those that failed, or all if none of them did."""
    known = _known()
    chosen = tuple(item for item in items if _key(item) in known)
    if chosen:
        return chosen, f"runs {len(chosen)} of {len(items)} cases: those that failed the last time"
    why = "no case failed the last time" if not known else "no case that failed the last time is among these"
    return tuple(items), f"{why}: runs all"


def remember(ended: Iterable[tuple[Item, Result]]) -> None:
    """Remember which cases failed. What did not run keeps its place, and nothing is written that is known."""
    before = _known()
    failed = dict(before)
    for item, result in ended:
        if result.status in _BAD:
            failed[_key(item)] = None
        elif result.status is not ResultStatus.NOT_RUN:
            failed.pop(_key(item), None)
    if failed.keys() != before.keys():
        write_cached(_NAME, list(failed))

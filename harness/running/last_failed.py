"""The cases that failed the last time that they ran, as pytest remembers them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.running.cache_folder import read_cached, write_cached
from harness.running.result import ResultStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.running.plan import Item
    from harness.running.result import Result

_NAME: Final = "last-failed.json"
_BAD: Final = frozenset({ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS})


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

"""Coroutines that a signal cancels: `harness.world.interruption` for commands that load asyncio anyway."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from harness.world.interruption import cancels, check, politely

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

T = TypeVar("T")


@contextmanager
def cancelling() -> Iterator[None]:
    """Run a loop in the block, with a coroutine that is `heard`. Raises `Interrupted` if it was cancelled."""
    with politely():
        try:
            yield
        except asyncio.CancelledError:
            check()
            raise


async def heard(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that the first signal cancels."""
    task = asyncio.current_task()
    assert task is not None
    with cancels(task):
        return await coroutine


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own, as `asyncio.run` does. Raises `Interrupted`."""
    with cancelling():
        return asyncio.run(heard(main))

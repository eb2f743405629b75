"""Calls of PyMongo for the operations of the format: arguments, time limit, result."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pymongo

from harness.adapters.base import Invocation, OperationFailed, UnsupportedOperation
from harness.adapters.pymongo import results
from harness.adapters.pymongo.arguments import snake

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping


NO_CURSOR_TIMEOUT: Final = (
    "PyMongo has no timeoutMS for the life of a cursor or a change stream (skipped by its own suite too)"
)


async def settled(result: Any) -> Any:
    """Return what a method of either API gives: the asynchronous one's coroutines are awaited."""
    return await result if inspect.isawaitable(result) else result


async def same(result: Any) -> Any:
    """Return a result as it is."""
    return result


async def nothing(_result: Any) -> None:
    """Forget a result that the format does not describe."""


async def drained(cursor: Any) -> list[Any]:
    """Read a cursor to its end."""
    documents: list[Any] = await settled(cursor.to_list())
    return documents


def plain(convert: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return a result's conversion as the table has it."""

    async def finish(result: Any) -> Any:
        return convert(result)

    return finish


@dataclass(frozen=True, slots=True)
class PyMongoMethod:
    """One method: what it takes under which name, and what becomes of its result."""

    method: str | Callable[..., Any]
    """The name of a method of the handle, or a function that takes the handle."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    finish: Callable[[Any], Awaitable[Any]] = same
    takes_timeout: bool = True
    """Whether a time limit for this call alone is what `timeoutMS` means; for a cursor it is not."""

    async def __call__(self, call: Invocation[Any]) -> Any:
        """Call it on the target. Raises PyMongo's errors, and `UnsupportedOperation` for an argument."""
        if "timeoutMS" in call.arguments and not self.takes_timeout:
            raise UnsupportedOperation(NO_CURSOR_TIMEOUT)
        name, target = self.method, call.target
        method = getattr(target, name) if isinstance(name, str) else partial(name, target)
        with timeout(call.arguments):
            result = method(**snake(call.without("timeoutMS"), self.arguments))
            return await self.finish(await settled(result))


def timeout(arguments: Mapping[str, Any]) -> Any:
    """PyMongo's way to limit the time of one operation by its `timeoutMS`; zero is no limit."""
    if "timeoutMS" not in arguments:
        return nullcontext()
    limit_ms = arguments["timeoutMS"]
    return pymongo.timeout(None if limit_ms is None else limit_ms / 1000)


class PeekedCursor:
    """A cursor with at most one document read ahead: PyMongo sends `find` only when it is first iterated."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._ahead: list[Any] = []

    async def start(self) -> None:
        """Have the cursor created on the server."""
        document = await self.try_next()
        if document is not None:
            self._ahead.append(document)

    async def next(self) -> Any:
        """Return the next document, however long it takes. Raises an error when there is none."""
        document = await self.try_next()
        while document is None:
            if not self._cursor.alive:
                raise OperationFailed(results.exhausted())
            document = await self.try_next()
        return document

    async def try_next(self) -> Any:
        """Return the next document of this batch or, if it is at its end, of one more, or None."""
        if self._ahead:
            return self._ahead.pop()
        if hasattr(self._cursor, "try_next"):
            return await settled(self._cursor.try_next())
        try:
            return await settled(self._cursor.next())
        except (StopIteration, StopAsyncIteration):
            return None

    async def close(self) -> None:
        """Close the cursor on the server too."""
        await settled(self._cursor.close())

"""The check of a coroutine that it is made where it can be awaited: on the deployment's loop."""

from __future__ import annotations

from asyncio import _get_running_loop
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

P = ParamSpec("P")
T = TypeVar("T")


def on_loop(function: Callable[P, Coroutine[object, object, T]]) -> Callable[P, Coroutine[object, object, T]]:
    """Raise `RuntimeError`, where no loop runs, instead of returning a coroutine that nobody awaits.

    A deployment in a thread hands out its servers, and `server.primary.kill()` would do nothing at all.
    """

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Coroutine[object, object, T]:
        if _get_running_loop() is None:
            name = function.__qualname__
            raise RuntimeError(
                f"{name} is awaited on the deployment's loop; of a BackgroundCluster, pass it to `run`"
                f" (`server.run(server.node('primary').kill)`) or use a verb of its `control`"
            )
        return function(*args, **kwargs)

    return checked

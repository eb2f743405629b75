"""Calls into libraries that take long and have no yield points: they run on a thread beside the event loop.

The caller waits on its stack (`waiting.interrupts`) and gives way to others meanwhile. Only for a call of
which nobody else sees anything: it gets values and returns one. Where no request can give way, as in virtual
time, it is called as it is, so that runs repeat.
"""

from __future__ import annotations

import functools
import importlib
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fakeserver.waiting.interrupts import check_for_interrupt, may_give_way

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_MOMENT: Final = 0.002
"""Seconds that the event loop waits for the thread before it looks at everybody else."""


class _Call:
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.result: object = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True, name="beside")
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # noqa: BLE001 -- raised where it was called
            self.error = error


def beside(call: Callable[[], T]) -> T:
    """Return what `call` returns, or raise what it raises, and let others have their turns until then.

    Raises `CommandError` for what ends the request; the call then ends by itself, unheard.
    """
    if not may_give_way():
        return call()
    made = _Call(call)
    made.thread.join(_MOMENT)
    while made.thread.is_alive():
        check_for_interrupt()
        made.thread.join(_MOMENT)
    if made.error is not None:
        raise made.error
    return made.result  # type: ignore[return-value]


@functools.cache
def library_beside(name: str) -> Any:
    """Return a module, which is loaded beside the event loop.

    Raises `CommandError` for what ends the request meanwhile. The thread goes on loading then: until it is
    done, the module stands half made in `sys.modules`, and only the lock of imports keeps others off it.
    """
    return beside(lambda: importlib.import_module(name))

"""Processes that end with the test that started them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, AnyStr

if TYPE_CHECKING:
    from types import TracebackType


class Started(subprocess.Popen[AnyStr]):
    """A process that is killed when its block fails; `Popen` would wait for its end, and with it the test."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, traceback)

"""Listening to loggers for a while, whatever level they were set to; they are the process's.

A logger's level belongs to the whole process, and several taps may listen to one logger, as when two clients
of a case observe the same component. So the first tap keeps the level, and only the last one to close
restores it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_levels: Final[dict[str, int]] = {}
"""What the loggers that are listened to were set to before."""


class LoggerTap(logging.Handler):
    """Hears every record of some loggers, until it is closed. Subclasses say what becomes of it."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(logging.DEBUG)
        self._loggers = [logging.getLogger(name) for name in names]
        for logger in self._loggers:
            _levels.setdefault(logger.name, logger.level)
            logger.setLevel(logging.DEBUG)
            logger.addHandler(self)

    def close(self) -> None:
        """Stop listening, and leave the loggers as they were when nobody else listens; twice is allowed."""
        for logger in self._loggers:
            logger.removeHandler(self)
            if not any(isinstance(handler, LoggerTap) for handler in logger.handlers):
                logger.setLevel(_levels.pop(logger.name, logger.level))
        super().close()

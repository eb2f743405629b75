"""The components that log, and how the environment has them do so (`Logging`).

Each component is a logger: `pushbackd.command` and its kin. A program sets levels and handlers as for any
other library; for one that cannot be changed there are environment variables.
"""

from __future__ import annotations

import logging
import os
import sys
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = "pushbackd"
DEFAULT_DOCUMENT_LENGTH: Final = 1000


class Component(Enum):
    """Logging: Components. The value is the name in the specifications."""

    COMMAND = "command"
    TOPOLOGY = "topology"
    SERVER_SELECTION = "serverSelection"
    CONNECTION = "connection"

    @property
    def logger(self) -> logging.Logger:
        """Python's logger of the component."""
        return logging.getLogger(f"{ROOT}.{self.value}")


def shows_connections() -> bool:
    """Return whether messages about pools and their connections reach anybody."""
    return _CONNECTION.isEnabledFor(logging.DEBUG)


_CONNECTION: Final = Component.CONNECTION.logger

VARIABLES: Final = {
    Component.COMMAND: "MONGODB_LOG_COMMAND",
    Component.TOPOLOGY: "MONGODB_LOG_TOPOLOGY",
    Component.SERVER_SELECTION: "MONGODB_LOG_SERVER_SELECTION",
    Component.CONNECTION: "MONGODB_LOG_CONNECTION",
}
ALL: Final = "MONGODB_LOG_ALL"
PATH: Final = "MONGODB_LOG_PATH"
DOCUMENT_LENGTH: Final = "MONGODB_LOG_MAX_DOCUMENT_LENGTH"

OFF: Final = logging.CRITICAL + 1
SEVERITIES: Final = {
    "off": OFF,
    "emergency": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "critical": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "notice": logging.INFO,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
"""Logging: Log Severity Levels. One that Python lacks is the next less severe, or else the next."""


def levels(environment: Mapping[str, str]) -> dict[Component, int]:
    """Return the levels that an environment sets. A component's own variable wins over that for all.

    A value that makes no sense is as good as none.
    """
    everywhere = SEVERITIES.get(environment.get(ALL, "").lower())
    chosen = {
        component: SEVERITIES.get(environment.get(variable, "").lower(), everywhere)
        for component, variable in VARIABLES.items()
    }
    return {component: level for component, level in chosen.items() if level is not None}


def document_length(environment: Mapping[str, str]) -> int:
    """Return after how many characters documents are cut off (Logging: Configurable Max Document Length)."""
    text = environment.get(DOCUMENT_LENGTH, "")
    return int(text) if text.isdecimal() else DEFAULT_DOCUMENT_LENGTH


def handler(environment: Mapping[str, str]) -> logging.Handler:
    """Return where messages go: `stdout`, `stderr` or a file's end; `stderr` if that cannot be opened."""
    path = environment.get(PATH, "stderr")
    if path.lower() == "stdout":
        return logging.StreamHandler(sys.stdout)
    if path.lower() != "stderr":
        try:
            return logging.FileHandler(path, encoding="utf-8")
        except OSError:
            pass
    return logging.StreamHandler(sys.stderr)


def configure(environment: Mapping[str, str]) -> logging.Handler | None:
    """Have the loggers do what an environment asks for; return the handler that was added, if any."""
    asked = levels(environment)
    for component, level in asked.items():
        component.logger.setLevel(level)
    if all(level == OFF for level in asked.values()):
        return None
    added = handler(environment)
    added.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger(ROOT).addHandler(added)
    return added


@cache
def configure_once() -> None:
    """Do what the process's environment asks for, when the first client is made."""
    configure(os.environ)

"""Checks of the fields of scenarios: numbers within their bounds."""

from __future__ import annotations

import math


def positive(owner: object, *names: str) -> None:
    """Raise `ValueError` for a field that is not a number above 0."""
    for name in names:
        value = getattr(owner, name)
        if not 0 < value < math.inf:
            raise ValueError(f"{type(owner).__name__}.{name} is {value}: it must be above 0")


def not_negative(owner: object, *names: str) -> None:
    """Raise `ValueError` for a field below 0."""
    for name in names:
        value = getattr(owner, name)
        if not 0 <= value < math.inf:
            raise ValueError(f"{type(owner).__name__}.{name} is {value}: it must be 0 or more")


def at_least(owner: object, least: int, *names: str) -> None:
    """Raise `ValueError` for a field below `least`."""
    for name in names:
        value = getattr(owner, name)
        if value < least:
            raise ValueError(f"{type(owner).__name__}.{name} is {value}: it must be {least} or more")

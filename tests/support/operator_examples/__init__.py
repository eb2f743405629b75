"""What the manual's page of each operator shows, as small cases of our own: an input and the answer to it.

Each table has for an operator one case or more. `ABSENT` is the answer of what yields no value, and
`Refused` that of what a server refuses.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, NamedTuple


class Refused(NamedTuple):
    """An answer: the code of the refusal."""

    code: int


ABSENT: Final = object()


def day(text: str) -> dt.datetime:
    """Return a date in UTC, as BSON dates are decoded."""
    return dt.datetime.fromisoformat(text)


Document = dict[str, Any]

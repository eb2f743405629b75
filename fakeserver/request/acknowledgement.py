"""The acknowledgement that a write waits for, once it has run (`Read and Write Concern: writeConcern`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakeserver.idl.write_concern import WriteConcern


@dataclass(slots=True)
class Acknowledgement:
    """The wait of a write for its concern."""

    concern: WriteConcern
    until: float | None = None
    """The instant of `wtimeout`, counted from the beginning of the wait; None before it."""

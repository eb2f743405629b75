"""Entries of a record of the wire: values, in the order of their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from mongowire.connection import Envelope


class Accepted(NamedTuple):
    """A client connected. `connection` counts from 1; `server` is a member's or mongos' name."""

    seq: int
    at: float
    connection: int
    server: str
    peer: str


class Received(NamedTuple):
    """A message came from a client; `role` is what the server was then: primary, secondary, mongos …."""

    seq: int
    at: float
    connection: int
    envelope: Envelope
    role: str


class Sent(NamedTuple):
    """A message went to a client."""

    seq: int
    at: float
    connection: int
    envelope: Envelope


class Closed(NamedTuple):
    """A connection ended; `by` says which side closed it first."""

    seq: int
    at: float
    connection: int
    by: Literal["client", "server"]


Entry: TypeAlias = Accepted | Received | Sent | Closed

"""Access control: users, roles, privileges, and the conversations that prove a password."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class UserSpec:
    """A user that a deployment is started with.

    `db` is the database that it belongs to (`authSource`), `$external` for one that comes with a client
    certificate and has no password. `roles` are names on that database (on admin, where it has no
    such role), or documents `{role, db}`.
    """

    name: str
    password: str | None = field(default=None, repr=False)
    db: str = "admin"
    roles: Sequence[str | Mapping[str, str]] = ("root",)
    mechanisms: tuple[str, ...] = ("SCRAM-SHA-1", "SCRAM-SHA-256")

    def __post_init__(self) -> None:
        """Refuse a user that no server would store."""
        if not self.name:
            raise ValueError("a user's name must not be empty")
        if (self.password is None) != (self.db == "$external"):
            raise ValueError(f"user {self.name!r}: a password is for every database but $external")

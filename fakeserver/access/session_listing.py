"""The sessions that `$listSessions` and `$listLocalSessions` show to a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields, type_name
from fakeserver.sessions.session import uid_of
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.access.session import Identity

_USER: Final = Fields.of(Field("user", "string", required=True), Field("db", "string", required=True))
_OPTIONS: Final = Fields.of(Field("users", "array", of=_USER), Field("allUsers", "bool"))


class SessionListing(NamedTuple):
    """Everybody's sessions (None), those of users, or (nobody) of whoever asks: by the digests of names."""

    uids: frozenset[bytes] | None

    @classmethod
    def parse(cls, stage: str, argument: Any) -> SessionListing:
        """Return what a stage asks for. Raises `CommandError` 14, 9, 40414, 40415 or 12."""
        if not isinstance(argument, dict):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"{stage} options must be specified in an object, but found: {type_name(argument)}",
            )
        options = dict(argument)
        _OPTIONS.check(options, stage)
        users = options.get("users") or ()
        if not options.get("allUsers"):
            return cls(frozenset(uid_of(each["user"], each["db"]) for each in users))
        if users:
            raise CommandError(
                ErrorCode.UNSUPPORTED_FORMAT,
                f"{stage} may not specify {{allUsers:true}} and {{users:[...]}} at the same time",
            )
        return cls(None)

    def is_of(self, identity: Identity) -> bool:
        """Return whether it is of a client's own sessions alone."""
        return self.uids is not None and all(uid == identity.session_uid for uid in self.uids)

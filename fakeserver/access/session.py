"""Who a connection is authenticated as, and what that permits."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from fakeserver.access.roles import CLUSTER, Privilege, Resource

if TYPE_CHECKING:
    from fakeserver.access.scram import ScramConversation
    from fakeserver.access.users import User, UserStore

_BYPASS: Final = (
    Privilege(Resource("admin"), frozenset({"createUser", "createRole", "grantRole"})),
    Privilege(CLUSTER, frozenset({"addShard", "hostInfo", "replSetConfigure", "replSetGetStatus"})),
)
"""What a local client may do while there are no users: make the first one (localhost exception)."""


class Identity:
    """The users of one connection, one for each database, and the conversation that is under way."""

    def __init__(self) -> None:
        self.conversation: ScramConversation | None = None
        self._names: dict[str, str] = {}
        self._known: tuple[int, bool, bool, tuple[Privilege, ...]] | None = None
        """What was worked out last: the store's version, the bypass, whether anybody is there, privileges."""

    def log_in(self, user: User) -> None:
        """Take note of a user; one of the same database is replaced."""
        self._names[user.db] = user.name
        self._known = None

    def log_out(self, db: str) -> None:
        """Forget the user of a database."""
        self._names.pop(db, None)
        self._known = None

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """Who is authenticated: pairs of a database and the user's name."""
        return frozenset(self._names.items())

    def users(self, store: UserStore) -> list[User]:
        """Return the users as they are now: one that was dropped is authenticated no more."""
        found = [store.find(name, db) for db, name in self._names.items()]
        return [user for user in found if user is not None]

    def is_known(self, store: UserStore, *, bypass: bool) -> bool:
        """Whether anybody is authenticated, or `bypass` (the localhost exception) stands in."""
        return self._current(store, bypass=bypass)[2] or bypass

    def privileges(self, store: UserStore, *, bypass: bool) -> tuple[Privilege, ...]:
        """Return what the connection may do; `bypass` adds the localhost exception."""
        return self._current(store, bypass=bypass)[3]

    def _current(self, store: UserStore, *, bypass: bool) -> tuple[int, bool, bool, tuple[Privilege, ...]]:
        known = self._known
        if known is None or known[0] != store.version or known[1] is not bypass:
            users = self.users(store)
            roles = [role for user in users for role in user.roles]
            privileges = store.privileges(roles) + (_BYPASS if bypass else ())
            self._known = known = (store.version, bypass, bool(users), privileges)
        return known


def is_local(peer: str) -> bool:
    """Say whether a peer, `host:port`, is on this machine; memory is."""
    host = peer.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True

"""The identity of a connection: its authenticated users, and the privileges that they have together."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.access.privileges import CLUSTER, Privilege, Privileges, Resource
from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields, type_name
from fakeserver.sessions.session import uid_of
from mongowire.codes import ErrorCode
from mongowire.framing import MAX_MESSAGE_SIZE

if TYPE_CHECKING:
    from fakeserver.access.scram import ScramConversation
    from fakeserver.access.users import User, UserStore
    from fakeserver.settings.server_parameters import ServerParameters


_BYPASS: Final = (
    Privilege(Resource("admin"), frozenset({"createUser", "createRole", "grantRole"})),
    Privilege(CLUSTER, frozenset({"addShard", "hostInfo", "replSetConfigure", "replSetGetStatus"})),
)
"""The rights of a local client while there are no users: make the first one (localhost exception)."""
_NO_USER: Final = "Logical sessions require authentication"
_MANY_USERS: Final = "Logical sessions can't have multiple authenticated users"


class Identity:
    """The users of one connection, one for each database, and the conversation that is under way."""

    def __init__(self) -> None:
        self.conversation: ScramConversation | None = None
        self._names: dict[str, str] = {}
        self._uid: bytes | None = None
        self._known: tuple[int, bool, bool, Privileges] | None = None
        """The last result: the store's version, the bypass, whether anybody is there, privileges."""

    def log_in(self, user: User) -> None:
        """Take note of a user; one of the same database is replaced."""
        self._names[user.db] = user.name
        self._known = self._uid = None

    def log_out(self, db: str) -> None:
        """Forget the user of a database."""
        self._names.pop(db, None)
        self._known = self._uid = None

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """The authenticated users: pairs of a database and a name."""
        return frozenset(self._names.items())

    @property
    def session_uid(self) -> bytes:
        """The digest of its user's name, which makes sessions its own. Raises `CommandError` 13.

        A session needs a user, and one alone.
        """
        if self._uid is None:
            if len(self._names) != 1:
                raise CommandError(ErrorCode.UNAUTHORIZED, _NO_USER if not self._names else _MANY_USERS)
            ((db, name),) = self._names.items()
            self._uid = uid_of(name, db)
        return self._uid

    @property
    def session_user(self) -> str:
        """Its user as sessions name it: `name@db`."""
        return ", ".join(f"{name}@{db}" for db, name in sorted(self._names.items()))

    def largest_message(self, parameters: ServerParameters) -> int:
        """Return how many bytes a message may have: few, as long as nobody has logged in."""
        if self._names:
            return MAX_MESSAGE_SIZE
        size: int = parameters["preAuthMaximumMessageSizeBytes"]
        return size

    def users(self, store: UserStore) -> list[User]:
        """Return the users as they are now: one that was dropped is authenticated no more."""
        found = [store.find(name, db) for db, name in self._names.items()]
        return [user for user in found if user is not None]

    def is_known(self, store: UserStore, *, bypass: bool) -> bool:
        """Return whether anybody is authenticated, or `bypass` (the localhost exception) stands in."""
        return self._current(store, bypass=bypass)[2] or bypass

    def privileges(self, store: UserStore, *, bypass: bool) -> Privileges:
        """Return what the connection may do; `bypass` adds the localhost exception."""
        return self._current(store, bypass=bypass)[3]

    def _current(self, store: UserStore, *, bypass: bool) -> tuple[int, bool, bool, Privileges]:
        known = self._known
        if known is None or known[0] != store.version or known[1] is not bypass:
            users = self.users(store)
            roles = [role for user in users for role in user.roles]
            privileges = Privileges(store.privileges(roles) + (_BYPASS if bypass else ()))
            self._known = known = (store.version, bypass, bool(users), privileges)
        return known


def is_local(peer: str) -> bool:
    """Return whether a peer, `host:port`, is on this machine; memory is."""
    host = peer.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


_USER: Final = Fields.of(Field("user", "string", required=True), Field("db", "string", required=True))
_OPTIONS: Final = Fields.of(Field("users", "array", of=_USER), Field("allUsers", "strictBool"))


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
        if isinstance(options.get("users"), list):
            options["users"] = [each for each in options["users"] if each is not None]
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


# The state of one connection on a server.


class ConnectionState:
    """The client of one connection. `id` is the `connectionId` of its hello replies."""

    def __init__(self, connection_id: int, peer: str, accepted: float) -> None:
        self.id = connection_id
        self.peer = peer
        self.accepted = accepted
        """The instant of its acceptance, on the node's clock."""
        self.thread_name = f"conn{connection_id}"
        self.metadata: dict[str, Any] | None = None
        self.exemption: tuple[int, bool, bool] | None = None
        """The last decision about exemption from the request rate limiter, after the facts it rests on."""
        self.app_name = ""
        self.internal_client = False
        self.hello_ok = False
        self.compressors: tuple[str, ...] | None = None
        self.identity = Identity()
        self.last_error: dict[str, Any] = {}
        """The reply of the client's last write, for `getLastError`."""
        self.secure = False
        self.certificate_subject: str | None = None
        """Whom the client's certificate was made out to, as RFC 2253 writes it."""
        self.balanced = False
        """Whether it came through a load balancer."""
        self.has_priority = False
        """Whether it came through the port for operators, where no limit applies."""
        self.limit_exempt = False
        """Whether the limit of open connections does not apply to it."""
        self.greeted = False
        """Whether it has said hello."""
        self.hang_up = False
        """Set while a command runs: close instead of answering it."""

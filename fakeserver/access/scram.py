"""The server's side of SCRAM, with MongoDB's peculiarities around the library (`Authentication: SCRAM`).

The password of SCRAM-SHA-1 is the hexadecimal MD5 digest of `user:mongo:password`, that of SCRAM-SHA-256 the
password itself after SASLprep.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from fakeserver.access.users import User
    from mongowire.ports import Rng

SHA_1: Final = "SCRAM-SHA-1"
SHA_256: Final = "SCRAM-SHA-256"
MECHANISMS: Final = (SHA_1, SHA_256)
_SALT_BYTES: Final = {SHA_1: 16, SHA_256: 28}
_NONCE_BYTES: Final = 24
_SHORTEST_NONCE: Final = 4
_CONVERSATION_ID: Final = 1


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """A stored password: enough to check one, not to know it."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def document(self) -> dict[str, Any]:
        """Return them as `usersInfo` with `showCredentials` shows them."""
        texts = {"salt": self.salt, "storedKey": self.stored_key, "serverKey": self.server_key}
        encoded = {name: b64encode(value).decode() for name, value in texts.items()}
        return {"iterationCount": self.iterations, **encoded}


def _scramp() -> ModuleType:
    """Return the library of the mechanisms."""
    import scramp  # noqa: PLC0415 - slow to import, needed with users only

    module: ModuleType = scramp
    return module


def digest(user: str, password: str) -> str:
    """Return the password of SCRAM-SHA-1."""
    return hashlib.md5(f"{user}:mongo:{password}".encode(), usedforsecurity=False).hexdigest()


def make_keys(
    mechanism: str, user: str, password: str, *, iterations: int, rng: Rng, digested: bool = False
) -> ScramKeys:
    """Derive the keys of a password; `digested` says that it is the digest for SCRAM-SHA-1 already.

    Raises `CommandError` 2 BadValue for a password that SASLprep refuses.
    """
    scramp = _scramp()
    secret = digest(user, password) if mechanism == SHA_1 and not digested else password
    salt = rng.randbytes(_SALT_BYTES[mechanism])
    try:
        return ScramKeys(*scramp.ScramMechanism(mechanism).make_auth_info(secret, iterations, salt))
    except scramp.ScramException as error:
        raise CommandError(ErrorCode.BAD_VALUE, f"Error preflighting normalization: {error}") from error


class ScramConversation:
    """One attempt of a client, from `saslStart` to its end."""

    def __init__(self, mechanism: str, db: str, *, skip_empty_exchange: bool) -> None:
        self.mechanism = mechanism
        self.db = db
        self.user_name = ""
        self.user: User | None = None
        self._skips = skip_empty_exchange
        self._proven = False
        self._server: Any = None

    @property
    def proven(self) -> bool:
        """Whether the client has shown that it knows the password."""
        return self._proven

    def start(self, payload: bytes, find: Callable[[str, str], User | None], rng: Rng) -> dict[str, Any]:
        """Answer the client's first message. Raises `CommandError` 18 or 334."""
        scramp = _scramp()
        first = _text(payload)
        # The first message is `n,,n=<user>,r=<nonce>`, with commas and equals signs of the name escaped.
        parts = first.split(",")
        fields = {part[:1]: part[2:] for part in parts[2:] if part[1:2] == "="}
        if not fields.get("n") or len(fields.get("r", "")) < _SHORTEST_NONCE:
            raise failed()
        self.user_name = fields["n"].replace("=2C", ",").replace("=3D", "=")
        self.user = find(self.user_name, self.db)
        if self.user is None:
            raise failed()
        keys = self.user.credentials.get(self.mechanism)
        if keys is None:
            raise CommandError(
                ErrorCode.MECHANISM_UNAVAILABLE,
                f"Unable to use {self.mechanism} based authentication for user without any"
                f" {self.mechanism} credentials registered",
            )
        known = (keys.salt, keys.stored_key, keys.server_key, keys.iterations)
        nonce = b64encode(rng.randbytes(_NONCE_BYTES)).decode()
        try:
            self._server = scramp.ScramMechanism(self.mechanism).make_server(lambda _: known, s_nonce=nonce)
            # The library would look a user up by the prepared name; a server takes names as they are.
            self._server.set_client_first(first)
            return self._reply(self._server.get_server_first())
        except (scramp.ScramException, ValueError) as error:
            raise failed() from error

    def go_on(self, conversation_id: Any, payload: bytes) -> dict[str, Any]:
        """Answer the client's next message. Raises `CommandError` 17 or 18."""
        if conversation_id != _CONVERSATION_ID:
            raise CommandError(ErrorCode.PROTOCOL_ERROR, "sasl: Mismatched conversation id")
        if self._proven:
            # Whatever it holds: Java's old driver sends the server's signature back.
            return self._reply("", done=True)
        try:
            self._server.set_client_final(_text(payload))
            final = self._server.get_server_final()
        except (_scramp().ScramException, ValueError) as error:
            raise failed() from error
        self._proven = True
        return self._reply(final, done=self._skips)

    def _reply(self, payload: str, *, done: bool = False) -> dict[str, Any]:
        return {"conversationId": _CONVERSATION_ID, "done": done, "payload": payload.encode()}


def failed() -> CommandError:
    """Return the one error that a client gets, whatever was wrong."""
    return CommandError(ErrorCode.AUTHENTICATION_FAILED, "Authentication failed.")


def skips_empty_exchange(command: Mapping[str, Any]) -> bool:
    """Return `options.skipEmptyExchange`. Raises `CommandError` 14 for what is no boolean."""
    options = command.get("options")
    wanted = options.get("skipEmptyExchange", False) if isinstance(options, dict) else False
    if not isinstance(wanted, bool):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            "BSON field 'saslStart.options.skipEmptyExchange' is the wrong type, expected type 'bool'",
        )
    return wanted


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise failed() from error

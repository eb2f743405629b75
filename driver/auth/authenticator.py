"""Authentication of a connection: its messages, in the handshake and after it."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from driver.auth.credential import EXTERNAL, SHA_1, SHA_256, X509
from driver.auth.scram import KeyCache, ScramClient, ScramError
from driver.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from driver.auth.credential import Credential
    from mongowire.ports import Rng

    Run: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
    """Sends a command to a database; raises ServerError and NetworkError."""

_NONCE_BYTES: Final = 24


class Authenticator:
    """Authenticates the connections of one client."""

    def __init__(self, credential: Credential, rng: Rng) -> None:
        self.credential = credential
        self._rng = rng
        self._cache = KeyCache()

    def attempt(self) -> AuthenticationAttempt:
        """Return a new attempt, for one connection. Raises AuthenticationError."""
        return AuthenticationAttempt(self.credential, self)

    def conversation(self, mechanism: str) -> ScramClient:
        """Return a new SCRAM conversation. Raises AuthenticationError for an unusable password."""
        credential = self.credential
        nonce = b64encode(self._rng.randbytes(_NONCE_BYTES)).decode()
        try:
            return ScramClient(
                mechanism,
                credential.username or "",
                credential.password or "",
                nonce=nonce,
                cache=self._cache,
            )
        except ScramError as error:
            raise AuthenticationError(str(error)) from error


class AuthenticationAttempt:
    """One connection's authentication, begun in its handshake (Speculative Authentication)."""

    def __init__(self, credential: Credential, authenticator: Authenticator) -> None:
        self._credential = credential
        self._authenticator = authenticator
        self._scram = None
        if credential.mechanism != X509:
            self._scram = authenticator.conversation(credential.mechanism or SHA_256)

    def in_hello(self) -> dict[str, Any]:
        """Return the fields to add to the handshake."""
        credential = self._credential
        if self._scram is None:
            return {"speculativeAuthenticate": {**self._authenticate(), "db": EXTERNAL}}
        start = {**self._start(self._scram), "db": credential.source}
        fields: dict[str, Any] = {"speculativeAuthenticate": start}
        if credential.mechanism is None:
            fields["saslSupportedMechs"] = f"{credential.source}.{credential.username}"
        return fields

    async def finish(self, hello: Mapping[str, Any], run: Run) -> None:
        """Authenticate, from where the handshake's reply leaves off.

        Raises AuthenticationError, ServerError and NetworkError.
        """
        speculated = hello.get("speculativeAuthenticate")
        if self._scram is None:
            if speculated is None:
                await run(EXTERNAL, self._authenticate())
            return
        if speculated is None:
            # The guess of the handshake was wrong, or the server takes none. What the user has is known now:
            # SCRAM-SHA-256 where it is offered, else SCRAM-SHA-1 (Authentication: Defaults).
            offered = hello.get("saslSupportedMechs", ())
            mechanism = self._credential.mechanism or (SHA_256 if SHA_256 in offered else SHA_1)
            self._scram = self._authenticator.conversation(mechanism)
            speculated = await run(self._credential.source, self._start(self._scram))
        try:
            await self._converse(self._scram, speculated, run)
        except ScramError as error:
            raise AuthenticationError(str(error)) from error

    async def _converse(self, scram: ScramClient, reply: Mapping[str, Any], run: Run) -> None:
        conversation = reply.get("conversationId")
        reply = await self._go_on(run, conversation, scram.final(bytes(reply.get("payload", b""))))
        scram.verify(bytes(reply.get("payload", b"")))
        if not reply.get("done"):
            reply = await self._go_on(run, conversation, b"")
            if not reply.get("done"):
                raise ScramError("the server does not end the conversation")

    async def _go_on(self, run: Run, conversation: Any, payload: bytes) -> dict[str, Any]:
        command = {"saslContinue": 1, "conversationId": conversation, "payload": payload}
        return await run(self._credential.source, command)

    def _start(self, scram: ScramClient) -> dict[str, Any]:
        return {
            "saslStart": 1,
            "mechanism": scram.mechanism,
            "payload": scram.first(),
            "options": {"skipEmptyExchange": True},
        }

    def _authenticate(self) -> dict[str, Any]:
        user = {} if self._credential.username is None else {"user": self._credential.username}
        return {"authenticate": 1, "mechanism": X509, **user}

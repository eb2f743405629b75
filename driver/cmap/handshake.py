"""The first message on a connection: who we are, what we can do, and what the server can (Handshake)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from driver.cmap.connection import CertificateError, Connection, NameResolutionError
from driver.errors import (
    ConfigurationError,
    DriverError,
    InvalidReplyError,
    NetworkError,
    ServerError,
    reading_handshake,
)
from driver.policy.deadline import after
from mongowire.codes import Label
from mongowire.compression import Compressor, available, negotiate
from mongowire.messages import OpMsg, OpQuery

NOT_BEHIND_A_LOAD_BALANCER = (
    "Driver attempted to initialize in load balancing mode, but the server does not support this mode."
)
"""Load Balancers: the message for a server that says no serviceId."""

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.auth import AuthenticationAttempt, Authenticator
    from driver.cmap.connection import RequestIds
    from driver.cmap.metadata import Metadata
    from driver.editions import Edition
    from mongowire.ports import Clock, Network


@dataclass(frozen=True, slots=True)
class Handshake:
    """What every connection of a client needs to be established.

    Without a deadline, connecting takes at most `connect_timeout`, and each command of the handshake at most
    `command_timeout`: the client's timeoutMS (Background Connection Pooling), else socketTimeoutMS, else the
    same. A timeout of 0 is none.
    """

    network: Network
    clock: Clock
    edition: Edition
    request_ids: RequestIds
    metadata: Metadata
    compressors: tuple[str, ...] = ()
    load_balanced: bool = False
    connect_timeout: float = 10.0
    command_timeout: float = 10.0
    authenticator: Authenticator | None = None
    api_fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def _speaks_hello(self) -> bool:
        """Whether the server understands `hello` for sure: behind a load balancer, or with API versions."""
        return self.load_balanced or bool(self.api_fields)

    def document(self) -> dict[str, Any]:
        """Return the hello command of a new connection; a legacy one asks whether `hello` is understood."""
        name = {"hello": 1} if self._speaks_hello else {"isMaster": 1, "helloOk": True}
        balanced = {"loadBalanced": True} if self.load_balanced else {}
        return {
            **name,
            "client": dict(self.metadata.document),
            "backpressure": self.edition.backpressure,
            "compression": list(negotiate(self.compressors, available())),
            **balanced,
            **self.api_fields,
        }

    def message(self, attempt: AuthenticationAttempt | None = None) -> OpMsg | OpQuery:
        """Return the handshake as a message: the legacy opcode unless the edition has left it behind.

        It carries the first step of an attempt to authenticate.
        """
        document = self.document() | ({} if attempt is None else attempt.in_hello())
        # Before the first reply nobody knows whether the server understands OP_MSG; all take a hello as
        # OP_QUERY.
        if self._speaks_hello or self.edition.handshakes_by_op_msg:
            return OpMsg.of({**document, "$db": "admin"})
        return OpQuery.of("admin", document)

    async def establish(
        self, address: str, *, number: int = 0, generation: int = 0, deadline: float | None = None
    ) -> Connection:
        """Connect and shake hands (CMAP: Establishing a Connection), until a deadline.

        Raises NetworkError, which an edition with backpressure labels as overload unless it came during
        authentication, ServerError, AuthenticationError, InvalidReplyError and ConfigurationError.
        """
        try:
            return await self._established(address, number, generation, deadline)
        except NetworkError as error:
            error.establishing, error.attempted = True, False
            # A server that closes new connections, or leaves them unanswered, is taken for overloaded. Not
            # where another reason is known: a wrong name or certificate, or credentials that it has looked
            # at.
            unlabelled = error.authenticating or isinstance(error, (CertificateError, NameResolutionError))
            if self.edition.overloaded_establishment and not unlabelled:
                error.add_label(Label.SYSTEM_OVERLOADED)
                error.add_label(Label.RETRYABLE)
            raise
        except (InvalidReplyError, ServerError) as error:
            error.attempted = False  # the operation's command was not sent
            raise

    async def open(
        self, address: str, *, number: int = 0, generation: int = 0, deadline: float | None = None
    ) -> Connection:
        """Connect only."""
        now = self.clock.now()
        limit = after(now, self.connect_timeout)
        by = limit if deadline is None else min(limit, deadline)
        return await Connection.open(
            self.network, address, now=now, deadline=by, number=number, generation=generation
        )

    async def greet(
        self,
        connection: Connection,
        attempt: AuthenticationAttempt | None = None,
        *,
        deadline: float | None = None,
    ) -> dict[str, Any]:
        """Exchange the handshake on an open connection, and return the reply.

        Raises ServerError, InvalidReplyError, and ConfigurationError for a server that knows nothing of the
        load balancer that the client was configured for.
        """
        by = self._command_deadline(deadline)
        request_id = self.request_ids.next_request()
        # Never compressed: compressors are agreed upon in this very reply, and credentials are not to be.
        await connection.send(self.message(attempt), request_id, deadline=by, compressed=False)
        reply, _ = await connection.receive(request_id, deadline=by)
        if reply.get("ok") != 1:
            raise ServerError.of_reply(reply, connection.address)
        if self.load_balanced and reply.get("serviceId") is None:
            raise ConfigurationError(NOT_BEHIND_A_LOAD_BALANCER, address=connection.address)
        with reading_handshake(connection.address):
            connection.describe(reply, now=self.clock.now())
            agreed = negotiate(self.compressors, reply.get("compression", ()))
        connection.compressor = Compressor.named(agreed[0]) if agreed else None
        return reply

    def _command_deadline(self, deadline: float | None) -> float:
        return after(self.clock.now(), self.command_timeout) if deadline is None else deadline

    async def _established(
        self, address: str, number: int, generation: int, deadline: float | None
    ) -> Connection:
        connection = await self.open(address, number=number, generation=generation, deadline=deadline)
        try:
            attempt = None if self.authenticator is None else self.authenticator.attempt()
            hello = await self.greet(connection, attempt, deadline=deadline)
            # An arbiter holds no data, and so no users.
            if attempt is not None and not hello.get("arbiterOnly"):
                await self._authenticate(connection, attempt, hello, deadline)
        except BaseException:
            await connection.aclose(abort=True)
            raise
        return connection

    async def _authenticate(
        self,
        connection: Connection,
        attempt: AuthenticationAttempt,
        hello: Mapping[str, Any],
        deadline: float | None,
    ) -> None:
        """Authenticate, after which the connection is established (Connection handshake)."""

        async def run(database: str, command: Mapping[str, Any]) -> dict[str, Any]:
            message = OpMsg.of({**command, **self.api_fields, "$db": database})
            request_id, by = self.request_ids.next_request(), self._command_deadline(deadline)
            await connection.send(message, request_id, deadline=by, compressed=False)
            reply, _ = await connection.receive(request_id, deadline=by)
            if reply.get("ok") != 1:
                raise ServerError.of_reply(reply, connection.address)
            return reply

        try:
            with reading_handshake(connection.address):
                await attempt.finish(hello, run)
        except DriverError as error:
            error.authenticating, error.service_id = True, connection.service_id
            raise

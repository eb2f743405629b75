"""Authentication of a connection: its messages, in the handshake and after it.

SCRAM (Authentication: SCRAM-SHA-1, SCRAM-SHA-256; RFC 5802) is pure and without I/O: a conversation takes the
server's messages and returns the next of the client; it raises `ScramError` for a server that does not prove
that it knows the password too.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from driver.errors import AuthenticationError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from driver.uri import ParsedURI
    from mongowire.ports import Rng

    Run: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
    """Sends a command to a database; raises ServerError and NetworkError."""


# The credential of a connection string (Authentication: MongoCredential).
#
# Every mechanism of the specification can be named; `SUPPORTED` are those that this driver authenticates
# by.


SHA_1: Final = "SCRAM-SHA-1"
SHA_256: Final = "SCRAM-SHA-256"
X509: Final = "MONGODB-X509"
PLAIN: Final = "PLAIN"
GSSAPI: Final = "GSSAPI"
AWS: Final = "MONGODB-AWS"
OIDC: Final = "MONGODB-OIDC"
SUPPORTED: Final = (SHA_1, SHA_256, X509)
EXTERNAL: Final = "$external"

_CANONICALIZATIONS: Final = ("none", "forward", "forwardAndReverse", "true", "false")
_NEEDS_RESOURCE: Final = {"azure": True, "gcp": True, "test": False, "k8s": False}
"""The environments of MONGODB-OIDC, and whether the token is for a TOKEN_RESOURCE that must be named."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A user. Without a `mechanism` it is negotiated with each server; `source` is a database."""

    username: str | None
    source: str
    mechanism: str | None = None
    password: str | None = field(default=None, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


class Need(Enum):
    """Whether a mechanism takes a user name or a password."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What one mechanism takes. Users of an `external` one are in no database of the deployment.

    Without `authSource` a user is looked for in the database of the connection string, else in `source`.
    """

    username: Need
    password: Need
    external: bool = False
    source: str = EXTERNAL
    properties: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)


_SCRAM: Final = Mechanism(Need.REQUIRED, Need.REQUIRED, source="admin")
MECHANISMS: Final[Mapping[str | None, Mechanism]] = {
    None: _SCRAM,
    SHA_1: _SCRAM,
    SHA_256: _SCRAM,
    X509: Mechanism(Need.OPTIONAL, Need.FORBIDDEN, external=True),
    PLAIN: Mechanism(Need.REQUIRED, Need.REQUIRED),
    GSSAPI: Mechanism(
        Need.REQUIRED,
        Need.OPTIONAL,
        external=True,
        properties=("SERVICE_NAME", "SERVICE_REALM", "SERVICE_HOST", "CANONICALIZE_HOST_NAME"),
        defaults={"SERVICE_NAME": "mongodb"},
    ),
    AWS: Mechanism(Need.OPTIONAL, Need.OPTIONAL, external=True, properties=("AWS_SESSION_TOKEN",)),
    OIDC: Mechanism(
        Need.OPTIONAL, Need.FORBIDDEN, external=True, properties=("ENVIRONMENT", "TOKEN_RESOURCE")
    ),
}


def credential_of(parsed: ParsedURI, options: Mapping[str, Any]) -> Credential | None:
    """Return the user that a connection string and its options name, if they name one.

    Raises ConfigurationError for what the mechanism does not take, and for one that does not exist.
    """
    name, source = options.get("authMechanism"), options.get("authSource")
    if dict(parsed.options).get("authSource") == "":
        raise ConfigurationError("authSource is empty; leave it out for the default")
    if name is None and parsed.username is None:
        return None
    if name not in MECHANISMS:
        known = ", ".join(filter(None, MECHANISMS))
        raise ConfigurationError(f"{name} is no mechanism of authentication; those are {known}")
    mechanism = MECHANISMS[name]
    properties = {**mechanism.defaults, **options.get("authMechanismProperties", {})}
    credential = Credential(
        parsed.username, _source(mechanism, parsed, source, name), name, parsed.password, properties
    )
    _check(mechanism, credential)
    return credential


def _source(mechanism: Mechanism, parsed: ParsedURI, source: str | None, name: str | None) -> str:
    if not mechanism.external:
        return source or parsed.database or mechanism.source
    if source not in {None, EXTERNAL}:
        raise ConfigurationError(f"authSource of {name} is {EXTERNAL}, not {source}")
    return EXTERNAL


def _check(mechanism: Mechanism, credential: Credential) -> None:
    """Raise ConfigurationError for what the mechanism lacks or does not take."""
    name = credential.mechanism or "authentication"
    if mechanism.username is Need.REQUIRED and not credential.username:
        raise ConfigurationError(f"{name} needs a user name")
    if mechanism.password is Need.REQUIRED and credential.password is None:
        raise ConfigurationError(f"user {credential.username!r} has no password")
    if mechanism.password is Need.FORBIDDEN and credential.password is not None:
        raise ConfigurationError(f"{name} takes no password")
    unknown = [key for key in credential.properties if key not in mechanism.properties]
    if unknown:
        raise ConfigurationError(f"{name} takes no authMechanismProperties named {', '.join(unknown)}")
    match credential.mechanism:
        case "GSSAPI":
            _check_canonicalization(credential.properties)
        case "MONGODB-AWS":
            _check_aws(credential)
        case "MONGODB-OIDC":
            _check_oidc(credential)


def _check_canonicalization(properties: Mapping[str, str]) -> None:
    how = properties.get("CANONICALIZE_HOST_NAME", "none")
    if how not in _CANONICALIZATIONS:
        raise ConfigurationError(f"CANONICALIZE_HOST_NAME is one of {', '.join(_CANONICALIZATIONS)}: {how!r}")


def _check_aws(credential: Credential) -> None:
    if (credential.username is None) != (credential.password is None):
        raise ConfigurationError(f"{AWS} takes a user name and a password, or neither")
    if credential.username is None and "AWS_SESSION_TOKEN" in credential.properties:
        raise ConfigurationError("AWS_SESSION_TOKEN belongs to a user name and a password")


def _check_oidc(credential: Credential) -> None:
    environment = credential.properties.get("ENVIRONMENT")
    if environment not in _NEEDS_RESOURCE:
        raise ConfigurationError(f"ENVIRONMENT of {OIDC} is one of {', '.join(_NEEDS_RESOURCE)}")
    if _NEEDS_RESOURCE[environment] != ("TOKEN_RESOURCE" in credential.properties):
        needs = "needs a" if _NEEDS_RESOURCE[environment] else "takes no"
        raise ConfigurationError(f"the environment {environment} {needs} TOKEN_RESOURCE")
    if credential.username is not None and environment != "azure":
        raise ConfigurationError(f"the environment {environment} takes no user name")


# Authentication of a connection: its messages, in the handshake and after it.
#
# SCRAM (Authentication: SCRAM-SHA-1, SCRAM-SHA-256; RFC 5802) is pure and without I/O: a conversation takes
# the server's messages and returns the next of the client; it raises `ScramError` for a server that does
# not prove that it knows the password too.


MIN_ITERATIONS: Final = 4096
_HASHES: Final = {SHA_1: "sha1"}
_OUTSIDE_ASCII: Final = 0x7F
_FIRST_PRINTABLE: Final = 0x20


class ScramError(ValueError):
    """The server's message cannot be accepted."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What is derived of a password, worth keeping: it costs thousands of hashes."""

    client: bytes = field(repr=False)
    server: bytes = field(repr=False)


class KeyCache:
    """Keys by everything that they depend on (Authentication: cache of ClientKey and ServerKey)."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str, bytes, int], Keys] = {}

    def keys(self, mechanism: str, secret: str, salt: bytes, iterations: int) -> Keys:
        """Return the keys, derived when first asked for."""
        known = (mechanism, secret, salt, iterations)
        if known not in self._keys:
            name = _HASHES.get(mechanism, "sha256")
            salted = hashlib.pbkdf2_hmac(name, secret.encode(), salt, iterations)
            client, server = (hmac.digest(salted, text, name) for text in (b"Client Key", b"Server Key"))
            self._keys[known] = Keys(client, server)
        return self._keys[known]


class ScramClient:
    """One conversation."""

    def __init__(self, mechanism: str, username: str, password: str, *, nonce: str, cache: KeyCache) -> None:
        """Prepare. Raises `ScramError` for a password that SASLprep forbids."""
        self.mechanism = mechanism
        self._hash = _HASHES.get(mechanism, "sha256")
        self._secret = secret_of(mechanism, username, password)
        self._nonce = nonce
        self._cache = cache
        self._bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""
        self._verified = False

    @property
    def verified(self) -> bool:
        """Whether the server has proven itself."""
        return self._verified

    def first(self) -> bytes:
        """Return the first message: user and nonce."""
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the proof that answers the server's first message. Raises `ScramError`."""
        message = _decoded(server_first)
        fields = _fields(message)
        try:
            nonce, salt, iterations = fields["r"], b64decode(fields["s"]), int(fields["i"])
        except (KeyError, ValueError) as error:
            raise ScramError("the server's first message is malformed") from error
        # Fewer would make the password cheap to guess for a false server that asks for the proof.
        if iterations < MIN_ITERATIONS:
            raise ScramError(f"the server asks for {iterations} iterations, fewer than {MIN_ITERATIONS}")
        # Ours at the front shows that it is no replay, something behind it that the server has added its own.
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the server's nonce does not continue ours")
        keys = self._cache.keys(self.mechanism, self._secret, salt, iterations)
        unproven = f"c={b64encode(b'n,,').decode()},r={nonce}"
        signed = f"{self._bare},{message},{unproven}".encode()
        stored = hashlib.new(self._hash, keys.client).digest()
        signature = hmac.digest(stored, signed, self._hash)
        proof = bytes(ours ^ theirs for ours, theirs in zip(keys.client, signature, strict=True))
        self._signature = hmac.digest(keys.server, signed, self._hash)
        return f"{unproven},p={b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Check the server's proof. Raises `ScramError`."""
        fields = _fields(_decoded(server_final))
        try:
            signature = b64decode(fields["v"])
        except (KeyError, ValueError) as error:
            raise ScramError("the server's final message is malformed") from error
        if not hmac.compare_digest(signature, self._signature):
            raise ScramError("the server's signature is wrong: it does not know the password")
        self._verified = True


def secret_of(mechanism: str, username: str, password: str) -> str:
    """Return what is hashed: for SCRAM-SHA-1 a digest, for SCRAM-SHA-256 the prepared password.

    Raises `ScramError` for a password that SASLprep forbids.
    """
    if mechanism == SHA_1:
        return hashlib.md5(f"{username}:mongo:{password}".encode(), usedforsecurity=False).hexdigest()
    if all(_FIRST_PRINTABLE <= ord(character) < _OUTSIDE_ASCII for character in password):
        return password
    from scramp.utils import ScramException, saslprep  # noqa: PLC0415 - most passwords need no preparation

    try:
        return str(saslprep(password))
    except ScramException as error:
        raise ScramError(f"SASLprep forbids the password: {error}") from error


def _decoded(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise ScramError("the server's message is no text") from error


def _fields(message: str) -> dict[str, str]:
    parts = (part.partition("=") for part in message.split(","))
    return {name: value for name, equals, value in parts if equals}


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

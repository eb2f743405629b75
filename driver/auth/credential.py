"""What a connection string says of the user (Authentication: MongoCredential)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from driver.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.uri import ParsedURI

SHA_1: Final = "SCRAM-SHA-1"
SHA_256: Final = "SCRAM-SHA-256"
X509: Final = "MONGODB-X509"
MECHANISMS: Final = (SHA_1, SHA_256, X509)
EXTERNAL: Final = "$external"


@dataclass(frozen=True, slots=True)
class Credential:
    """A user. Without a `mechanism` it is negotiated with each server; `source` is a database."""

    username: str | None
    source: str
    mechanism: str | None = None
    password: str | None = field(default=None, repr=False)


def credential_of(parsed: ParsedURI, given: Mapping[str, Any]) -> Credential | None:
    """Return the user that a connection string and its options name, if they name one.

    Raises ConfigurationError for what the mechanism does not take.
    """
    mechanism, source = given.get("authMechanism"), given.get("authSource")
    if dict(parsed.options).get("authSource") == "":
        raise ConfigurationError("authSource is empty; leave it out for the default")
    if mechanism is None and parsed.username is None:
        return None
    if mechanism is not None and mechanism not in MECHANISMS:
        raise ConfigurationError(
            f"this driver does not authenticate by {mechanism}; it knows {', '.join(MECHANISMS)}"
        )
    if mechanism == X509:
        return _certificate(parsed, source)
    if not parsed.username:
        raise ConfigurationError(f"{mechanism} needs a user name")
    if parsed.password is None:
        raise ConfigurationError(f"user {parsed.username!r} has no password")
    return Credential(parsed.username, source or parsed.database or "admin", mechanism, parsed.password)


def _certificate(parsed: ParsedURI, source: str | None) -> Credential:
    if parsed.password is not None:
        raise ConfigurationError(f"{X509} takes no password: the certificate is the proof")
    if source not in {None, EXTERNAL}:
        raise ConfigurationError(f"authSource of {X509} is {EXTERNAL}, not {source}")
    return Credential(parsed.username, EXTERNAL, X509)

"""The credential of a connection string (Authentication: MongoCredential).

Every mechanism of the specification can be named; `SUPPORTED` are those that this driver authenticates by.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from driver.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.uris.uri import ParsedURI

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

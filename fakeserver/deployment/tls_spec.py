"""The TLS settings of a deployment, in mongod's terms."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import StrEnum


class TlsMode(StrEnum):
    """`--tlsMode`. The two in the middle take both kinds of connection: the difference is between servers."""

    DISABLED = "disabled"
    ALLOW = "allowTLS"
    PREFER = "preferTLS"
    REQUIRE = "requireTLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSpec:
    """The TLS settings of a deployment, in mongod's terms.

    Clients must show a certificate of `ca_file` unless it is not given or
    `allow_connections_without_certificates`; with `allow_invalid_certificates` none is asked for.
    """

    mode: TlsMode = TlsMode.REQUIRE
    certificate_key_file: str = ""
    ca_file: str | None = None
    allow_connections_without_certificates: bool = False
    allow_invalid_certificates: bool = False

    def __post_init__(self) -> None:
        """Refuse what a mongod would not start with."""
        object.__setattr__(self, "mode", TlsMode(self.mode))
        if self.mode is not TlsMode.DISABLED and not self.certificate_key_file:
            raise ValueError(f"tlsMode {self.mode} needs a tlsCertificateKeyFile")

    def context(self) -> ssl.SSLContext:
        """Return the context of new sessions. Raises `OSError` for files that cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate_key_file)
        if self.ca_file is not None:
            context.load_verify_locations(self.ca_file)
        if self.ca_file is not None and not self.allow_invalid_certificates:
            optional = self.allow_connections_without_certificates
            context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
        return context

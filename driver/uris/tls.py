"""The TLS options of a connection string (URI Options: TLS)."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from driver.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How connections are secured. Revocation is never checked, so there is nothing to switch off."""

    ca_file: str | None = None
    certificate_key_file: str | None = None
    certificate_key_file_password: str | None = field(default=None, repr=False)
    allow_invalid_certificates: bool = False
    allow_invalid_hostnames: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TlsOptions | None:
        """Return the options, None unless `tls` (or its older name `ssl`) is true."""
        if not options.get("tls"):
            return None
        insecure = bool(options.get("tlsInsecure"))
        return cls(
            options.get("tlsCAFile"),
            options.get("tlsCertificateKeyFile"),
            options.get("tlsCertificateKeyFilePassword"),
            allow_invalid_certificates=insecure or bool(options.get("tlsAllowInvalidCertificates")),
            allow_invalid_hostnames=insecure or bool(options.get("tlsAllowInvalidHostnames")),
        )

    def context(self) -> ssl.SSLContext:
        """Return what sessions are made with. Raises ConfigurationError for files that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_key_file is not None:
                password = self.certificate_key_file_password or ""
                context.load_cert_chain(self.certificate_key_file, password=password)
        except OSError as error:
            raise ConfigurationError(f"the files of TLS cannot be used: {error}") from error
        # Names are checked against a certificate, so that without one there is nothing to check; and ssl
        # wants this one switched off first.
        if self.allow_invalid_hostnames or self.allow_invalid_certificates:
            context.check_hostname = False
        if self.allow_invalid_certificates:
            context.verify_mode = ssl.CERT_NONE
        return context

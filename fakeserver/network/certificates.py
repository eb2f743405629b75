"""A throw-away certificate authority for tests, with a server's and a client's certificate."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    import os

    import trustme

_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_OWNER_ONLY: Final = 0o600
_LONG_AGO: Final = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_DAY: Final = dt.timedelta(days=1)

EXPIRED: Final = "expired.pem"
WRONG_HOST: Final = "wrong-host.pem"
UNTRUSTED: Final = "untrusted.pem"


class MissingExtraError(ImportError):
    """A library that makes certificates is not installed; the message says how to get it."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files: a certificate of the authority, and key with certificate of server and client.

    `client_subject` is the name of the user on `$external` that the client's certificate speaks for.
    """

    ca_file: Path
    server_file: Path
    client_file: Path
    client_subject: str


def make_certificates(folder: str | os.PathLike[str], *, client: str = "client") -> Certificates:
    """Make an authority and its certificates in `folder`, which is created.

    The server's certificate is for localhost, 127.0.0.1 and ::1. Beside it are three that clients refuse,
    for the verb `certificate`: `expired.pem`, `wrong-host.pem` and `untrusted.pem`. Raises
    `MissingExtraError` without the extra `tls`, `OSError` where the folder cannot be written.
    """
    try:
        import trustme  # noqa: PLC0415 - an extra, and slow to import
        from cryptography import x509  # noqa: PLC0415 - trustme's own dependency
    except ImportError as error:
        raise MissingExtraError("certificates are made with trustme: pip install 'pushbackd[tls]'") from error
    where = Path(folder)
    authority = trustme.CA(organization_name="pushbackd", organization_unit_name="tests")
    ca_file, server_file, client_file = (where / name for name in ("ca.pem", "server.pem", "client.pem"))
    server = _server(authority, *_NAMES)
    spares = {
        EXPIRED: _server(authority, *_NAMES, not_before=_LONG_AGO, not_after=_LONG_AGO + _DAY),
        WRONG_HOST: _server(authority, "elsewhere.example"),
        UNTRUSTED: _server(trustme.CA(organization_name="nobody"), *_NAMES),
    }
    user = authority.issue_cert(
        common_name=client, organization_name="pushbackd", organization_unit_name="clients"
    )
    write_whole(ca_file, authority.cert_pem.bytes())
    others = ((each, where / name) for name, each in spares.items())
    for certificate, path in ((server, server_file), (user, client_file), *others):
        path.unlink(missing_ok=True)  # its permissions may be those of a public file
        write_whole(path, certificate.private_key_and_cert_chain_pem.bytes(), mode=_OWNER_ONLY)
    subject = x509.load_pem_x509_certificate(user.cert_chain_pems[0].bytes()).subject.rfc4514_string()
    return Certificates(ca_file, server_file, client_file, subject)


def _server(authority: trustme.CA, *names: str, **validity: Any) -> trustme.LeafCert:
    return authority.issue_cert(
        *names,
        common_name=names[0],
        organization_name="pushbackd",
        organization_unit_name="servers",
        **validity,
    )

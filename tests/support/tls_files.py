"""Certificates for tests, made once a session."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from fakeserver.deployment.spec import TlsMode, TlsSpec
from fakeserver.network.certificates import make_certificates

if TYPE_CHECKING:
    from fakeserver.network.certificates import Certificates


@cache
def certificates(name: str = "ours") -> Certificates:
    """Return the files of an authority; another name is another authority."""
    return make_certificates(Path(mkdtemp()) / name)


def tls(mode: TlsMode = TlsMode.REQUIRE, **facts: Any) -> TlsSpec:
    """Return a server's side, which lets clients without certificates in unless told otherwise."""
    made = certificates()
    facts = {"allow_connections_without_certificates": True} | facts
    return TlsSpec(mode=mode, certificate_key_file=str(made.server_file), ca_file=str(made.ca_file), **facts)


def client_options(*, with_certificate: bool = False) -> dict[str, Any]:
    """Return the options of a client, by their URI names."""
    made = certificates()
    options: dict[str, Any] = {"tls": True, "tlsCAFile": str(made.ca_file)}
    return options | ({"tlsCertificateKeyFile": str(made.client_file)} if with_certificate else {})

"""Verbs of TLS: the certificate that servers show."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fakeserver.control.verbs.form import Verb
from fakeserver.network.certificates import EXPIRED, UNTRUSTED, WRONG_HOST
from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from fakeserver.control.subject import Subject
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node

_VALID: Final = "valid"
_FILES: Final = {"expired": EXPIRED, "wrongHost": WRONG_HOST, "untrusted": UNTRUSTED}


class ShownCertificates:
    """The certificates that servers show instead of the valid one, by the server's name."""

    name: ClassVar[str] = "certificates"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._shown: dict[str, str] = {}
        self._first: dict[str, str] = {}

    def show(self, node: Node, which: str) -> None:
        """Have a server show another certificate to the connections to come."""
        file = _file_of(self._cluster, which)
        for context in node.tls_contexts:
            context.load_cert_chain(file)
        self._shown[node.name] = which
        if which == _VALID:
            del self._shown[node.name]

    def mark(self) -> None:
        """Take the certificates of now as the beginning."""
        self._first = dict(self._shown)

    def reset(self) -> None:
        """Show the certificates of the beginning."""
        for node in self._cluster.servers:
            if self._shown.get(node.name) != self._first.get(node.name):
                self.show(node, self._first.get(node.name, _VALID))

    def describe(self) -> Any:
        """Return the certificates that are not the valid one."""
        return dict(self._shown)


def _certificate(subject: Subject, *, which: str, nodes: list[str]) -> dict[str, Any]:
    servers, file = subject.nodes(nodes), _file_of(subject.cluster, which)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file)
    except OSError as error:
        cure = "`pushbackd certs FOLDER` makes one beside server.pem"
        raise ControlError(f"{file} cannot be used: {error.strerror}; {cure}", path=("which",)) from None
    for node in servers:
        subject.part(ShownCertificates).show(node, which)
    return {"which": which, "nodes": [node.name for node in servers]}


def _file_of(cluster: Cluster, which: str) -> Path:
    tls = cluster.spec.tls
    if tls is None or tls.mode == "disabled":
        raise ControlError("this deployment has no TLS")
    valid = Path(tls.certificate_key_file)
    return valid if which == _VALID else valid.with_name(_FILES[which])


VERBS: Final = (
    Verb(
        "certificate",
        "network certificate",
        (
            Argument("which", Kind.TEXT, "the certificate: what clients find wrong", known=(_VALID, *_FILES)),
            Argument("nodes", Kind.SERVERS, "the servers", "all"),
        ),
        _certificate,
        "Have servers show another certificate; open connections go on.",
        undone_by="certificate",
        example="network certificate expired",
    ),
)

"""The verb `certificate`: which certificate servers show to the connections to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pymongo import MongoClient
from pymongo.errors import ServerSelectionTimeoutError

from fakeserver import BackgroundCluster, ClusterSpec, TlsSpec
from fakeserver.network.certificates import Certificates, make_certificates
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def spec(made: Certificates) -> ClusterSpec:
    tls = TlsSpec(
        certificate_key_file=str(made.server_file),
        ca_file=str(made.ca_file),
        allow_connections_without_certificates=True,
    )
    return ClusterSpec.standalone(tls=tls)


def complaint(uri: str) -> str:
    with MongoClient[Any](uri, serverSelectionTimeoutMS=200) as client:
        try:
            client.admin.command("ping")
        except ServerSelectionTimeoutError as error:
            return str(error)
    return ""


@pytest.mark.slow
def test_each_certificate_is_refused_for_its_own_reason_until_a_reset(made: Certificates) -> None:
    with BackgroundCluster(spec(made)) as cluster:
        assert not complaint(cluster.uri)
        for which, reason in {
            "expired": "certificate has expired",
            "wrongHost": "Hostname mismatch",
            "untrusted": "self-signed certificate|unable to get local issuer",
        }.items():
            cluster.control.certificate(which)
            assert cluster.control.state()["certificates"] == {"node0": which}
            assert any(each in complaint(cluster.uri) for each in reason.split("|")), which
        cluster.control.reset()
        assert not complaint(cluster.uri)
        cluster.control.certificate("expired")
        cluster.control.certificate("valid")
        assert cluster.control.state()["certificates"] == {}
        assert not complaint(cluster.uri)


def test_a_certificate_that_is_not_there_is_told_with_the_cure(made: Certificates, tmp_path: Path) -> None:
    alone = tmp_path / "server.pem"
    alone.write_bytes(made.server_file.read_bytes())
    spec = ClusterSpec.standalone(tls=TlsSpec(certificate_key_file=str(alone)))
    complaint = r"which: .*expired\.pem cannot be used: No such file .*pushbackd certs"
    with BackgroundCluster(spec) as cluster, pytest.raises(ControlError, match=complaint):
        cluster.control.certificate("expired")

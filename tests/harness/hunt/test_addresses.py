"""What is left of one trial reaches no other: each deployment is at an address of its own."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from fakeserver.deployment.spec import ClusterSpec, TlsSpec
from harness.hunt.trial import address, at_its_own

SET = ClusterSpec.replica_set(3)


def host(spec: ClusterSpec = SET) -> str:
    started = at_its_own(spec)
    assert isinstance(started, ClusterSpec)
    return started.host


@pytest.mark.skipif(sys.platform not in {"linux", "win32"}, reason="has 127.0.0.1 alone")
def test_no_two_trials_have_one_address() -> None:
    first, second = host(), host()
    assert first.startswith("127.")
    assert first != second


def test_processes_have_different_addresses_and_all_are_of_this_machine() -> None:
    found = {address(process, number) for process in range(4000, 4010) for number in range(1024)}
    assert len(found) == 10 * 1024
    bytes_of = [[int(each) for each in text.split(".")] for text in found]
    assert all(first == 127 and all(0 < each < 255 for each in rest) for first, *rest in bytes_of)
    assert address(1, 0) == address(1, 1024)


@pytest.mark.parametrize(
    "given",
    [
        {"host": "mongo.example"},
        {"bind_ip": "127.0.0.1"},
        {"tls": TlsSpec(certificate_key_file="server.pem")},
    ],
)
def test_a_deployment_whose_address_is_given_keeps_it(given: dict[str, Any]) -> None:
    spec = replace(SET, **given)
    assert host(spec) == spec.host

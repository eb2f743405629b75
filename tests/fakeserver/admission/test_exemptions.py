"""Who need not ask the limiters."""

from __future__ import annotations

import pytest

from fakeserver.admission.prioritization import AddressRanges, ApplicationNames


@pytest.mark.parametrize(
    ("ranges", "peer", "exempt"),
    [
        ([], "127.0.0.1:5000", False),
        (["127.0.0.1"], "127.0.0.1:5000", True),
        (["127.0.0.1"], "127.0.0.2:5000", False),
        (["10.0.0.0/8"], "10.200.3.4:1", True),
        (["10.0.0.1/8"], "10.200.3.4:1", True),
        (["10.0.0.0/8"], "11.0.0.1:1", False),
        (["10.0.0.0/8", "192.168.0.0/16"], "192.168.7.7:1", True),
        (["::1"], "::1:5000", True),
        (["fe80::/10"], "fe80::1%eth0:5000", True),
        (["127.0.0.1"], "::ffff:127.0.0.1:5000", True),
        (["127.0.0.1"], "::1:5000", False),
        (["/tmp/mongodb-27017.sock"], "127.0.0.1:5000", False),
        (["10.0.0.0/8"], "anonymous", False),
        (["anonymous"], "anonymous", True),
    ],
)
def test_an_address_is_exempt_in_one_of_the_ranges(ranges: list[str], peer: str, *, exempt: bool) -> None:
    assert (peer in AddressRanges.of(ranges)) is exempt


@pytest.mark.parametrize(
    ("prefixes", "metadata", "exempt"),
    [
        ((), {"application": {"name": "monitor"}}, False),
        (("mon",), None, False),
        (("mon",), {"application": {"name": "monitor"}}, True),
        (("Mon",), {"application": {"name": "monitor"}}, False),
        (("nodejs",), {"application": {"name": "a"}, "driver": {"name": "nodejs|mongosh"}}, True),
        (("mongosh",), {"driver": {"name": "nodejs|mongosh"}}, False),
        (("x",), {"application": "x"}, False),
    ],
)
def test_an_application_is_exempt_by_the_beginning_of_its_name_or_its_drivers(
    prefixes: tuple[str, ...], metadata: dict[str, object] | None, *, exempt: bool
) -> None:
    assert ApplicationNames(prefixes).match(metadata) is exempt

"""Unified Test Format: entity (uriOptions)."""

from __future__ import annotations

from typing import Any

import pytest

from harness.unified.errors import ScenarioError
from harness.unified.uri import ConnectionString, host_count, with_options

RS = "mongodb://a:1,b:2/?replicaSet=rs0"


@pytest.mark.parametrize(
    ("uri", "options", "result"),
    [
        (RS, {}, "mongodb://a:1,b:2/?replicaSet=rs0"),
        ("mongodb://a:1", {}, "mongodb://a:1/"),
        ("mongodb://a:1", {"retryWrites": False}, "mongodb://a:1/?retryWrites=false"),
        (RS, {"w": "majority"}, RS + "&w=majority"),
        (RS + "&appName=x", {"appname": "y z&"}, RS + "&appname=y%20z%26"),
        (RS, {"directConnection": True}, "mongodb://a:1/?directConnection=true"),
        (RS, {"directConnection": False}, RS + "&directConnection=false"),
        (
            "mongodb://u:p%40@a:1,b:2/db?replicaSet=rs0",
            {"directConnection": True},
            "mongodb://u:p%40@a:1/db?directConnection=true",
        ),
        (
            RS,
            {"readPreferenceTags": ["dc:ny", ""]},
            RS + "&readPreferenceTags=dc:ny&readPreferenceTags=",
        ),
        (RS, {"compressors": ["zlib", "snappy"]}, RS + "&compressors=zlib,snappy"),
        (RS, {"authMechanismProperties": {"A": "x", "B": True}}, RS + "&authMechanismProperties=A:x,B:true"),
    ],
)
def test_options_are_merged_into_the_connection_string(
    uri: str, options: dict[str, Any], result: str
) -> None:
    assert with_options(uri, options) == result


def test_a_value_that_no_connection_string_can_hold_is_an_error() -> None:
    with pytest.raises(ScenarioError, match=r"uriOptions\.authMechanismProperties holds a mapping"):
        with_options(RS, {"authMechanismProperties": {"ENVIRONMENT": {"nested": 1}}})


@pytest.mark.parametrize(("uri", "count"), [(RS, 2), ("mongodb://u:a,b@h:1/", 1), ("mongodb://h", 1)])
def test_hosts_are_counted(uri: str, count: int) -> None:
    assert host_count(uri) == count


@pytest.mark.parametrize(
    "uri",
    [
        "mongodb://b%40b:p%3A%2F%40%3F@a:1,b:2/shop?authSource=%24external&tls=true&tlsCAFile=%2Ftmp%2Fca.pem",
        "mongodb://[::1]:27017,[fe80::1%25eth0]/?replicaSet=rs0",
        "mongodb://%2Ftmp%2Fmongodb-27017.sock,a:1/",
        "mongodb://a/?readPreferenceTags=dc:ny,rack:1&readPreferenceTags=&w=majority",
        "mongodb://a/?authMechanismProperties=TOKEN_RESOURCE:mongodb://b,ENVIRONMENT:azure",
        "mongodb+srv://u:p@cluster.example.com/?retryWrites=false",
    ],
)
def test_what_a_user_has_written_survives(uri: str) -> None:
    assert with_options(uri, {}) == uri
    merged = with_options(uri, {"appName": "x"})
    assert merged == f"{uri}{'&' if '?' in uri else '?'}appName=x"


def test_a_name_of_old_is_replaced_too() -> None:
    assert with_options("mongodb://a/?ssl=true", {"tls": False}) == "mongodb://a/?tls=false"


def test_options_may_be_apart_by_semicolons() -> None:
    assert with_options("mongodb://a/?w=1;tls=true", {"w": 2}) == "mongodb://a/?tls=true&w=2"


def test_a_direct_connection_keeps_a_socket_or_an_address_whole() -> None:
    for host in ("%2Ftmp%2Fm.sock", "[::1]:2", "a"):
        direct = with_options(f"mongodb://u:p@{host},b:2/?replicaSet=rs0", {"directConnection": True})
        assert direct == f"mongodb://u:p@{host}/?directConnection=true"


def test_people_read_neither_passwords_nor_tokens() -> None:
    uri = (
        "mongodb://bob:secret@a/?tlsCertificateKeyFilePassword=secret"
        "&authMechanismProperties=AWS_SESSION_TOKEN:secret&w=1"
    )
    assert ConnectionString.of(uri).redacted() == (
        "mongodb://bob:***@a/?tlsCertificateKeyFilePassword=***&authMechanismProperties=***&w=1"
    )
    assert ConnectionString.of("mongodb://bob@a/").redacted() == "mongodb://bob@a/"

"""Unified Test Format: entity (uriOptions)."""

from __future__ import annotations

from typing import Any

import pytest

from harness.unified.errors import ScenarioError
from harness.unified.uri import host_count, with_options

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


def test_a_placeholder_that_cannot_be_replaced_is_an_error() -> None:
    with pytest.raises(ScenarioError, match=r"uriOptions\.authMechanismProperties has a \$\$placeholder"):
        with_options(RS, {"authMechanismProperties": {"ENVIRONMENT": {"$$placeholder": 1}}})


def test_so_is_a_placeholder_for_a_whole_option() -> None:
    with pytest.raises(ScenarioError, match="placeholder"):
        with_options(RS, {"appName": {"$$placeholder": 1}})


@pytest.mark.parametrize(("uri", "count"), [(RS, 2), ("mongodb://u:a,b@h:1/", 1), ("mongodb://h", 1)])
def test_hosts_are_counted(uri: str, count: int) -> None:
    assert host_count(uri) == count

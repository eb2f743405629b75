"""Connection strings, their options, and the credentials in them.

Connection String, URI Options and Authentication: what is valid, what is warned of, and what comes of it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from driver.errors import ConfigurationError
from driver.options import CANONICAL, OPTIONS, ClientOptions, read_options
from harness.formats.check import FormatCase, MismatchError, require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from driver.uri import ParsedURI


def connection_strings(name: str, document: Any) -> Iterable[FormatCase]:
    """Return the cases of `connection-string` and `uri-options`."""
    for case in document["tests"]:
        yield FormatCase(f"{name}::{case['description']}", partial(_check_string, case))


def credentials(name: str, document: Any) -> Iterable[FormatCase]:
    """Return the cases of `auth/legacy`."""
    for case in document["tests"]:
        yield FormatCase(f"{name}::{case['description']}", partial(_check_credential, case))


def _check_string(case: Mapping[str, Any]) -> None:
    try:
        parsed, given, warnings = read_options(case["uri"], {})
        if not case["valid"]:
            ClientOptions.of_uri(case["uri"])
    except ConfigurationError as refusal:
        if case["valid"]:
            raise MismatchError(f"expected no error, got: {refusal}") from refusal
        return
    if not case["valid"]:
        raise MismatchError("expected an error, got none")
    require(f"warnings {warnings}", bool(warnings), bool(case["warning"]))
    _check_hosts(parsed, case.get("hosts"))
    _check_user(parsed, case.get("auth"))
    for option, value in (case.get("options") or {}).items():
        option_name = CANONICAL[option.lower()]
        require(option_name, given.get(option_name), OPTIONS[option_name][0](value))


def _check_hosts(parsed: ParsedURI, hosts: Iterable[Mapping[str, Any]] | None) -> None:
    if hosts is not None:
        require("hosts", list(parsed.hosts), [_address(host) for host in hosts])


def _address(host: Mapping[str, Any]) -> str:
    name, port = host["host"], host.get("port") or 27017
    match host["type"]:
        case "unix":
            return str(name)
        case "ip_literal":
            return f"[{name}]:{port}"
        case _:
            return f"{name.lower()}:{port}"


def _check_user(parsed: ParsedURI, auth: Mapping[str, Any] | None) -> None:
    if auth is None:
        return
    require("username", parsed.username, auth["username"])
    require("password", parsed.password, auth["password"])
    namespace = ".".join(filter(None, (parsed.database, parsed.collection))) or None
    require("db", namespace, auth["db"])


def _check_credential(case: Mapping[str, Any]) -> None:
    try:
        options, _ = ClientOptions.of_uri(case["uri"])
    except ConfigurationError as refusal:
        if case["valid"]:
            raise MismatchError(f"expected no error, got: {refusal}") from refusal
        return
    if not case["valid"]:
        raise MismatchError(f"expected an error, got {options.credential}")
    found, expected = options.credential, case["credential"]
    if found is None or expected is None:
        require("credential", found, expected)
        return
    for name in ("username", "password", "source", "mechanism"):
        require(name, getattr(found, name), expected[name])
    require("mechanism_properties", dict(found.properties), expected["mechanism_properties"] or {})

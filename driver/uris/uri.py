"""Connection strings, split into parts (Connection String). Nothing here knows what an option means.

mongodb://[user[:password]@]host[:port][,host[:port]…][/[database][?option=value&…]]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from driver.errors import ConfigurationError

SCHEMES = {"mongodb://": False, "mongodb+srv://": True}
DEFAULT_PORT = 27017
MAX_PORT = 65535
FORBIDDEN_IN_DATABASE = frozenset('/\\ "$')
BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class ParsedURI:
    """The parts of a connection string; options are pairs in their order, percent-decoded."""

    hosts: tuple[str, ...]
    srv: bool = False
    username: str | None = None
    password: str | None = None
    database: str | None = None
    collection: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()


def parse_uri(uri: str) -> ParsedURI:
    """Return the parts of a connection string. Raises ConfigurationError, which says what is wrong."""
    srv, rest = _without_scheme(uri)
    rest, question, query = rest.partition("?")
    # A raw slash in a password or in the path of a socket leaves a host that is none, which is refused below.
    authority, _, namespace = rest.partition("/")
    user_info, at, host_list = authority.rpartition("@")
    username, password = _user_info(user_info) if at else (None, None)
    database, collection = _namespace(namespace)
    options, warnings = _options(query) if question else ((), ())
    hosts = tuple(_host(host, srv=srv) for host in host_list.split(","))
    if srv and len(hosts) > 1:
        raise ConfigurationError("a mongodb+srv connection string names one host")
    return ParsedURI(hosts, srv, username, password, database, collection, options, warnings)


def _without_scheme(uri: str) -> tuple[bool, str]:
    for scheme, srv in SCHEMES.items():
        if uri.startswith(scheme):
            return srv, uri[len(scheme) :]
    raise ConfigurationError(
        f"a connection string begins with mongodb:// or mongodb+srv://, not {uri[:14]!r}"
    )


def _user_info(text: str) -> tuple[str, str | None]:
    username, colon, password = text.partition(":")
    if ":" in password or "@" in text:
        raise ConfigurationError("':' and '@' in a user name or a password must be percent-encoded")
    if not username:
        raise ConfigurationError("the user name is empty")
    return _decoded(username, "user name"), _decoded(password, "password") if colon else None


def _decoded(text: str, what: str) -> str:
    if BAD_ESCAPE.search(text):
        raise ConfigurationError(f"'%' in the {what} must be percent-encoded as %25")
    return unquote(text)


def _host(text: str, *, srv: bool) -> str:
    """Return `host:port` in lower case; the path of a socket, which ends in .sock, stays as it is."""
    if not text:
        raise ConfigurationError("a host is empty")
    decoded = _decoded(text, "host")
    if "/" in decoded and decoded.endswith(".sock"):
        return decoded
    if text.startswith("["):
        return _ip_literal(text)
    host, colon, port = decoded.partition(":")
    if ":" in port:
        raise ConfigurationError(f"an IPv6 address is written in brackets: [{decoded}]")
    if srv and colon:
        raise ConfigurationError("a mongodb+srv connection string takes no port")
    if not host or "/" in host:
        raise ConfigurationError(f"{text!r} is not a host")
    return f"{host.lower()}:{_port(port) if colon else DEFAULT_PORT}"


def _ip_literal(text: str) -> str:
    address, bracket, rest = text[1:].partition("]")
    if not bracket or (rest and not rest.startswith(":")):
        raise ConfigurationError(f"{text!r} is not an IPv6 address in brackets with an optional port")
    return f"[{unquote(address).lower()}]:{_port(rest[1:]) if rest else DEFAULT_PORT}"


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= MAX_PORT:
        raise ConfigurationError(f"a port is a number from 1 to {MAX_PORT}, not {text!r}")
    return int(text)


def _namespace(text: str) -> tuple[str | None, str | None]:
    if not text:
        return None, None
    decoded = _decoded(text, "database")
    database, _, collection = decoded.partition(".")
    if FORBIDDEN_IN_DATABASE & set(database):
        raise ConfigurationError(f'a database name holds none of / \\ " $ and space: {database!r}')
    return database, collection or None


def _options(query: str) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    pairs: list[tuple[str, str]] = []
    warnings: list[str] = []
    for part in filter(None, re.split("[&;]", query)):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"option {part!r} is not of the form name=value")
        if "=" in value:
            warnings.append(f"the value of option {name} holds an unencoded '='")
        pairs.append((_decoded(name, "option"), _decoded(value, f"value of {name}")))
    return tuple(pairs), tuple(warnings)


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address such as `localhost:27017` or `[::1]:27017`."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)

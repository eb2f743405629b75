"""Connection strings, split into parts (Connection String). Nothing here knows what an option means.

mongodb://[user[:password]@]host[:port][,host[:port]…][/[database][?option=value&…]]
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from driver.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Connection strings, split into parts (Connection String). Nothing here knows what an option means.
#
# mongodb://[user[:password]@]host[:port][,host[:port]…][/[database][?option=value&…]]


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


# Parsers of the values of URI options: each takes text, or a value of the right type already.
#
# They raise ValueError with a message that says what was expected.


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How connections are secured. Revocation is never checked, so there is nothing to switch off."""

    ca_file: str | None = None
    certificate_key_file: str | None = None
    certificate_key_file_password: str | None = field(default=None, repr=False)
    allow_invalid_certificates: bool = False
    allow_invalid_hostnames: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TlsOptions | None:
        """Return the options, None unless `tls` (or its older name `ssl`) is true."""
        if not options.get("tls"):
            return None
        insecure = bool(options.get("tlsInsecure"))
        return cls(
            options.get("tlsCAFile"),
            options.get("tlsCertificateKeyFile"),
            options.get("tlsCertificateKeyFilePassword"),
            allow_invalid_certificates=insecure or bool(options.get("tlsAllowInvalidCertificates")),
            allow_invalid_hostnames=insecure or bool(options.get("tlsAllowInvalidHostnames")),
        )

    def context(self) -> ssl.SSLContext:
        """Return what sessions are made with. Raises ConfigurationError for files that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_key_file is not None:
                password = self.certificate_key_file_password or ""
                context.load_cert_chain(self.certificate_key_file, password=password)
        except OSError as error:
            raise ConfigurationError(f"the files of TLS cannot be used: {error}") from error
        # Names are checked against a certificate, so that without one there is nothing to check; and ssl
        # wants this one switched off first.
        if self.allow_invalid_hostnames or self.allow_invalid_certificates:
            context.check_hostname = False
        if self.allow_invalid_certificates:
            context.verify_mode = ssl.CERT_NONE
        return context


Validator: TypeAlias = Callable[[Any], Any]
WHOLE_NUMBER = re.compile(r"[-+]?[0-9]+")


def text(value: Any) -> str:
    """Return a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected text, not {value!r}")
    return value


def boolean(value: Any) -> bool:
    """Return the truth of `true` or `false`."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise ValueError(f"expected true or false, not {value!r}")


def integer(value: Any) -> int:
    """Return a whole number; neither True nor 1.5 nor 1_000 is one."""
    if not WHOLE_NUMBER.fullmatch(str(value)):
        raise ValueError(f"expected a whole number, not {value!r}")
    return int(value)


def at_least(minimum: int) -> Validator:
    """Return a reader of whole numbers that are not smaller than `minimum`."""

    def read(value: Any) -> int:
        number = integer(value)
        if number < minimum:
            raise ValueError(f"expected at least {minimum}, not {number}")
        return number

    return read


def between(minimum: int, maximum: int) -> Validator:
    """Return a reader of whole numbers from `minimum` to `maximum`."""

    def read(value: Any) -> int:
        number = integer(value)
        if not minimum <= number <= maximum:
            raise ValueError(f"expected a number from {minimum} to {maximum}, not {number}")
        return number

    return read


def milliseconds(value: Any) -> float:
    """Return seconds, from whole milliseconds that are not negative."""
    return float(at_least(0)(value)) / 1000


def staleness(value: Any) -> int | None:
    """Return maxStalenessSeconds: -1 and absence mean no limit."""
    number = at_least(-1)(value)
    return None if number == -1 else int(number)


def one_of(*allowed: str) -> Validator:
    """Return a reader of one of the words."""

    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    return read


def one_or_more(check: Callable[[str], Any]) -> Validator:
    """Return a reader of words between commas, each of which `check` accepts."""

    def read(value: Any) -> tuple[str, ...]:
        words = tuple(value.split(",")) if isinstance(value, str) else tuple(value)
        for word in words:
            check(word)
        return words

    return read


def properties(value: Any) -> Mapping[str, str]:
    """Return named properties, from `NAME:value` between commas; a value may hold colons, but no comma."""
    if isinstance(value, dict):
        return value
    pairs = [pair.partition(":") for pair in text(value).split(",")]
    if any(not name or not separator for name, separator, _ in pairs):
        raise ValueError("expected properties such as SERVICE_NAME:other,SERVICE_HOST:example.com")
    return {name: found for name, _, found in pairs}


def tag_sets(value: Any) -> tuple[Mapping[str, str], ...]:
    """Return the tag sets of a repeated readPreferenceTags."""
    entries: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    return tuple(_tags(entry) for entry in entries)


def _tags(entry: Any) -> Mapping[str, str]:
    if isinstance(entry, dict):
        return entry
    pairs = [pair.partition(":") for pair in entry.split(",") if pair]
    if any(not separator for _, separator, _ in pairs):
        raise ValueError(f"expected tags such as dc:ny,rack:1, not {entry!r}")
    return {name: tag for name, _, tag in pairs}


def write_concern_w(value: Any) -> int | str:
    """Return the number of members, or the name of a mode, such as `1.5`."""
    if isinstance(value, str) and not WHOLE_NUMBER.fullmatch(value):
        return text(value)
    return int(at_least(0)(value))


def is_negative(value: Any) -> bool:
    """Return whether a value is a whole number below zero."""
    return WHOLE_NUMBER.fullmatch(str(value)) is not None and int(value) < 0

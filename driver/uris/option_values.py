"""Parsers of the values of URI options: each takes text, or a value of the right type already.

They raise ValueError with a message that says what was expected.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from driver.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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

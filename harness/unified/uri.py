"""Connection strings, taken apart without loss: the deployment's, with an entity's options merged in.

Unified Test Format: entity (uriOptions). Every driver reads a connection string, so no adapter has to know
how its driver spells an option.

Nothing is validated or normalised here: what a user wrote must reach the driver as it is, since refusing it
is the driver's part, and may be what a scenario is about. So hosts may be anything between the commas, and an
option that nobody knows passes through. Only the few options that the harness itself sets are compared, by
lower-case name and alias.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_SCHEME: Final = re.compile(r"[a-z+]+://")
# The only name of old that the harness replaces: two spellings in one string would contradict each other.
_ALIASES: Final = {"ssl": "tls"}
_SECRET: Final = "***"  # noqa: S105 - what stands for a password


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """The parts of a connection string, each as it was written: percent-encoded, in its order.

    `credentials` is `user:password`, or empty; `hosts` may be names, addresses in brackets or sockets.
    """

    scheme: str
    credentials: str
    hosts: tuple[str, ...]
    database: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, text: str) -> ConnectionString:
        """Take a connection string apart; whether it is valid is for drivers to say."""
        found = _SCHEME.match(text)
        scheme = found[0] if found else ""
        # From the outside in: what is left at last is the authority, in which the last `@` ends the
        # credentials, so that one that a user forgot to encode does not cut a password in two.
        rest, _, query = text.removeprefix(scheme).partition("?")
        authority, _, database = rest.partition("/")
        credentials, _, hosts = authority.rpartition("@")
        pairs = (pair.partition("=") for pair in re.split("[&;]", query) if pair)
        options = tuple((name, value) for name, _, value in pairs)
        return cls(scheme, credentials, tuple(hosts.split(",")), database, options)

    def __str__(self) -> str:
        who = f"{self.credentials}@" if self.credentials else ""
        query = "&".join(f"{name}={value}" for name, value in self.options)
        return f"{self.scheme}{who}{','.join(self.hosts)}/{self.database}{'?' if query else ''}{query}"

    def option(self, name: str) -> str | None:
        """Return an option's first value, whatever the case of its name, or None."""
        return next((value for other, value in self.options if _canonical(other) == _canonical(name)), None)

    def is_on(self, name: str) -> bool:
        """Return whether an option is `true`."""
        return self.option(name) == "true"

    def keeping(self, wanted: Callable[[str], bool]) -> ConnectionString:
        """Return the string with those options only whose names, in lower case, are wanted."""
        kept = tuple((name, value) for name, value in self.options if wanted(_canonical(name)))
        return replace(self, options=kept)

    def without(self, *names: str) -> ConnectionString:
        """Return the string without some options."""
        unwanted = {_canonical(name) for name in names}
        return self.keeping(lambda name: name not in unwanted)

    def having(self, options: Iterable[tuple[str, str]]) -> ConnectionString:
        """Return the string with options (their values encoded) in place of those of the same name.

        Every earlier value of a name goes, also under its alias; what is added stands last. Two values of one
        name are left only where `options` itself has them, as tag sets do.
        """
        added = tuple(options)
        kept = self.without(*(name for name, _ in added))
        return replace(kept, options=(*kept.options, *added))

    def at(self, *hosts: str) -> ConnectionString:
        """Return the string with other hosts."""
        return replace(self, hosts=hosts)

    def redacted(self) -> str:
        """Return the string for people to read, without passwords and tokens."""
        user, colon, _ = self.credentials.partition(":")
        shown = tuple((name, _SECRET if _is_secret(name) else value) for name, value in self.options)
        return str(replace(self, credentials=user + (f":{_SECRET}" if colon else ""), options=shown))


def _canonical(name: str) -> str:
    return _ALIASES.get(name.lower(), name.lower())


def _is_secret(name: str) -> bool:
    """Return whether an option may hold what nobody is to read in a report.

    The properties of a mechanism count whole: a session token of AWS is among them.
    """
    return "password" in name.lower() or name.lower() == "authmechanismproperties"


def with_options(uri: str, options: Mapping[str, Any]) -> str:
    """Return a connection string in which `options` replace those of the same name, whatever their case.

    `directConnection: true` leaves one seed and no replica set name. Raises `ScenarioError` for a value that
    no connection string can hold.
    """
    string = ConnectionString.of(uri)
    if any(name.lower() == "directconnection" and value is True for name, value in options.items()):
        # Drivers refuse directConnection with several seeds, and a direct client of one member must not be
        # kept away by the name of its set.
        string = string.at(string.hosts[0]).without("replicaSet")
    return str(string.having((name, text) for name, value in options.items() for text in _texts(name, value)))


def host_count(uri: str) -> int:
    """Return how many hosts a connection string names."""
    return len(ConnectionString.of(uri).hosts)


def _texts(name: str, value: Any) -> Iterator[str]:
    """Yield the texts of an option: a list of tag sets is several options of one name."""
    # Connection String: repeated keys. Tag sets are an ordered list of fallbacks, which no separator within
    # one value can express.
    if isinstance(value, list) and name.lower() == "readpreferencetags":
        yield from (quote(str(item), safe=":,") for item in value)
    elif isinstance(value, list):
        yield quote(",".join(map(str, value)), safe=",")
    elif isinstance(value, dict):
        yield ",".join(f"{key}:{quote(_text(name, item), safe='')}" for key, item in value.items())
    else:
        yield quote(_text(name, value), safe="")


def _text(name: str, value: Any) -> str:
    if isinstance(value, dict):
        raise ScenarioError(f"uriOptions.{name} holds a mapping in a mapping, which has no place in a URI")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)

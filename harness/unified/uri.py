"""Connection strings of client entities: the deployment's, with the entity's options merged in.

Unified Test Format: entity (uriOptions). Every driver reads a connection string, so no adapter has to know
how its driver spells an option.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SCHEME: Final = "mongodb://"


def with_options(uri: str, options: Mapping[str, Any]) -> str:
    """Return a connection string in which `options` replace those of the same name, whatever their case.

    `directConnection: true` leaves one seed and no replica set name. Raises `ScenarioError` for an option
    whose value is a `$$placeholder`.
    """
    authority, _, query = uri.removeprefix(_SCHEME).partition("?")
    authority, _, database = authority.partition("/")
    names = {name.lower() for name in options}
    direct = any(name.lower() == "directconnection" and value is True for name, value in options.items())
    if direct:
        authority = _first_seed(authority)
        names |= {"replicaset"}
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0].lower() not in names]
    added = [f"{name}={value}" for name, values in options.items() for value in _texts(name, values)]
    pairs = "&".join([*kept, *added])
    return f"{_SCHEME}{authority}/{database}" + (f"?{pairs}" if pairs else "")


def _first_seed(authority: str) -> str:
    credentials, at, hosts = authority.rpartition("@")
    return f"{credentials}{at}{hosts.split(',')[0]}"


def host_count(uri: str) -> int:
    """Return how many hosts a connection string names."""
    authority = uri.removeprefix(_SCHEME).partition("?")[0].partition("/")[0]
    return authority.rpartition("@")[2].count(",") + 1


def _texts(name: str, value: Any) -> Iterator[str]:
    """Yield the texts of an option: a list of tag sets is several options of one name."""
    if isinstance(value, list) and name.lower() == "readpreferencetags":
        yield from (quote(str(item), safe=":,") for item in value)
    elif isinstance(value, list):
        yield quote(",".join(map(str, value)), safe=",")
    elif isinstance(value, dict) and "$$placeholder" not in value:
        yield ",".join(f"{key}:{quote(_text(name, item), safe='')}" for key, item in value.items())
    else:
        yield quote(_text(name, value), safe="")


def _text(name: str, value: Any) -> str:
    if isinstance(value, dict):
        raise ScenarioError(f"uriOptions.{name} has a $$placeholder and there is nothing to replace it by")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)

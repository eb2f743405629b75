"""The file of `--config`: mongod's own YAML, read as the options that it stands for.

It is strict: an unknown key and a value of another type are errors with file, line and cure. Options of the
command line win over those of the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.control.scenario.loader import ProblemReport, read
from mongowire.documents.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeserver.control.scenario.loader import PlacedValue


class _Key(NamedTuple):
    """A key of the file: what its value is, and the arguments that it stands for."""

    kind: str
    arguments: Callable[[Any], list[str]]
    choices: tuple[str, ...] = ()


def _text(option: str) -> _Key:
    return _Key("a text", lambda value: [option, value])


def _count(option: str) -> _Key:
    return _Key("a whole number", lambda value: [option, str(value)])


def _flag(option: str, *, when: bool = True) -> _Key:
    return _Key("true or false", lambda value: [option] if value is when else [])


def _word(arguments: Mapping[str, list[str]]) -> _Key:
    return _Key("a text", arguments.__getitem__, tuple(arguments))


def _tls_mode(*modes: str) -> _Key:
    return _word({mode: ["--tlsMode", mode] for mode in modes})


def _set_parameters(value: Mapping[str, Any]) -> list[str]:
    return [part for name, each in value.items() for part in ("--setParameter", f"{name}={_setting(each)}")]


def _setting(value: Any) -> str:
    """Return the value of a parameter as a text of the command line."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _tls(names: Mapping[str, str], mode: _Key) -> dict[str, _Key]:
    """Return the keys of TLS under `net.tls`, or their former names under `net.ssl`."""
    return {
        "mode": mode,
        names["certificate"]: _text("--tlsCertificateKeyFile"),
        "CAFile": _text("--tlsCAFile"),
        "allowInvalidCertificates": _flag("--tlsAllowInvalidCertificates"),
        "allowConnectionsWithoutCertificates": _flag("--tlsAllowConnectionsWithoutCertificates"),
    }


_MODES: Final = ("disabled", "allowTLS", "preferTLS", "requireTLS")
_FORMER_MODES: Final = ("disabled", "allowSSL", "preferSSL", "requireSSL")

_KEYS: Final[Mapping[str, Any]] = {
    "net": {
        "port": _count("--port"),
        "bindIp": _text("--bind_ip"),
        "bindIpAll": _flag("--bind_ip_all"),
        "ipv6": _flag("--ipv6"),
        "proxyPort": _count("--proxyPort"),
        "priorityPort": _count("--priorityPort"),
        "maxIncomingConnections": _count("--maxConns"),
        "unixDomainSocket": {
            "enabled": _flag("--nounixsocket", when=False),
            "pathPrefix": _text("--unixSocketPrefix"),
        },
        "compression": {"compressors": _text("--networkMessageCompressors")},
        "tls": _tls({"certificate": "certificateKeyFile"}, _tls_mode(*_MODES)),
        "ssl": _tls({"certificate": "PEMKeyFile"}, _tls_mode(*_FORMER_MODES)),
    },
    "replication": {"replSetName": _text("--replSet"), "oplogSizeMB": _count("--oplogSize")},
    "sharding": {
        "clusterRole": _word({"configsvr": ["--configsvr"], "shardsvr": ["--shardsvr"]}),
        "configDB": _text("--configdb"),
    },
    "security": {
        "authorization": _word({"enabled": ["--auth"], "disabled": []}),
        "keyFile": _text("--keyFile"),
        "javascriptEnabled": _flag("--noscripting", when=False),
    },
    "setParameter": _Key("a mapping of parameters", _set_parameters),
    "systemLog": {
        "destination": _word({"file": [], "syslog": ["--syslog"]}),
        "path": _text("--logpath"),
        "logAppend": _flag("--logappend"),
        "quiet": _flag("--quiet"),
        "verbosity": _Key("a whole number", lambda value: ["-v"] * value),
    },
    "processManagement": {"fork": _flag("--fork"), "pidFilePath": _text("--pidfilepath")},
    "storage": {
        "dbPath": _text("--dbpath"),
        "engine": _text("--storageEngine"),
        "directoryPerDB": _flag("--directoryperdb"),
        "journal": {"enabled": _flag("--journal")},
        "wiredTiger": {
            "engineConfig": {
                "cacheSizeGB": _Key("a number", lambda value: ["--wiredTigerCacheSizeGB", str(value)]),
            },
        },
    },
}

_IS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "a text": lambda value: isinstance(value, str),
    "a whole number": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "a number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "true or false": lambda value: isinstance(value, bool),
    "a mapping of parameters": lambda value: isinstance(value, dict),
}


def arguments_of(path: Path | str) -> list[str]:
    """Return the arguments that a file stands for.

    Raises `ScenarioFileError`, with a line for each mistake.
    """
    if _is_empty(path):
        return []
    marked, report = read(path), ProblemReport()
    arguments = list(_arguments(marked, _KEYS, report))
    report.end()
    return arguments


def _is_empty(path: Path | str) -> bool:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False  # `read` tells why
    return all(not line.strip() or line.lstrip().startswith("#") for line in lines)


def _arguments(marked: PlacedValue, known: Mapping[str, Any], report: ProblemReport) -> Iterator[str]:
    if not marked.is_mapping:
        report.add(marked, f"holds keys of mongod: {', '.join(known)}")
        return
    for name, inner in marked.members.items():
        key = known.get(str(name))
        if key is None:
            report.add(marked, unknown("key", name, known).message, place=marked.keys.get(str(name)))
        elif isinstance(key, _Key):
            yield from _of_key(inner, key, report)
        else:
            yield from _arguments(inner, key, report)


def _of_key(marked: PlacedValue, key: _Key, report: ProblemReport) -> list[str]:
    value = marked.value
    if not _IS[key.kind](value):
        report.add(marked, f"{value!r} is not {key.kind}")
    elif key.choices and value not in key.choices:
        report.add(marked, unknown("value", value, key.choices).message)
    else:
        return key.arguments(value)
    return []

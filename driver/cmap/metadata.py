"""Client metadata: the `client` document of the handshake, cut to the size that a server accepts."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import bson

from driver.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "pushbackd"
VERSION = "0.1.0"
MAX_METADATA_SIZE = 512
MAX_APP_NAME_SIZE = 128
DELIMITER = "|"


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """A library that wraps this driver (Handshake: Supporting Wrapping Libraries).

    Empty text is as good as none. Raises ConfigurationError without a name, and for text with a `|`, which
    stands between several libraries.
    """

    name: str
    version: str | None = None
    platform: str | None = None

    def __post_init__(self) -> None:
        """Make empty text None, so that equal libraries are equal values."""
        if not self.name:
            raise ConfigurationError("a library that wraps the driver needs a name")
        for field in ("version", "platform"):
            object.__setattr__(self, field, getattr(self, field) or None)
        for text in (self.name, self.version, self.platform):
            if text is not None and DELIMITER in text:
                raise ConfigurationError(
                    f"{text!r} holds a {DELIMITER}, which driver metadata keeps for itself"
                )


class Metadata:
    """A client's metadata, which may grow: each connection says what was known when it began."""

    def __init__(self, app_name: str | None, wrapper: DriverInfo | None = None) -> None:
        self._app_name = app_name
        self._wrappers = () if wrapper is None else (wrapper,)
        self.document = client_metadata(app_name, self._wrappers)
        """What the next handshake sends."""

    def append(self, wrapper: DriverInfo) -> None:
        """Handshake: Metadata Updates. A library that has been named already is not named again."""
        if wrapper not in self._wrappers:
            self._wrappers = (*self._wrappers, wrapper)
            self.document = client_metadata(self._app_name, self._wrappers)


def client_metadata(app_name: str | None, wrappers: Sequence[DriverInfo] = ()) -> dict[str, Any]:
    """Return the document (Handshake: Connection Handshake). Raises ConfigurationError for a long name."""
    if app_name is not None and len(app_name.encode()) > MAX_APP_NAME_SIZE:
        raise ConfigurationError(f"appName has more than {MAX_APP_NAME_SIZE} bytes")
    application = {"application": {"name": app_name}} if app_name is not None else {}
    return fitted(
        {
            **application,
            "driver": {
                "name": _joined(NAME, [wrapper.name for wrapper in wrappers]),
                "version": _joined(VERSION, [wrapper.version for wrapper in wrappers]),
            },
            "os": {
                "type": platform.system(),
                "name": platform.system(),
                "architecture": platform.machine(),
                "version": platform.release(),
            },
            "platform": _joined(
                f"{platform.python_implementation()} {platform.python_version()}",
                [wrapper.platform for wrapper in wrappers],
            ),
        }
    )


def _joined(own: str, appended: Sequence[str | None]) -> str:
    return DELIMITER.join([own, *(text for text in appended if text is not None)])


def fitted(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document, cut step by step until it fits (Handshake: Limitations)."""
    if _size(document) > MAX_METADATA_SIZE:
        document = {**document, "os": {"type": document["os"]["type"]}}
    if _size(document) > MAX_METADATA_SIZE:
        platform = document["platform"].encode()
        excess = _size(document) - MAX_METADATA_SIZE
        # Cut by bytes, as these are what counts; half a character at the end is left out.
        kept = platform[: max(0, len(platform) - excess)].decode(errors="ignore")
        document = {**document, "platform": kept}
    return document


def _size(document: dict[str, Any]) -> int:
    return len(bson.encode(document))

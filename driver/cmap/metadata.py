"""Who we are: the `client` document of the handshake, cut to the size that a server accepts."""

from __future__ import annotations

import platform
from typing import Any

import bson

from driver.errors import ConfigurationError

NAME = "pushbackd"
VERSION = "0.1.0"
MAX_METADATA_SIZE = 512
MAX_APP_NAME_SIZE = 128


def client_metadata(app_name: str | None) -> dict[str, Any]:
    """Return the document (Handshake: Connection Handshake). Raises ConfigurationError for a long name."""
    if app_name is not None and len(app_name.encode()) > MAX_APP_NAME_SIZE:
        raise ConfigurationError(f"appName has more than {MAX_APP_NAME_SIZE} bytes")
    application = {"application": {"name": app_name}} if app_name is not None else {}
    return fitted(
        {
            **application,
            "driver": {"name": NAME, "version": VERSION},
            "os": {
                "type": platform.system(),
                "name": platform.system(),
                "architecture": platform.machine(),
                "version": platform.release(),
            },
            "platform": f"{platform.python_implementation()} {platform.python_version()}",
        }
    )


def fitted(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document, cut step by step until it fits (Handshake: Limitations)."""
    if _size(document) > MAX_METADATA_SIZE:
        document = {**document, "os": {"type": document["os"]["type"]}}
    if _size(document) > MAX_METADATA_SIZE:
        document = {**document, "platform": _shortened(document)}
    return document


def _shortened(document: dict[str, Any]) -> str:
    text: str = document["platform"]
    excess = _size(document) - MAX_METADATA_SIZE
    return text.encode()[: max(0, len(text.encode()) - excess)].decode(errors="ignore")


def _size(document: dict[str, Any]) -> int:
    return len(bson.encode(document))

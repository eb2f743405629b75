"""The server API version that a client declares (`Versioned API`).

A declaration goes with every command: of operations, `getMore` and transactions included, of the handshake,
of authentication and of monitoring. A command of the user's own making gets it too, unlooked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from driver.errors import ConfigurationError

VERSIONS: Final = ("1",)
"""The versions that this driver knows: `ServerApiVersion`."""


@dataclass(frozen=True, slots=True)
class ServerApi:
    """Versioned API: ServerApi. What is None is not sent, and the server's default holds.

    `strict` has the server refuse what is not part of the version, `deprecation_errors` what is deprecated in
    it. Raises ConfigurationError for a version that this driver does not know.
    """

    version: str = "1"
    strict: bool | None = None
    deprecation_errors: bool | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown version: what it means for this driver cannot be known."""
        if self.version not in VERSIONS:
            known = ", ".join(VERSIONS)
            raise ConfigurationError(f"unknown server API version {self.version!r}; known is {known}")

    def fields(self) -> dict[str, Any]:
        """Return what commands carry (Versioned API: Sending Declared API Version to the Server)."""
        fields = {
            "apiVersion": self.version,
            "apiStrict": self.strict,
            "apiDeprecationErrors": self.deprecation_errors,
        }
        return {name: value for name, value in fields.items() if value is not None}

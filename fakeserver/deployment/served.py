"""The form of a door that listens: its address, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable


class Served(Protocol):
    """The HTTP door of a running deployment. It ends with the deployment at the latest."""

    @property
    def url(self) -> str:
        """Its address: `http://127.0.0.1:8889`."""

    @property
    def token(self) -> str:
        """The token that every request must have (`Authorization: Bearer …`)."""

    @property
    def page(self) -> str:
        """The address of the page with the token: whoever opens it controls the deployment."""

    def aclose(self) -> Awaitable[None]:
        """Stop listening, and return when every connection has ended."""

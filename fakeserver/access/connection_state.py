"""The state of one connection on a server."""

from __future__ import annotations

from typing import Any

from fakeserver.access.session import Identity


class ConnectionState:
    """The client of one connection. `id` is the `connectionId` of its hello replies."""

    def __init__(self, connection_id: int, peer: str, accepted: float) -> None:
        self.id = connection_id
        self.peer = peer
        self.accepted = accepted
        """The instant of its acceptance, on the node's clock."""
        self.thread_name = f"conn{connection_id}"
        self.metadata: dict[str, Any] | None = None
        self.exemption: tuple[int, bool, bool] | None = None
        """The last decision about exemption from the request rate limiter, after the facts it rests on."""
        self.app_name = ""
        self.internal_client = False
        self.hello_ok = False
        self.compressors: tuple[str, ...] | None = None
        self.identity = Identity()
        self.secure = False
        self.certificate_subject: str | None = None
        """Whom the client's certificate was made out to, as RFC 2253 writes it."""
        self.balanced = False
        """Whether it came through a load balancer."""
        self.has_priority = False
        """Whether it came through the port for operators, where no limit applies."""
        self.limit_exempt = False
        """Whether the limit of open connections does not apply to it."""
        self.greeted = False
        """Whether it has said hello."""
        self.hang_up = False
        """Set while a command runs: close instead of answering it."""

"""A command on its way from a mongos to a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakeserver.admission.rate_limiter import Reserved
    from fakeserver.admission.shard_retries import ShardClient, ShardOperation
    from fakeserver.deployment.node import Node
    from fakeserver.errors import CommandError
    from fakeserver.settings.failpoints import CommandFault


class ShardCall:
    """A command that a mongos passes on: the member that has it, and its wait there."""

    def __init__(self, client: ShardClient) -> None:
        self.client = client
        """The mongos's client of the shard, with its retry budget."""
        self.operation: ShardOperation = client.begin()
        """The attempts so far, and the members that refused them."""
        self.target: Node | None = None
        """The member that has it, None between two attempts."""
        self.refused_by: Node | None = None
        """The member that refused the last attempt."""
        self.retry_at: float | None = None
        """The instant of the next attempt, None while there is no backoff."""
        self.fault: CommandFault | None = None
        """The work of the member's `failCommand` on this attempt."""
        self.blocked_until = 0.0
        """The instant at which that fail point lets it go."""
        self.reservation: Reserved | None = None
        """Its token on credit at the member's rate limiter."""
        self.gave_up_by: CommandError | None = None
        """The error after which the mongos has given it up."""
        self.queued = False
        """It waits for that token, so a withdrawal is counted as an interruption."""

    def withdraw(self) -> None:
        """End an attempt, and give back the token that it has not used."""
        if self.reservation is not None and self.target is not None:
            limiter = self.target.admission.requests
            (limiter.interrupt if self.queued else limiter.drop)()
        self.reservation, self.queued, self.target, self.fault = None, False, None, None

"""The options of a pool."""

from __future__ import annotations

from dataclasses import dataclass

POPULATION_PAUSE = 1.0
"""Seconds between a failure to populate the pool and the next attempt."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Connection Pool Options. Times are in seconds; 0 is no limit."""

    max_size: int = 100
    min_size: int = 0
    max_connecting: int = 2
    max_idle: float = 0.0
    wait_queue_timeout: float = 0.0
    load_balanced: bool = False

    def named(self) -> dict[str, int]:
        """Return the options by URI name."""
        return {
            "maxPoolSize": self.max_size,
            "minPoolSize": self.min_size,
            "maxConnecting": self.max_connecting,
            "maxIdleTimeMS": round(self.max_idle * 1000),
            "waitQueueTimeoutMS": round(self.wait_queue_timeout * 1000),
        }

    def non_default(self) -> dict[str, int]:
        """Return what PoolCreatedEvent reports: options that differ from their defaults, by URI name."""
        defaults = PoolOptions().named()
        return {name: value for name, value in self.named().items() if value != defaults[name]}

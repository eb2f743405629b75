"""What a client's options mean to the parts that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from driver.cmap.state import PoolOptions
from driver.policy.retry import RetryPolicy
from driver.policy.token_bucket import NoBudget, TokenBucket
from driver.sdam import transitions
from driver.sdam.selection import Window

if TYPE_CHECKING:
    from driver.editions import Edition
    from driver.options import ClientOptions
    from driver.sdam.description import TopologyDescription


def initial_topology(options: ClientOptions) -> TopologyDescription:
    """Return what is known before anybody was asked (SDAM: Initial TopologyType)."""
    return transitions.initial(
        options.seeds,
        set_name=options.replica_set,
        direct=options.direct_connection,
        load_balanced=options.load_balanced,
    )


def window(options: ClientOptions) -> Window:
    """Return how near a server must be (Server Selection: localThresholdMS)."""
    return Window(options.local_threshold, options.heartbeat_frequency)


def handshake_timeout(options: ClientOptions, *, monitoring: bool) -> float:
    """Return the seconds for a handshake's command. Monitors know neither of the two options."""
    if monitoring:
        return options.connect_timeout
    if options.timeout is not None:
        return options.timeout
    return options.socket_timeout or options.connect_timeout


def pool_options(options: ClientOptions) -> PoolOptions:
    """Return what each server's pool is set to (CMAP: Connection Pool Options)."""
    return PoolOptions(
        max_size=options.max_pool_size,
        min_size=options.min_pool_size,
        max_connecting=options.max_connecting,
        max_idle=options.max_idle_time,
        wait_queue_timeout=options.wait_queue_timeout,
        load_balanced=options.load_balanced,
    )


def retry_policy(options: ClientOptions, edition: Edition) -> RetryPolicy:
    """Return what decides on retries."""
    return RetryPolicy.of(
        edition, retries=options.max_adaptive_retries, retargeting=options.overload_retargeting
    )


def retry_budget(options: ClientOptions, edition: Edition) -> TokenBucket | NoBudget:
    """Return what pays for retries: with adaptiveRetries a token bucket of the client's own."""
    return TokenBucket() if options.adaptive_retries and edition.has_token_bucket else NoBudget()

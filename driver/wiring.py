"""The wiring of a client: the parts that its options make."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from driver.cmap.options import PoolOptions
from driver.cmap.pool import Pool
from driver.policy.backpressure import NoBudget, TokenBucket
from driver.policy.retry import RetryPolicy
from driver.sdam import transitions
from driver.sdam.monitor import Monitor, MonitorPorts
from driver.sdam.selection import Window
from driver.sdam.topology import TopologyPorts

if TYPE_CHECKING:
    from collections.abc import Callable

    from driver.cmap.handshake import Handshake
    from driver.cmap.pool import PoolPorts
    from driver.editions import Edition
    from driver.events import DriverEvent
    from driver.options import ClientOptions
    from driver.sdam.description import TopologyDescription
    from mongowire.ports import Clock, Rng


def initial_topology(options: ClientOptions) -> TopologyDescription:
    """Return what is known before anybody was asked (SDAM: Initial TopologyType)."""
    return transitions.initial(
        options.seeds,
        set_name=options.replica_set,
        direct=options.direct_connection,
        load_balanced=options.load_balanced,
    )


def handshake_timeout(options: ClientOptions, *, monitoring: bool) -> float:
    """Return the seconds for a handshake's command. Monitors know neither of the two options."""
    if monitoring:  # Server Monitoring has neither timeoutMS nor socketTimeoutMS hold for monitors
        return options.connect_timeout
    if options.timeout is not None:
        return options.timeout
    return options.socket_timeout or options.connect_timeout


def population_timeout(options: ClientOptions) -> float:
    """Return the seconds for a handshake's command on a connection that fills a pool; 0 is no limit.

    Background Connection Pooling has timeoutMS limit these commands. But timeoutMS is how long an application
    waits, and for these connections nobody does: where it is shorter than one round trip to a slow server,
    the pool could never be filled to minPoolSize, and each operation would have to connect within its own
    timeout. So it lengthens connectTimeoutMS here and does not shorten it.
    """
    asked = handshake_timeout(options, monitoring=False)
    if options.timeout is None:
        return asked
    return max(asked, options.connect_timeout) if asked and options.connect_timeout else 0.0


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


def monitor_ports(
    options: ClientOptions,
    clock: Clock,
    handshake: Handshake,
    *,
    publish: Callable[[DriverEvent], None],
    report: Callable[[Any], None],
) -> MonitorPorts:
    """Return what the monitors have in common (Server Monitoring)."""
    return MonitorPorts(
        clock=clock,
        handshake=handshake,
        publish=publish,
        report=report,
        heartbeat_frequency=options.heartbeat_frequency,
        connect_timeout=options.connect_timeout,
        mode=options.server_monitoring_mode,
    )


def topology_ports(
    options: ClientOptions,
    clock: Clock,
    rng: Rng,
    *,
    publish: Callable[[DriverEvent], None],
    for_pools: PoolPorts,
    for_monitors: MonitorPorts,
) -> TopologyPorts:
    """Return what the topology makes its servers with: a pool and a monitor each."""
    populating = replace(for_pools.handshake, command_timeout=population_timeout(options))
    for_pools = replace(for_pools, populating=populating)
    return TopologyPorts(
        clock=clock,
        rng=rng,
        publish=publish,
        window=Window(options.local_threshold, options.heartbeat_frequency),
        make_pool=lambda address, pool: Pool(address, pool, for_pools),
        make_monitor=lambda address: Monitor(address, for_monitors),
        pool_options=pool_options(options),
    )


def retry_policy(options: ClientOptions, edition: Edition) -> RetryPolicy:
    """Return what decides on retries."""
    return RetryPolicy.of(
        edition, retries=options.max_adaptive_retries, retargeting=options.overload_retargeting
    )


def retry_budget(options: ClientOptions, edition: Edition) -> TokenBucket | NoBudget:
    """Return what pays for retries: with adaptiveRetries a token bucket of the client's own."""
    return TokenBucket() if options.adaptive_retries and edition.has_token_bucket else NoBudget()

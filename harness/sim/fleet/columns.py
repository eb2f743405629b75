"""The columns of a simulated fleet: where each number of clients, servers, strategies and windows lies.

Everything that changes is in five flat columns, which are NumPy arrays for compiled code and lists for plain
Python: the engine's source is the same for both. A client is a row of 16 numbers of 32 bits, so that an event
touches one line of the processor's cache.

A constant is an offset. Those of a row are added to `client * ROW`; those of what there is one of are places
themselves; those of members, strategies and outages are added to where their block begins, which is itself a
number (`…_AT`). The comment above each group says which. Some values are more than names: a link back stands
right behind its link forth (`PREVIOUS`, `AHEAD`), and kinds of events and of giving up are compared by their
order. `+ 0` behind a number of 32 bits makes it one of 64, so that no function is compiled for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import MutableSequence


class FleetWorld(NamedTuple):
    """The columns."""

    clients: MutableSequence[int]
    """Rows of `ROW` numbers of 32 bits."""
    waits: MutableSequence[float]
    """The last wait of each client, in seconds, for strategies that go on from it."""
    slots: MutableSequence[int]
    """Heads of lists and counters by tick, and the service times by concurrency; 32 bits."""
    numbers: MutableSequence[int]
    """What there is one of, then members, gates, strategies, outages, latencies and windows; 64 bits."""
    reals: MutableSequence[float]
    """The same for what is not whole."""


NOBODY: Final = -1
"""The end of a list."""

# --- a client's row ---

ROW: Final = 16
NEXT: Final = 0
PREVIOUS: Final = 1
"""Neighbours among those who have something coming at one tick; before the first comes the last."""
DUE: Final = 2
"""The tick of its own event."""
EVENT: Final = 3
"""The kind of its own event: one of those below."""
BEHIND: Final = 4
AHEAD: Final = 5
"""Neighbours in a list of a server; ahead of the first comes the last."""
BEGUN: Final = 6
"""The tick at which a server began its request."""
AT: Final = 7
"""The member that it asks, plus `GATE` times the gate."""
FIRST: Final = 8
"""The tick of its operation's first attempt."""
STARTED: Final = 9
"""The tick of its newest attempt."""
RETRY: Final = 10
"""The number of attempts before that one."""
AVOIDS: Final = 11
"""Bits of the gates that its retries avoid."""
CONNECTED: Final = 12
"""Bits of the gates that it has a connection to."""
RULES: Final = 13
"""Twice the number of its strategy, plus 1 once its operation has met an overload."""
DRAWS: Final = 14
"""The number of its draws so far: the next draw has the next number."""
EXTRA: Final = 15
"""In a queue: how many ahead of it, up to the next client, have gone. Else: when its work or wait ends."""
GATE: Final = 32

# --- kinds of events; from EXAMINED on they are kinds of giving up ---

IDLE: Final = 0
WAKE: Final = 1
ANSWER: Final = 2
READY: Final = 3
CONNECT: Final = 4
LOST: Final = 5
"""Its server has crashed."""
EXAMINED: Final = 6
"""A server works on it, and looks at it now and then."""
QUEUED: Final = 7
"""It waits for a ticket."""
BACKLOG: Final = 8
"""It waits for a paused server."""
DECIDED: Final = 9
"""A server works on it, and is done at `EXTRA`."""
UNREADY: Final = 10
"""It waits for a token of the request limiter, until `EXTRA`."""
UNCONNECTED: Final = 11
"""It waits for a token of the connection limiter, until `EXTRA`."""

# --- what there is one of: numbers ---

CLIENTS: Final = 0
TICKS: Final = 1
NOW: Final = 2
SEED: Final = 3
TIMEOUT: Final = 4
WHEEL: Final = 5
"""Slots of the wheel, less one: a mask."""
MEMBERS: Final = 6
GATES: Final = 7
MONGOS: Final = 8
"""1 where the gates are mongos, 0 where they are the members."""
SERVICE: Final = 9
"""Which model: `LOOKS`, `DECIDES` or `WORKS`."""
PERIOD: Final = 10
"""Ticks between two looks at a request."""
ABANDONED: Final = 11
"""When a server notices that a client has gone: `AT_ONCE`, `AT_A_CHECK` or `NEVER`."""
TICKETS: Final = 12
"""0 for no bound."""
MOST_BACKLOG: Final = 13
WORKERS: Final = 14
LIMITS_REQUESTS: Final = 15
REQUEST_DEPTH: Final = 16
LIMITS_CONNECTIONS: Final = 17
CONNECTION_DEPTH: Final = 18
ARRIVALS: Final = 19
"""`CLOSED`, `DEPLOY` or `OPEN`."""
STRATEGIES: Final = 20
OUTAGES: Final = 21
NEXT_CHANGE: Final = 22
WINDOW: Final = 23
"""Ticks of a window."""
WINDOWS: Final = 24
BUCKETS: Final = 25
"""The number of retry token buckets."""
TRACE: Final = 26
OTHER_TRACE: Final = 27
EVENTS: Final = 28
LATENCY_SUM: Final = 29
WAITED: Final = 30
ARRIVED: Final = 31
"""The number of arrivals from outside that were drawn, thinned ones among them."""
IDLE_FIRST: Final = 32
"""The first of those who are idle, where operations arrive from outside."""
TABLE_SIZE: Final = 33
EXPONENTIAL_SERVICE: Final = 34
RATES: Final = 35
"""The steps of the table of arrival rates; 0 for a rate that never changes."""
# Where parts of the columns begin.
CLASSES_AT: Final = 36
GONE_AT: Final = 37
OLDEST_AT: Final = 38
LEAVING_AT: Final = 39
MATURING_AT: Final = 40
TABLE_AT: Final = 41
WORKERS_AT: Final = 42
OUTAGES_AT: Final = 43
LATENCIES_AT: Final = 44
WINDOWS_AT: Final = 45
WINDOW_AT: Final = 46
"""Where the row of the present window begins."""
SERVED: Final = 47
"""The number of worker times that were drawn."""
RATES_AT: Final = 48
RETRY_TOKENS_AT: Final = 49
LEVELS_AT: Final = 50
REAL_STRATEGIES_AT: Final = 51
STRATEGIES_AT: Final = 52
LEVEL_AT: Final = 53
"""Where the levels of the present window begin."""
HAS_RINGS: Final = 54
"""1 where clients may go, so that there are counters of those who have gone, by tick."""
BOUNDS_AT: Final = 55
AT_WORK: Final = 56
"""Requests at work, at all members."""
PEAK: Final = 57
"""The most of them at a time in the present window."""
MEMBERS_AT: Final = 58

# --- members and gates: numbers ---

MEMBER: Final = 12
CONCURRENCY: Final = 0
PAUSED_UNTIL: Final = 1
DOWN_UNTIL: Final = 2
TICKET_QUEUE: Final = 3
"""The queue for tickets: its first client, its length, and how many who have gone are at its end."""
BACKLOG_QUEUE: Final = 6
FIRST_CLIENT: Final = 0
LENGTH: Final = 1
GONE_LAST: Final = 2
WAIT_REQUEST: Final = 9
"""Clients that wait for a token of the request limiter of this gate, those who have gone among them."""
WAIT_CONNECTION: Final = 10
BACKLOG_GONE: Final = 11
"""Requests in its backlog whose clients have gone."""

# --- strategies: numbers, then reals ---

STRATEGY: Final = 8
KIND: Final = 0
MOST_RETRIES: Final = 1
HAS_BUCKET: Final = 2
SHARING: Final = 3
BUCKET_AT: Final = 4
RETARGETS: Final = 5
FLAGS: Final = 6
"""Bits that each strategy gives its own meaning."""

SHARE: Final = 0
"""The share of this strategy and of those before it."""
INTERVAL: Final = 1
"""What is waited, or waited first; the base of a backoff."""
FACTOR: Final = 2
MAXIMUM: Final = 3
JITTER: Final = 4

# --- outages: numbers ---

OUTAGE: Final = 4
START: Final = 0
END: Final = 1
WHOM: Final = 2
IS_CRASH: Final = 3

# --- what there is one of: reals ---

TICK: Final = 0
REQUEST_RATE: Final = 1
REQUEST_BURST: Final = 2
CONNECTION_RATE: Final = 3
CONNECTION_BURST: Final = 4
GAP: Final = 5
WITHIN: Final = 6
ARRIVAL_GAP: Final = 7
"""Ticks between two arrivals at the highest rate, on average."""
NEXT_ARRIVAL: Final = 8
WORK: Final = 9
"""A worker's mean time, in ticks."""
CAPACITY: Final = 10
"""The most that a retry token bucket holds."""
TOLD: Final = 11
"""The base of a backoff that an error carries, 0 for none."""
REJECTION: Final = 12
"""The ticks of a worker that a rejection takes."""
ZEROS_AT: Final = 13
"""Zero times of the gates' buckets: of requests, and of connections, in turn."""

# --- names of the models ---

LOOKS: Final = 0
DECIDES: Final = 1
WORKS: Final = 2
AT_ONCE: Final = 0
AT_A_CHECK: Final = 1
NEVER: Final = 2
CLOSED: Final = 0
DEPLOY: Final = 1
OPEN: Final = 2

# --- kinds of draws ---

DRAW_GAP: Final = 1
DRAW_RETRY: Final = 2
DRAW_SERVER: Final = 3
DRAW_FLEET: Final = 4
DRAW_ARRIVAL: Final = 5
DRAW_THINNING: Final = 6
DRAW_WORK: Final = 7
NO_CLIENT: Final = 0xFFFFFFFF
"""Whose dice are rolled for what is no client's."""

# --- columns of a window; as in `outcome.COUNTS` and `outcome.LEVELS` ---

COUNTED: Final = 10
OFFERED: Final = 0
ATTEMPTS: Final = 1
OK: Final = 2
ERRORS: Final = 3
TIMED_OUT: Final = 4
REJECTED: Final = 5
GONE: Final = 6
FAILED: Final = 7
TURNED_AWAY: Final = 8
COMPLETED: Final = 9
LEVELS: Final = 6

FINE: Final = 64
"""Parts that an octave of the latencies has."""
LATENCY_BINS: Final = FINE * 27

"""Oracles: rules of the specifications as functions of what servers saw and clients said in a case.

An oracle knows nothing of the case but what ran and what came of it, so it holds for every case, drawn or
written. Each is a small function from a `Trace` to sentences, and a row of the table.

`sections` has `making` build the `Trace` of a case that has run, and `breaches` hands it to the oracles that
the case names. `trace` is the vocabulary: operations with their commands, commands with their attempts,
clients with their events, connections with their lives. The judges, by what they look at:

- commands on the wire: `attempts` (retried or not, where to), `waits` (when), `transaction_ids` (numbers and
  sessions), `tokens`, with `permits` as their common rules of what may be retried;
- the application: `errors` (what was raised), `data` (what is stored), `command_events` (what was told);
- connections on the wire: `connections`, `monitors`;
- pools by their events: `pools`, `queues`, `interruptions`, `logs`. `pool_life` is the state machine and
  `pool_events` feeds it.

A false alarm is worse than a miss: drivers in other languages are judged by this, and each alarm costs
somebody an investigation. So each oracle leaves out what it cannot know: operations that ran beside others
(`is_alone`), those during which a connection could not be had (`is_disturbed`), deadlines (`is_timed`), and
on the wall clock most that happens between threads (`timing.round_trip` is None). The cost is that some
breaches need another case to show.

A new rule is a function in one of these files and a row of `_TABLE`; the order of rows is the order in which
breaches are told. `features` switches a row off for drivers that do not tell what it needs. Tests hold most
oracles against a history that keeps the rule and one that breaks it, and list the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.adapters.base import Feature
from harness.unified.server_side.oracles import (
    attempts,
    command_events,
    connections,
    data,
    errors,
    interruptions,
    logs,
    monitors,
    pool_events,
    pools,
    queues,
    tokens,
    transaction_ids,
    waits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from harness.unified.server_side.oracles.trace import Trace


@dataclass(frozen=True, slots=True)
class Oracle:
    """A rule as a function: it yields a sentence for each breach that a case shows.

    `rules` are the ids of docs/CONFORMANCE.md, `features` what the driver's adapter must have for it to be
    asked. `sentence` is the rule in words.
    """

    name: str
    sentence: str
    check: Callable[[Trace], Iterator[str]]
    rules: tuple[str, ...] = ()
    features: frozenset[Feature] = frozenset()

    def breaches(self, trace: Trace) -> Iterator[str]:
        """Yield a sentence for each breach; none where the adapter lacks what it takes to judge."""
        if self.features <= trace.features:
            yield from self.check(trace)

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.rules)})" if self.rules else self.name


ALL: Final = "all"
"""What stands for every oracle."""

_COMMANDS: Final = frozenset({Feature.COMMAND_EVENTS})
_POOLS: Final = frozenset({Feature.POOL_EVENTS})
_SERVERS: Final = frozenset({Feature.POOL_EVENTS, Feature.SDAM_EVENTS})
_CHECKS: Final = frozenset({Feature.SDAM_EVENTS})
_LOGS: Final = frozenset({Feature.POOL_EVENTS, Feature.LOG_MESSAGES})

_TABLE: Final = (
    Oracle(
        "retried",
        "Only what may be retried is sent again.",
        attempts.only_what_may_be_retried,
        ("RW-11", "RW-17", "RW-19", "RW-21", "RW-22", "RW-34", "RW-42", "CB-1", "CB-29", "CB-32"),
    ),
    Oracle(
        "limit",
        "No command is sent more often than its edition allows.",
        attempts.not_too_often,
        ("RW-44", "CB-13", "CB-28", "CB-30", "CB-36"),
    ),
    Oracle(
        "given-up",
        "What is to be retried is retried, as often as its edition says.",
        attempts.as_often_as_may_be,
        ("RW-24", "RW-44", "CB-4", "CB-30", "CB-32", "CB-36"),
    ),
    Oracle(
        "avoided",
        "A retry in a sharded cluster goes to a mongos that has not failed, while there is one.",
        attempts.avoids_failed_servers,
        ("RW-46", "CB-3"),
    ),
    Oracle(
        "retargeting",
        "A retry after overload stays with the preferred server where nobody asked for another one.",
        attempts.stays_where_it_is,
    ),
    Oracle(
        "bulk-ends",
        "A bulk write ends with a command that failed.",
        attempts.a_failed_command_ends_a_bulk_write,
        ("RW-63",),
    ),
    Oracle(
        "transaction-id",
        "A retry has the transaction id of the first attempt.",
        transaction_ids.one_transaction_id,
        ("RW-51", "CB-5"),
    ),
    Oracle(
        "new-number",
        "Each command has a larger transaction number than any before in its session.",
        transaction_ids.another_number_for_each_command,
        ("RW-31", "RW-32", "RW-37"),
    ),
    Oracle(
        "number-type",
        "Transaction numbers are positive and of 64 bits.",
        transaction_ids.numbers_are_positive_longs,
        ("RW-36",),
    ),
    Oracle(
        "numbered",
        "Retryable writes have a transaction number, and nothing else has.",
        transaction_ids.numbers_where_they_belong,
        ("RW-5", "RW-7", "RW-16", "RW-18", "RW-21", "RW-33", "RW-34", "RW-39", "RW-60"),
    ),
    Oracle(
        "unacknowledged",
        "An unacknowledged write is sent once.",
        transaction_ids.unacknowledged_writes_are_sent_once,
        ("RW-17",),
    ),
    Oracle(
        "start",
        "The first command of a transaction starts it, its retry too, and no other does.",
        transaction_ids.a_transaction_is_started_once,
        ("CB-4",),
    ),
    Oracle(
        "commit",
        "A commit that may have been applied is sent again with a majority, another one as it was.",
        transaction_ids.an_uncertain_commit_asks_for_a_majority,
        ("CB-4",),
    ),
    Oracle(
        "dirty-session",
        "A session in which a command was lost is not lent again.",
        transaction_ids.a_session_that_lost_a_command_is_not_lent,
    ),
    Oracle(
        "ended-sessions",
        "A session is ended once.",
        transaction_ids.sessions_are_ended_once,
        ("CB-26",),
    ),
    Oracle(
        "shared-session",
        "A session is with one operation at a time.",
        transaction_ids.sessions_are_not_shared,
    ),
    Oracle(
        "expired-session",
        "A session of which less than a minute is left is not lent.",
        transaction_ids.sessions_are_lent_before_they_expire,
    ),
    Oracle(
        "newest-session",
        "The session that was given back last is lent first.",
        transaction_ids.the_session_used_last_is_lent_first,
    ),
    Oracle(
        "cursor-server",
        "A cursor is continued and killed on the server that has it.",
        attempts.cursors_stay_where_they_are,
    ),
    Oracle(
        "with-transaction",
        "A transaction whose errors allow it begins anew for 120 seconds, and no longer.",
        waits.transactions_begin_anew_for_two_minutes,
    ),
    Oracle(
        "commit-result",
        "The result of a commit is unknown after those errors that leave it so.",
        errors.a_commit_tells_whether_its_result_is_known,
    ),
    Oracle(
        "read-preference",
        "A read says its read preference, but to a standalone.",
        attempts.reads_say_their_preference,
    ),
    Oracle(
        "concerns",
        "Reads say their read concern and writes their write concern, where they have one.",
        attempts.concerns_are_said,
    ),
    Oracle(
        "cluster-time",
        "Every command carries the newest $clusterTime that its client has heard.",
        transaction_ids.cluster_time_is_gossiped,
        ("RW-52",),
    ),
    Oracle(
        "backoff",
        "A retry after overload comes within its backoff.",
        waits.backoff_within_bounds,
        ("CB-2", "CB-28", "CB-40", "CB-42"),
    ),
    Oracle("no-wait", "Other retries come at once.", waits.no_wait_without_overload, ("CB-12",)),
    Oracle("jitter", "Backoffs are spread evenly.", waits.jitter_is_uniform, ("CB-2",)),
    Oracle("dice", "Each backoff has a jitter of its own.", waits.waits_differ, ("CB-2",)),
    Oracle(
        "some-wait",
        "Backoffs are not all next to nothing.",
        waits.backoffs_are_not_all_next_to_nothing,
        ("CB-2",),
    ),
    Oracle(
        "backoff-connection",
        "A client that waits before a retry holds no connection.",
        waits.no_connection_is_kept_during_a_backoff,
        features=_POOLS,
    ),
    Oracle(
        "deadline",
        "No operation outlives its timeoutMS, and none waits for a retry that would come too late.",
        waits.deadlines_are_kept,
        ("CB-31", "CB-39", "CMAP-58"),
    ),
    Oracle(
        "ends-at-once",
        "An operation that is given up after overload ends at once.",
        waits.what_is_given_up_ends_at_once,
        ("CB-2", "CB-34", "CB-39"),
    ),
    Oracle(
        "tokens",
        "Retries after overload cost a token each, and what succeeds earns them.",
        tokens.the_bucket_holds_what_was_earned,
        ("CB-8", "CB-9", "CB-10", "CB-11", "CB-35", "CB-37"),
        frozenset({Feature.RETRY_TOKENS}),
    ),
    Oracle(
        "outcome",
        "An operation fails if its last attempt did, and succeeds if that did.",
        errors.success_and_failure_reach_the_application,
        ("RW-12", "CB-6"),
    ),
    Oracle(
        "error",
        "Of the errors of several attempts the one is raised that tells most.",
        errors.the_error_that_tells_most,
        ("RW-61", "RW-62", "CB-6", "CB-33"),
    ),
    Oracle(
        "labels",
        "The labels of an error reach the application, and no others.",
        errors.labels_reach_the_application,
        ("RW-25", "RW-26", "RW-28", "RW-29"),
    ),
    Oracle(
        "error-address",
        "An error that names a server names the one that it came from.",
        errors.an_error_has_the_address_of_its_server,
        ("RW-49",),
    ),
    Oracle(
        "transient",
        "A lost connection in a transaction is a TransientTransactionError, and no RetryableWriteError.",
        errors.an_uncertain_statement_is_transient,
        ("RW-23",),
    ),
    Oracle(
        "establishing",
        "A connection that is lost before it authenticates is an error of overload, a later one is not.",
        errors.what_could_not_be_established_is_overload,
        ("CB-6", "CB-27"),
        _POOLS,
    ),
    Oracle(
        "data",
        "What was acknowledged is there, and nothing twice.",
        data.what_was_acknowledged_is_there_once,
        ("RW-51",),
    ),
    Oracle(
        "ended-commands",
        "Every command that was told of to start is told of to end.",
        command_events.every_command_that_started_ends,
        ("RW-54", "CB-20"),
        _COMMANDS,
    ),
    Oracle(
        "told-attempts",
        "Every attempt has events of its own.",
        command_events.every_attempt_has_events,
        ("RW-55", "RW-56", "CB-21"),
        _COMMANDS,
    ),
    Oracle(
        "operation-id",
        "The attempts of a command have one operationId, and those of another operation another.",
        command_events.attempts_share_an_operation_id,
        ("RW-57",),
        _COMMANDS,
    ),
    Oracle(
        "handshake",
        "The handshake declares backpressure as the edition says.",
        connections.the_handshake_declares_backpressure,
        ("CB-18",),
    ),
    Oracle(
        "handshake-once",
        "A handshake or a login that was refused is not repeated on its connection.",
        connections.what_establishes_is_sent_once,
        ("CB-27",),
    ),
    Oracle(
        "metadata",
        "The connections of a pool say the same of their client, in 512 bytes at most.",
        connections.clients_say_who_they_are_in_512_bytes,
    ),
    Oracle(
        "compression",
        "A message is compressed as both sides said they can, and none that greets or authenticates.",
        connections.only_what_may_be_is_compressed,
    ),
    Oracle(
        "monitor-hellos",
        "A check waits for news where it says what it knows and for how long, and allows further answers.",
        monitors.checks_ask_for_news_as_they_may,
    ),
    Oracle(
        "monitor-connections",
        "One connection checks a server, and another measures round trips while that streams.",
        monitors.one_connection_checks_a_server,
    ),
    Oracle(
        "round-trips",
        "While a connection waits for news, round trips are measured every heartbeatFrequencyMS.",
        monitors.round_trips_are_measured_beside_a_stream,
    ),
    Oracle(
        "refused-check",
        "A check that was refused ends its connection, and the next one has another.",
        monitors.a_refused_check_ends_its_connection,
    ),
    Oracle(
        "cancelled-check",
        "A connection lost under a command or a login ends the check that waits for news of its server.",
        monitors.a_lost_connection_cancels_the_check_under_way,
    ),
    Oracle(
        "check-pace",
        "Checks follow one another no sooner than they may, and no later than they should.",
        monitors.checks_keep_their_pace,
        features=_CHECKS,
    ),
    Oracle(
        "check-limit",
        "A check ends after connectTimeoutMS, and one that waits for news after heartbeatFrequencyMS more.",
        monitors.checks_take_no_longer_than_they_may,
        features=_CHECKS,
    ),
    Oracle(
        "heartbeats",
        "A check is told to begin and then to end, once, and takes the time between.",
        monitors.heartbeats_begin_and_end,
        features=_CHECKS,
    ),
    Oracle(
        "check-result",
        "A server whose check failed is Unknown, and its pool paused, until one succeeds.",
        monitors.a_failed_check_makes_its_server_unknown,
        features=_SERVERS,
    ),
    Oracle(
        "max-connecting",
        "No more than maxConnecting connections are established at once.",
        connections.no_more_are_established_at_once,
        ("CMAP-39", "CMAP-151"),
    ),
    Oracle(
        "max-pool-size",
        "No more than maxPoolSize connections are open.",
        connections.no_more_are_open,
        ("CMAP-38", "CMAP-151"),
    ),
    Oracle(
        "one-request",
        "A connection carries one request and its reply at a time.",
        connections.one_request_at_a_time,
        ("CMAP-22", "CMAP-23"),
    ),
    Oracle(
        "idle",
        "No connection is used that was idle for longer than maxIdleTimeMS.",
        connections.idle_connections_are_not_used,
        ("CMAP-60", "CMAP-154"),
    ),
    Oracle(
        "socket",
        "A connection that was told to be closed is closed.",
        connections.closed_connections_are_closed,
        ("CMAP-47",),
        _POOLS,
    ),
    Oracle(
        "pool-grammar",
        "Events of pools and connections come in the order of their lives, and within their sizes.",
        pools.pools_keep_the_grammar,
        (
            "CMAP-40",
            "CMAP-45",
            "CMAP-60",
            "CMAP-66",
            "CMAP-68",
            "CMAP-80",
            "CMAP-108",
            "CMAP-158",
            "CMAP-160",
        ),
        _POOLS,
    ),
    Oracle(
        "closed-reason",
        "A connection is closed for the reason that its event tells.",
        pools.connections_are_closed_for_a_reason,
        ("CMAP-43", "CMAP-135", "CMAP-154"),
        _POOLS,
    ),
    Oracle(
        "broken-reason",
        "A connection that was lost under a command is closed for that.",
        pools.a_connection_that_failed_is_closed_for_it,
        ("CMAP-135",),
        _POOLS,
    ),
    Oracle(
        "check-out-reason",
        "A check-out fails for the reason that its event tells.",
        pools.check_outs_fail_for_a_reason,
        ("CMAP-140", "CMAP-156"),
        _POOLS,
    ),
    Oracle(
        "numbers",
        "The connections of a pool are 1, 2, 3 ….",
        pools.connections_are_numbered,
        ("CMAP-25",),
        _POOLS,
    ),
    Oracle(
        "durations",
        "The durations of events are the times between them.",
        pools.durations_are_those_of_the_events,
        ("CMAP-132", "CMAP-139", "CMAP-142"),
        _POOLS,
    ),
    Oracle(
        "pool-options",
        "A pool tells the options that it was given.",
        pools.pools_tell_their_options,
        ("CMAP-122",),
        _POOLS,
    ),
    Oracle(
        "cleared",
        "A lost connection clears its pool.",
        pools.lost_connections_clear_the_pool_once,
        ("CMAP-91", "CMAP-92", "RW-43", "RW-48"),
        _POOLS,
    ),
    Oracle(
        "not-cleared",
        "No pool is cleared but for an error that says that its server is gone.",
        pools.nothing_else_clears_the_pool,
        features=_POOLS,
    ),
    Oracle(
        "server-first",
        "A server is Unknown before its pool is cleared, and its pool is ready before it is known.",
        pool_events.pools_follow_their_servers,
        ("CMAP-79",),
        _SERVERS,
    ),
    Oracle(
        "filled", "A ready pool is filled up to minPoolSize.", pools.pools_are_filled, ("CMAP-54",), _POOLS
    ),
    Oracle(
        "not-overfilled",
        "A connection is made for who waits for one, or to reach minPoolSize.",
        pools.pools_are_not_overfilled,
        ("CMAP-54", "CMAP-59"),
        _POOLS,
    ),
    Oracle(
        "served",
        "A check-out waits only while no connection is available and none may be made.",
        pools.check_outs_wait_for_a_reason,
        ("CMAP-38", "CMAP-39", "CMAP-66"),
        _POOLS,
    ),
    Oracle(
        "fair",
        "Who waits longest for a connection is served first.",
        queues.who_waits_longest_is_served_first,
        ("CMAP-27", "CMAP-64"),
        _POOLS,
    ),
    Oracle(
        "wait-limit",
        "No check-out waits longer than waitQueueTimeoutMS, or in a pool that is not ready.",
        queues.check_outs_wait_no_longer_than_they_may,
        ("CMAP-12", "CMAP-29", "CMAP-44", "CMAP-66", "CMAP-83", "CMAP-152"),
        _POOLS,
    ),
    Oracle(
        "check-out-cause",
        "A check-out fails as connectionError where a connection has failed.",
        queues.failed_check_outs_have_a_cause,
        ("CMAP-79", "CMAP-140"),
        _POOLS,
    ),
    Oracle(
        "last-used",
        "Of the connections that are available the one is lent that was used last.",
        queues.what_was_used_last_is_lent_first,
        ("CMAP-59",),
        _POOLS,
    ),
    Oracle(
        "swept",
        "Stale and idle connections leave in the background.",
        queues.perished_connections_leave_by_themselves,
        ("CMAP-101", "CMAP-102"),
        _POOLS,
    ),
    Oracle(
        "failed-handshake",
        "The error of a handshake is that of the check-out that it was for.",
        queues.a_failed_handshake_is_told_to_its_caller,
        ("CMAP-61",),
        _POOLS,
    ),
    Oracle(
        "interrupts",
        "A check that timed out interrupts what is in use, and nothing else does.",
        interruptions.a_check_that_timed_out_interrupts,
        ("CMAP-79", "CMAP-149", "CMAP-161"),
        _POOLS,
    ),
    Oracle(
        "interrupted",
        "A clear that interrupts closes what is in use and what is being established.",
        interruptions.a_clear_that_interrupts_closes_what_is_in_use,
        ("CMAP-85", "CMAP-86"),
        _POOLS,
    ),
    Oracle(
        "let-be",
        "A clear that does not interrupt leaves what is in use alone.",
        interruptions.what_is_in_use_is_let_be,
        ("CMAP-161",),
        _POOLS,
    ),
    Oracle(
        "interrupted-again",
        "A read that a clear has interrupted is tried again.",
        interruptions.an_interrupted_operation_is_tried_again,
        ("CMAP-89",),
        _POOLS,
    ),
    Oracle(
        "told-interruption",
        "The error of an operation that a clear has interrupted names the server and the monitor's timeout.",
        interruptions.an_interrupted_operation_is_told_why,
        ("CMAP-90",),
        _POOLS,
    ),
    Oracle(
        "closing",
        "A pool closes what is available before it tells that it is closed.",
        pools.closing_closes_connections_first,
        ("CMAP-35", "CMAP-42", "CMAP-43", "CMAP-44"),
        _POOLS,
    ),
    Oracle(
        "stale-check-in",
        "A connection is closed when it is checked in stale, or to a closed pool.",
        pools.stale_connections_come_back_to_be_closed,
        ("CMAP-76",),
        _POOLS,
    ),
    Oracle(
        "pool-log",
        "Each event of a pool has its log message, with the same facts.",
        logs.every_pool_event_is_logged,
        (
            "CMAP-116",
            "CMAP-120",
            "CMAP-122",
            "CMAP-126",
            "CMAP-130",
            "CMAP-134",
            "CMAP-135",
            "CMAP-139",
            "CMAP-140",
            "CMAP-142",
        ),
        _LOGS,
    ),
)

ORACLES: Final = {oracle.name: oracle for oracle in _TABLE}
"""All oracles by name."""


def breaches(trace: Trace, names: Iterable[str]) -> Iterator[tuple[Oracle, str]]:
    """Yield each breach of some oracles with a sentence, in the order of the table.

    A case stops at the first one that is not known, so generators: later oracles are not even asked.
    """
    wanted = frozenset(names)
    for oracle in _TABLE:
        if oracle.name in wanted:
            yield from ((oracle, sentence) for sentence in oracle.breaches(trace))


def off(features: frozenset[Feature]) -> tuple[Oracle, ...]:
    """Return the oracles that cannot judge a driver whose adapter has these features."""
    return tuple(oracle for oracle in _TABLE if not oracle.features <= features)

"""The deployment's metrics in Prometheus's text format: `GET /metrics`.

The format is a few rules, so no library stands between the numbers and the text. A counter of a server begins
anew when the server does, as Prometheus expects of a process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fakeserver.control.web.state import server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.control.web.tally import RequestTally
    from fakeserver.deployment.cluster import Cluster

EXPOSITION: Final = "text/plain; version=0.0.4"
"""The media type of the format."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(slots=True)
class Metric:
    """One metric: a help text, a type, and its samples."""

    name: str
    kind: str
    help: str
    samples: list[str] = field(default_factory=list)

    def add(self, value: float, labels: Mapping[str, str]) -> None:
        """Add a sample."""
        shown = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items())
        self.samples.append(f"{self.name}{{{shown}}} {value:.15g}" if shown else f"{self.name} {value:.15g}")

    def __str__(self) -> str:
        head = [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} {self.kind}"]
        return "".join(line + "\n" for line in (*head, *self.samples))


def exposition(cluster: Cluster, tally: RequestTally) -> str:
    """Return every metric."""
    return "".join(map(str, (*_of_servers(cluster), *_of_limits(cluster), *_of_records(cluster, tally))))


def _of_servers(cluster: Cluster) -> list[Metric]:
    up = Metric("pushbackd_server_up", "gauge", "1 for a server that answers clients.")
    connections = Metric("pushbackd_connections", "gauge", "Open connections.")
    messages = Metric("pushbackd_messages_total", "counter", "Requests that a server has read.")
    in_ = Metric("pushbackd_received_bytes_total", "counter", "Bytes received from clients.")
    out = Metric("pushbackd_sent_bytes_total", "counter", "Bytes sent to clients.")
    points = Metric("pushbackd_fail_points", "gauge", "Fail points that are on.")
    for node in cluster.servers:
        shown = server(node, cluster.clock.now())
        label = {"server": node.name}
        up.add(shown["process"] == "running", label | {"role": shown["role"]})
        connections.add(shown["connections"], label)
        messages.add(shown["requests"], label)
        in_.add(shown["bytesIn"], label)
        out.add(shown["bytesOut"], label)
        points.add(len(shown["failPoints"]), label)
    return [up, connections, messages, in_, out, points]


def _of_limits(cluster: Cluster) -> list[Metric]:
    tokens = Metric("pushbackd_limiter_tokens", "gauge", "Tokens that a rate limiter has now, where bounded.")
    queued = Metric("pushbackd_limiter_queued", "gauge", "Requests or connections that wait for a token.")
    decisions = Metric("pushbackd_limiter_decisions_total", "counter", "Decisions of a rate limiter.")
    out = Metric("pushbackd_tickets_out", "gauge", "Tickets in use.")
    total = Metric("pushbackd_tickets", "gauge", "Tickets that there are.")
    waiting = Metric("pushbackd_tickets_queued", "gauge", "Operations that wait for a ticket.")
    for node in cluster.servers:
        shown = server(node, cluster.clock.now())
        for name, limiter in shown["limits"].items():
            label = {"server": node.name, "limiter": name}
            if limiter["tokens"] is not None:
                tokens.add(limiter["tokens"], label)
            queued.add(limiter["queued"], label)
            for decision in ("admitted", "rejected", "exempted"):
                decisions.add(limiter[decision], label | {"decision": decision})
        for name, pool in shown["tickets"].items():
            label = {"server": node.name, "pool": name}
            out.add(pool["out"], label)
            total.add(pool["total"], label)
            waiting.add(pool["queued"], label)
    return [tokens, queued, decisions, out, total, waiting]


def _of_records(cluster: Cluster, tally: RequestTally) -> list[Metric]:
    requests = Metric("pushbackd_requests_total", "counter", "Requests by verdict, command and error code.")
    for (verdict, command, code), number in tally:
        requests.add(number, {"verdict": verdict, "command": command, "code": code})
    records = Metric("pushbackd_journal_records_total", "counter", "Records entered in the journal.")
    records.add(cluster.journal.last_seq, {})
    dropped = Metric("pushbackd_journal_dropped_total", "counter", "Old records dropped for new ones.")
    dropped.add(cluster.journal.dropped, {})
    return [requests, records, dropped]

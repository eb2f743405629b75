"""Methods of deployment and admission, written by `tests/support/control_methods.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.waiting.outcome import VerbOutcome


class ServerMethods(ABC):
    """The verbs of deployment and admission as methods. Each raises `ControlError`."""

    @abstractmethod
    def perform(self, name: str, arguments: Mapping[str, Any] | None = None) -> VerbOutcome:
        """Perform a verb by its name in the table. Raises `ControlError`."""

    def kill(self, node: str = "primary") -> VerbOutcome:
        """End a server at once, as SIGKILL does. `start` undoes it.

        node: the server, by its name, address or role
        """
        return self.perform("kill", {"node": node})

    def start(self, node: str) -> VerbOutcome:
        """Start a server that was killed or shut down, on its port and with its data. `kill` undoes it.

        node: the server, by its name, address or role
        """
        return self.perform("start", {"node": node})

    def restart(self, node: str = "primary", down: str = "0s") -> VerbOutcome:
        """End a server, if it runs, and start it again on its port.

        node: the server, by its name, address or role
        down: time between its end and its start
        """
        return self.perform("restart", {"node": node, "down": down})

    def pause(self, node: str = "primary") -> VerbOutcome:
        """Stop a server as SIGSTOP does: it takes what is sent, and answers nothing. `resume` undoes it.

        node: the server, by its name, address or role
        """
        return self.perform("pause", {"node": node})

    def resume(self, node: str) -> VerbOutcome:
        """Let a paused server go on, and answer what came meanwhile. `pause` undoes it.

        node: the server, by its name, address or role
        """
        return self.perform("resume", {"node": node})

    def slow(self, node: str = "primary", seconds: float | str = "1s", jitter: str = "0s") -> VerbOutcome:
        """Delay every request to a server.

        node: the server, by its name, address or role
        seconds: time that is added to each request; 0 ends it
        jitter: most that a request takes less or more than that
        """
        return self.perform("slow", {"node": node, "seconds": seconds, "jitter": jitter})

    def lag(self, node: str = "secondary", seconds: float | str = "10s") -> VerbOutcome:
        """Have a secondary apply the primary's writes later.

        node: the server, by its name, address or role
        seconds: time by which it is behind; 0 catches up
        """
        return self.perform("lag", {"node": node, "seconds": seconds})

    def freeze(self, node: str = "secondary", seconds: float | str = "60s") -> VerbOutcome:
        """Keep a member from seeking election.

        node: the server, by its name, address or role
        seconds: time for which it seeks no election; 0 ends it
        """
        return self.perform("freeze", {"node": node, "seconds": seconds})

    def step_down(self, seconds: float | str = "60s", node: str = "primary") -> VerbOutcome:
        """Make the primary a secondary; another member is elected. `elect` undoes it.

        seconds: time for which the old primary seeks no election
        node: the primary; of several shards, of which one
        """
        return self.perform("stepDown", {"seconds": seconds, "node": node})

    def elect(self, node: str) -> VerbOutcome:
        """Make a member the primary of a new term.

        node: the server, by its name, address or role
        """
        return self.perform("elect", {"node": node})

    def roll_back(self, node: str = "primary", seconds: float | str = "1s") -> VerbOutcome:
        """Leave the primary with its clients alone; what it writes then is rolled back. `heal` undoes it.

        node: the server, by its name, address or role
        seconds: time for which what it writes reaches no other member
        """
        return self.perform("rollBack", {"node": node, "seconds": seconds})

    def add_member(
        self,
        priority: float | None = None,
        votes: int = 1,
        *,
        hidden: bool = False,
        arbiter: bool = False,
        tags: Mapping[str, Any] | None = None,
        delay: str = "0s",
    ) -> VerbOutcome:
        """Start another server, and make it a member of the replica set. `remove_member` undoes it.

        priority: its priority in elections, by default 1
        votes: its votes: 0 or 1
        hidden: clients do not see it
        arbiter: it votes, and holds no data
        tags: its tags
        delay: time by which it follows on purpose, in whole seconds
        """
        return self.perform(
            "addMember",
            {
                "priority": priority,
                "votes": votes,
                "hidden": hidden,
                "arbiter": arbiter,
                "tags": tags,
                "delay": delay,
            },
        )

    def remove_member(self, node: str) -> VerbOutcome:
        """Remove a member from its replica set; it runs on, as REMOVED. `reset` undoes it.

        node: the server, by its name, address or role
        """
        return self.perform("removeMember", {"node": node})

    def partition(self, groups: str | Sequence[Sequence[str]], *, reset: bool = False) -> VerbOutcome:
        """Divide the network; servers that no group names are one more group. `heal` undoes it.

        groups: the servers that reach one another, `clients` among them
        reset: clients that are cut off are reset, not left waiting
        """
        return self.perform("partition", {"groups": groups, "reset": reset})

    def heal(self) -> VerbOutcome:
        """End the partition."""
        return self.perform("heal")

    def limits(
        self,
        requests: str | None = None,
        requests_burst: str = "1s",
        requests_queue: int = 0,
        connections: str | None = None,
        connections_burst: str = "1s",
        connections_queue: int = 0,
        nodes: str | Sequence[str] = "all",
        *,
        off: bool = False,
    ) -> VerbOutcome:
        """Limit the rate of requests and of new connections, on each server.

        requests: rate of requests; more are refused with code 462
        requests_burst: time for which unused requests are saved up
        requests_queue: requests that may wait for their turn
        connections: rate of new connections; more are closed
        connections_burst: time for which unused ones are saved up
        connections_queue: connections that may wait for their turn
        nodes: the servers
        off: end it
        """
        return self.perform(
            "limits",
            {
                "requests": requests,
                "requestsBurst": requests_burst,
                "requestsQueue": requests_queue,
                "connections": connections,
                "connectionsBurst": connections_burst,
                "connectionsQueue": connections_queue,
                "nodes": nodes,
                "off": off,
            },
        )

    def tickets(
        self,
        read: int | None = None,
        write: int | None = None,
        nodes: str | Sequence[str] = "all",
        *,
        off: bool = False,
    ) -> VerbOutcome:
        """Limit how many operations are at work at a time, on each server.

        read: reads at work at a time; more wait
        write: writes at work at a time; more wait
        nodes: the servers
        off: end it
        """
        return self.perform("tickets", {"read": read, "write": write, "nodes": nodes, "off": off})

    def service_time(
        self,
        seconds: float | str,
        concurrency: int = 30,
        factor: float = 2.0,
        workers: int = 0,
        weights: Mapping[str, Any] | None = None,
        nodes: str | Sequence[str] = "all",
    ) -> VerbOutcome:
        """Have commands take time, and more of it the more are at work.

        seconds: time of a command on an idle server; 0 ends it
        concurrency: commands at a time beyond which they take longer
        factor: how many times longer with every ten more
        workers: commands wait for one of so many workers instead; 0: any
        weights: times of commands, as multiples: `{insert: 3}`
        nodes: the servers
        """
        return self.perform(
            "serviceTime",
            {
                "seconds": seconds,
                "concurrency": concurrency,
                "factor": factor,
                "workers": workers,
                "weights": weights,
                "nodes": nodes,
            },
        )

    def shed(
        self,
        share: float | str,
        seed: int = 0,
        codes: int | str | Sequence[int | str] | None = None,
        retryable: int | str | Sequence[int | str] | None = None,
        duration: str | None = None,
        nodes: str | Sequence[str] = "all",
    ) -> VerbOutcome:
        """Refuse a share of the operations, as a service that sheds load.

        share: the share of operations to refuse; 0 ends it
        seed: the seed: with the same one the same are refused
        codes: the error codes, all as likely (default [462, 463])
        retryable: those of them that are labelled as retryable (default [462])
        duration: time after which it ends, by default never
        nodes: the servers
        """
        return self.perform(
            "shed",
            {
                "share": share,
                "seed": seed,
                "codes": codes,
                "retryable": retryable,
                "duration": duration,
                "nodes": nodes,
            },
        )

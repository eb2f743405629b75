"""A method of each verb of the table, written by `tests/support/control_methods.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.control.server_methods import ServerMethods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.waiting.outcome import VerbOutcome


class Methods(ServerMethods):
    """The verbs as methods. Each raises `ControlError`."""

    def set_fail_point(
        self,
        name: str,
        mode: str | int | Mapping[str, Any] = "alwaysOn",
        data: Mapping[str, Any] | None = None,
        nodes: str | Sequence[str] = "all",
    ) -> VerbOutcome:
        """Configure a fail point. `fail_points_off` undoes it.

        name: the fail point: `failCommand` and others
        mode: `alwaysOn`, `off`, a number of times, or a document
        data: what it does, and to which commands
        nodes: the servers
        """
        return self.perform("setFailPoint", {"name": name, "mode": mode, "data": data, "nodes": nodes})

    def list_fail_points(self, nodes: str | Sequence[str] = "all") -> VerbOutcome:
        """List every fail point: where it is on, and how often it was entered.

        nodes: the servers
        """
        return self.perform("listFailPoints", {"nodes": nodes})

    def fail_points_off(self, nodes: str | Sequence[str] = "all") -> VerbOutcome:
        """Switch every fail point off.

        nodes: the servers
        """
        return self.perform("failPointsOff", {"nodes": nodes})

    def add_rule(self, rule: Mapping[str, Any]) -> VerbOutcome:
        """Add a rule: what becomes of requests that meet conditions. `remove_rule` undoes it.

        rule: the rule, as in docs/RULES.md: when, then, times …
        """
        return self.perform("addRule", {"rule": rule})

    def list_rules(self) -> VerbOutcome:
        """List the rules, with how often each was met."""
        return self.perform("listRules")

    def remove_rule(self, id: str) -> VerbOutcome:
        """Remove a rule, and let go the requests that it holds.

        id: the name or number of the rule, or all
        """
        return self.perform("removeRule", {"id": id})

    def add_fault(self, fault: Mapping[str, Any]) -> VerbOutcome:
        """Add a fault of bytes: connections are delayed, cut, reset or damaged. `remove_fault` undoes it.

        fault: the fault, as docs/FAULTS.md describes it
        """
        return self.perform("addFault", {"fault": fault})

    def list_faults(self) -> VerbOutcome:
        """List the faults of bytes, with their ids and how often each fired."""
        return self.perform("listFaults")

    def remove_fault(self, id: str) -> VerbOutcome:
        """Remove a fault of bytes; what it has begun goes on.

        id: the id or name of the fault
        """
        return self.perform("removeFault", {"id": id})

    def certificate(self, which: str, nodes: str | Sequence[str] = "all") -> VerbOutcome:
        """Have servers show another certificate; open connections go on.

        which: the certificate: what clients find wrong
        nodes: the servers
        """
        return self.perform("certificate", {"which": which, "nodes": nodes})

    def seed(self, namespace: str, documents: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> VerbOutcome:
        """Insert documents, all or none. `drop` undoes it.

        namespace: the collection, `database.collection`
        documents: the documents to insert
        """
        return self.perform("seed", {"namespace": namespace, "documents": documents})

    def drop(self, namespace: str) -> VerbOutcome:
        """Drop a collection, or all of a database, for good unless a snapshot has it. `restore` undoes it.

        namespace: a collection, `database.collection`, or a whole database
        """
        return self.perform("drop", {"namespace": namespace})

    def rename(self, namespace: str, to: str) -> VerbOutcome:
        """Give a collection another name; its change streams are invalidated.

        namespace: the collection, `database.collection`
        to: the new name, `database.collection`
        """
        return self.perform("rename", {"namespace": namespace, "to": to})

    def snapshot(self, name: str) -> VerbOutcome:
        """Keep all data as they are now, under a name.

        name: the name of the snapshot
        """
        return self.perform("snapshot", {"name": name})

    def restore(self, name: str) -> VerbOutcome:
        """Bring the data of a snapshot back; requests that wait and transactions are ended.

        name: the name of the snapshot
        """
        return self.perform("restore", {"name": name})

    def state(self) -> VerbOutcome:
        """Show the deployment: servers, roles, addresses, connections, limits, rules, faults."""
        return self.perform("state")

    def read_journal(
        self,
        kind: str | Sequence[str] | None = None,
        command: str | Sequence[str] | None = None,
        namespace: str | None = None,
        app_name: str | None = None,
        node: str | None = None,
        connection: int | None = None,
        outcome: int | str | None = None,
        verdict: str | None = None,
        document: Mapping[str, Any] | None = None,
        since: int | None = None,
        limit: int = 1000,
        *,
        documents: bool = False,
    ) -> VerbOutcome:
        """Show what the servers were asked, what they answered, and what happened to them.

        kind: the kinds of records, such as ruleHit; all if not given
        command: the commands
        namespace: the namespace, as shop.orders, or shop.* for a database
        app_name: the application name of the client
        node: the server
        connection: the number of the connection
        outcome: ok, error, disconnect, silence, or an error code
        verdict: the decision of admission control
        document: a filter on the command document
        since: only what is newer than the record of this number
        limit: the most records: the newest, or with since the oldest
        documents: with the documents of requests and replies
        """
        return self.perform(
            "readJournal",
            {
                "kind": kind,
                "command": command,
                "namespace": namespace,
                "appName": app_name,
                "node": node,
                "connection": connection,
                "outcome": outcome,
                "verdict": verdict,
                "document": document,
                "since": since,
                "limit": limit,
                "documents": documents,
            },
        )

    def count_journal(
        self,
        kind: str | Sequence[str] | None = None,
        command: str | Sequence[str] | None = None,
        namespace: str | None = None,
        app_name: str | None = None,
        node: str | None = None,
        connection: int | None = None,
        outcome: int | str | None = None,
        verdict: str | None = None,
        document: Mapping[str, Any] | None = None,
        since: int | None = None,
    ) -> VerbOutcome:
        """Count records of the journal.

        kind: the kinds of records, such as ruleHit; all if not given
        command: the commands
        namespace: the namespace, as shop.orders, or shop.* for a database
        app_name: the application name of the client
        node: the server
        connection: the number of the connection
        outcome: ok, error, disconnect, silence, or an error code
        verdict: the decision of admission control
        document: a filter on the command document
        since: only what is newer than the record of this number
        """
        return self.perform(
            "countJournal",
            {
                "kind": kind,
                "command": command,
                "namespace": namespace,
                "appName": app_name,
                "node": node,
                "connection": connection,
                "outcome": outcome,
                "verdict": verdict,
                "document": document,
                "since": since,
            },
        )

    def verify(
        self,
        command: str | Sequence[str] | None = None,
        count: int | None = None,
        at_least: int | None = None,
        at_most: int | None = None,
        within: str = "0s",
        namespace: str | None = None,
        app_name: str | None = None,
        node: str | None = None,
        connection: int | None = None,
        outcome: int | str | None = None,
        verdict: str | None = None,
        document: Mapping[str, Any] | None = None,
        since: int | None = None,
        kind: str | Sequence[str] | None = None,
    ) -> VerbOutcome:
        """Check that the servers were sent what was expected; a failure says what came nearest.

        command: the commands
        count: the number of requests; 1 or more if nothing is given
        at_least: the least number of requests
        at_most: the largest number of requests
        within: time for which requests that are missing are awaited
        namespace: the namespace, as shop.orders, or shop.* for a database
        app_name: the application name of the client
        node: the server
        connection: the number of the connection
        outcome: ok, error, disconnect, silence, or an error code
        verdict: the decision of admission control
        document: a filter on the command document
        since: only what is newer than the record of this number
        kind: the kinds of records, in place of requests
        """
        return self.perform(
            "verify",
            {
                "command": command,
                "count": count,
                "atLeast": at_least,
                "atMost": at_most,
                "within": within,
                "namespace": namespace,
                "appName": app_name,
                "node": node,
                "connection": connection,
                "outcome": outcome,
                "verdict": verdict,
                "document": document,
                "since": since,
                "kind": kind,
            },
        )

    def attempts(
        self,
        command: str | Sequence[str] | None = None,
        namespace: str | None = None,
        app_name: str | None = None,
        node: str | None = None,
        connection: int | None = None,
        outcome: int | str | None = None,
        verdict: str | None = None,
        document: Mapping[str, Any] | None = None,
        since: int | None = None,
        least: int = 2,
        limit: int = 1000,
    ) -> VerbOutcome:
        """Show the operations that were attempted again, with the seconds between their attempts.

        command: the commands
        namespace: the namespace, as shop.orders, or shop.* for a database
        app_name: the application name of the client
        node: the server
        connection: the number of the connection
        outcome: ok, error, disconnect, silence, or an error code
        verdict: the decision of admission control
        document: a filter on the command document
        since: only what is newer than the record of this number
        least: only operations with at least so many attempts
        limit: the most operations: the newest
        """
        return self.perform(
            "attempts",
            {
                "command": command,
                "namespace": namespace,
                "appName": app_name,
                "node": node,
                "connection": connection,
                "outcome": outcome,
                "verdict": verdict,
                "document": document,
                "since": since,
                "least": least,
                "limit": limit,
            },
        )

    def clear_journal(self) -> VerbOutcome:
        """Forget the records; their numbers go on."""
        return self.perform("clearJournal")

    def verdict(self) -> VerbOutcome:
        """Show which steps, rules, faults and fail points happened, which never did, and what failed."""
        return self.perform("verdict")

    def reset(self, connections: str = "keep") -> VerbOutcome:
        """Bring back the beginning: data, members, the first primary, settings; no rules, no faults.

        connections: `keep` the connections of clients, or `close` them
        """
        return self.perform("reset", {"connections": connections})

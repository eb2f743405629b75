"""A MongoDB driver on raw sockets, as small as one can be that retries, backs off and pools connections.

It follows Client Backpressure as of 2026-07-08. `bugs` switches on mistakes that drivers make; the scenarios
of pushbackd find each of them (docs/TOY-DRIVER.md).
"""

import itertools
import random
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import bson
from bson.int64 import Int64

BUGS = {
    "no-backoff": "retries of an overloaded server are sent at once",
    "new-txn-number": "each attempt of a write has a new transaction number",
    "no-retry": "retryable writes are not retried",
    "too-many-retries": "an overloaded server is asked once more than maxAdaptiveRetries allows",
    "backpressure-not-sent": "the handshake does not say that the driver backs off",
    "no-labels": "errors have no labels",
    "retries-in-place": "the server that failed is asked again, where another one is there",
    "unlimited-connecting": "maxConnecting is not obeyed",
    "stale-connections": "connections of a cleared pool are lent",
    "second-error-survives": "the newest error is raised, though it says NoWritesPerformed",
}
SHUTDOWN = {91, 11600}
NOT_PRIMARY = SHUTDOWN | {189, 10058, 10107, 11602, 13435, 13436}
RETRYABLE_READ = NOT_PRIMARY | {6, 7, 89, 134, 262, 9001}
OVERLOADED = {"SystemOverloadedError", "RetryableError"}
ORDERS = {"primary": ["primary"], "secondary": ["secondary"], "secondaryPreferred": ["secondary", "primary"]}
WRITABLE = {"mongos", "primary", "standalone"}
LEAST_HEARTBEAT = 0.5
REQUEST_IDS = itertools.count(1)
Document = dict[str, Any]


class ToyError(Exception):
    """A command failed: `reply` is the server's, empty when the connection did."""

    def __init__(
        self, message: str, reply: Mapping[str, Any] | None = None, labels: Iterable[str] = ()
    ) -> None:
        super().__init__(message)
        self.reply = reply or {}
        details = [self.reply, *self.reply.get("writeErrors", ()), self.reply.get("writeConcernError", {})]
        self.code = next((each["code"] for each in details if "code" in each), None)
        self.labels = {*labels, *self.reply.get("errorLabels", ())}


class Connection:
    """A socket that has shaken hands."""

    def __init__(self, pool: "Pool") -> None:
        host, port = pool.address.rsplit(":", 1)
        self.pool, self.generation, self.broken = pool, pool.generation, False
        try:
            self.socket = socket.create_connection((host, int(port)), timeout=10)
            self.hello = self.send("admin", pool.client.handshake())
        except (OSError, ToyError) as error:  # a server that drops handshakes is overloaded
            reply = error.reply if isinstance(error, ToyError) else {}
            raise ToyError(str(error), reply, () if reply else OVERLOADED) from error

    def send(self, database: str, command: Document, number: int = 0) -> Document:
        body = bson.encode({**command, "$db": database})
        header = struct.pack("<iiiiIB", 21 + len(body), number or next(REQUEST_IDS), 0, 2013, 0, 0)
        try:
            self.socket.sendall(header + body)
            size: int = struct.unpack("<i", self.receive(4))[0]
            reply = bson.decode(self.receive(size - 4)[17:])
        except OSError as error:
            self.broken = True
            raise ToyError(f"connection to {self.pool.address} lost: {error}") from error
        if not reply["ok"] or "writeErrors" in reply or "writeConcernError" in reply:
            raise ToyError(str(reply.get("errmsg", reply)), reply)
        return reply

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError("closed by the server")
            data += chunk
        return data


class Pool:
    """The connections to one server. A new generation makes those there are stale."""

    def __init__(self, client: "Client", address: str) -> None:
        self.client, self.address, self.kind, self.generation = client, address, "", 0
        self.idle: list[Connection] = []
        self.total, self.connecting, self.changed = 0, 0, threading.Condition()

    def check_out(self) -> Connection:
        most = self.client.option("maxPoolSize", 100) or float("inf")
        limit = (
            float("inf")
            if "unlimited-connecting" in self.client.bugs
            else self.client.option("maxConnecting", 2)
        )
        with self.changed:
            while not self.idle and not (self.total < most and self.connecting < limit):
                self.changed.wait()
            if self.idle:
                return self.idle.pop()
            self.total, self.connecting = self.total + 1, self.connecting + 1
        made = 0
        try:
            connection = Connection(self)
            made = 1
        finally:
            with self.changed:
                self.total, self.connecting = self.total - 1 + made, self.connecting - 1
                self.changed.notify_all()
        return connection

    def check_in(self, connection: Connection) -> None:
        with self.changed:
            if connection.broken or connection.generation != self.generation:
                connection.socket.close()
                self.total -= 1
            else:
                self.idle.append(connection)
            self.changed.notify_all()

    def clear(self) -> None:
        if "stale-connections" in self.client.bugs:
            return
        with self.changed:
            self.generation += 1
            stale, self.idle = self.idle, []
            self.total -= len(stale)
        for connection in stale:
            connection.socket.close()


class Client:
    """What a user has: `run` sends a command, again where it may be sent again."""

    def __init__(
        self,
        seeds: Iterable[str],
        options: Mapping[str, Any],
        publish: Callable[[str, Document], None],
        jitter: Callable[[], float],
        bugs: Iterable[str] = (),
    ) -> None:
        self.options, self.publish, self.jitter, self.bugs = options, publish, jitter, frozenset(bugs)
        self.pools = {address: Pool(self, address) for address in seeds}
        self.sessions: list[Document] = []
        self.cluster_time: Document = {}
        self.discovering = threading.Lock()
        self.discovered = 0.0

    def option(self, name: str, default: Any) -> Any:
        return self.options.get(name.lower(), default)

    def wants(self, name: str) -> bool:
        return bool(self.options.get(name.lower(), 1))

    def handshake(self) -> Document:
        name = self.option("appName", "")
        client = {"driver": {"name": "toy", "version": "1"}, "os": {"type": "any"}}
        hello = {
            "hello": 1,
            "helloOk": True,
            "client": client | ({"application": {"name": name}} if name else {}),
        }
        return hello if "backpressure-not-sent" in self.bugs else {**hello, "backpressure": "2"}

    def discover(self) -> None:
        """Ask each server of which nothing is known what it is."""
        self.discovered = time.monotonic()
        for pool in [pool for pool in self.pools.values() if not pool.kind]:
            try:
                connection = pool.check_out()
            except ToyError:
                continue
            try:
                hello = connection.send("admin", {"hello": 1})
            except ToyError:
                continue
            finally:
                pool.check_in(connection)
            if hello.get("setName") != self.option("replicaSet", hello.get("setName")):
                continue
            kind = "primary" if hello.get("setName") else "standalone"
            kinds = {"mongos": hello.get("msg"), kind: hello.get("isWritablePrimary")}
            kinds["secondary"] = hello.get("secondary")
            pool.kind = next((kind for kind, is_it in kinds.items() if is_it), "")
            for member in hello.get("hosts", ()):
                self.pools.setdefault(member, Pool(self, member))

    def select(self, mode: str, deprioritized: set[str]) -> Pool:
        """Return a server that suits, one that is not deprioritised if there is any."""
        deadline = time.monotonic() + self.option("serverSelectionTimeoutMS", 30000) / 1000
        while True:
            with self.discovering:
                found = any(pool.kind in WRITABLE for pool in self.pools.values())
                if not found and time.monotonic() - self.discovered >= LEAST_HEARTBEAT:
                    self.discover()
            others = [pool for pool in self.pools.values() if pool.address not in deprioritized]
            same = [pool for pool in self.pools.values() if pool.address in deprioritized]
            for pools in (same, others) if "retries-in-place" in self.bugs else (others, same):
                for kind in ("mongos", "standalone", *ORDERS.get(mode, ["primary", "secondary"])):
                    suitable = [pool for pool in pools if pool.kind == kind]
                    if suitable:
                        return random.choice(suitable)  # noqa: S311
            if time.monotonic() > deadline:
                raise ToyError("no server suits")
            time.sleep(0.01)

    def run(self, database: str, command: Document, kind: str = "command", mode: str = "primary") -> Document:
        """Run a command; a `read` and a `write` of one statement are retried after more than overload."""
        session: Document = self.sessions.pop() if self.sessions else {"id": uuid.uuid4(), "number": 0}
        numbered = kind == "write" and self.wants("retryWrites")
        raised: ToyError | None = None
        deprioritized: set[str] = set()
        retries, allowed = 0, 1
        while True:
            session["number"] += numbered and (not retries or "new-txn-number" in self.bugs)
            pool = None
            try:
                pool = self.select(mode, deprioritized)
                more: Document = {"lsid": {"id": bson.Binary.from_uuid(session["id"])}}
                if self.cluster_time and pool.kind != "standalone":
                    more["$clusterTime"] = self.cluster_time
                if numbered and pool.kind != "standalone":
                    more["txnNumber"] = Int64(session["number"])
                reply = self.attempt(pool, database, command | more)
            except ToyError as error:
                if numbered and not error.reply and pool:
                    error.labels.add("RetryableWriteError")
                late = "NoWritesPerformed" in error.labels and "second-error-survives" not in self.bugs
                raised = raised if raised and (late or not pool) else error
                retryable = self.is_retryable(error, kind, numbered=numbered)
                overloaded = "SystemOverloadedError" in error.labels
                if overloaded:
                    allowed = self.option("maxAdaptiveRetries", 2) + ("too-many-retries" in self.bugs)
                retries += 1
                if not retryable or not pool or retries > allowed:
                    raised.labels = set() if "no-labels" in self.bugs else raised.labels
                    if error.reply:  # a session that met a network error is dropped
                        self.sessions.append(session)
                    raise raised from None
                if overloaded and "no-backoff" not in self.bugs:
                    base = (error.reply.get("baseBackoffMS") or 100) / 1000
                    time.sleep(self.jitter() * min(10, base * 2**retries))
                avoids = pool.kind == "mongos" or (
                    overloaded and self.options.get("enableoverloadretargeting")
                )
                if avoids:
                    deprioritized.add(pool.address)
            else:
                self.sessions.append(session)
                return reply

    def is_retryable(self, error: ToyError, kind: str, *, numbered: bool) -> bool:
        if error.labels >= OVERLOADED:
            return self.wants("retryReads" if kind == "read" else "retryWrites")
        reads = kind == "read" and self.wants("retryReads")
        again = reads and (not error.reply or error.code in RETRYABLE_READ)
        writes = numbered and "RetryableWriteError" in error.labels and "no-retry" not in self.bugs
        return bool(again or writes)

    def attempt(self, pool: Pool, database: str, command: Document) -> Document:
        """Send a command once, and say what became of it; an error may tell that the server has changed."""
        fields: Document = {
            "commandName": next(iter(command)),
            "databaseName": database,
            "connectionId": pool.address,
        }
        fields["requestId"] = number = next(REQUEST_IDS)
        connection = None
        try:
            connection = pool.check_out()
            self.publish("commandStartedEvent", {**fields, "command": {**command, "$db": database}})
            reply = connection.send(database, command, number)
            self.gossip(reply)
        except ToyError as error:
            self.gossip(error.reply)
            if connection and error.reply.get("ok"):
                self.publish("commandSucceededEvent", {**fields, "reply": error.reply})
            elif connection:
                self.publish("commandFailedEvent", {**fields, "failure": error.reply or str(error)})
            if error.code in NOT_PRIMARY or not error.reply:
                pool.kind = ""
            if connection and (error.code in SHUTDOWN or not error.reply):
                pool.clear()
            raise
        else:
            self.publish("commandSucceededEvent", {**fields, "reply": reply})
            return reply
        finally:
            if connection:
                pool.check_in(connection)

    def gossip(self, reply: Mapping[str, Any]) -> None:
        """Keep the newest cluster time that a server has told of."""
        told: Document = reply.get("$clusterTime") or {}
        if told and (not self.cluster_time or told["clusterTime"] > self.cluster_time["clusterTime"]):
            self.cluster_time = told

    def close(self) -> None:
        """End the sessions, without a second attempt, and close the connections."""
        pool = next((pool for pool in self.pools.values() if pool.kind), None)
        if pool and self.sessions:
            ended = [{"id": bson.Binary.from_uuid(session["id"])} for session in self.sessions]
            with suppress(ToyError):
                self.attempt(pool, "admin", {"endSessions": ended})
        for pool in self.pools.values():
            for connection in pool.idle:
                connection.socket.close()
            pool.idle = []

"""Runs `pushbackd demo`: a replica set with its live page, under a small shop.

The shop is an ordinary application on PyMongo with its defaults, in threads of this process; the deployment
is in a thread too. The main thread does nothing but print and look for a signal. Numbers at the end come
from two sides: orders and failures are what the application was told, requests what the servers saw.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from math import inf
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import click
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from fakeserver.assembly.background import BackgroundCluster
from fakeserver.deployment.spec import ClusterSpec
from harness.overload.operations import FoldedRecord
from harness.report.fitting import aligned, columns, echo
from harness.world import interruption
from mongowire.system import SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.deployment.records.operations import OperationTotals


_TO_CLICK: Final = (
    "the primary, then stepDown: orders wait for the next one, and none fails (a server may once a minute)",
    "Load shedding, and drag it to 30 %: orders take longer, then some fail",
    "a secondary, then kill: nobody notices; start brings it back",
)
_INTERVAL: Final = 1.0
_INTERVAL_IN_A_PIPE: Final = 10.0
"""Seconds between two signs of life."""
_LOOK: Final = 0.1
"""Seconds between two looks for a signal."""


def run(port: int, seconds: float | None, *, open_page: bool) -> None:
    """Run the demo for `seconds`, or until a signal; `port` is the page's, 0 a free one. Raises `OSError`."""
    record = FoldedRecord(TcpNetwork(), SystemClock(), itertools.count(1).__next__, on=True)
    with interruption.politely():
        with BackgroundCluster(ClusterSpec.replica_set(3), network=record) as cluster:
            page = cluster.serve_ui(port).page
            shop = Shop(cluster.uri)
            with shop.open(), suppress(interruption.Interrupted):
                click.echo(f"A shop orders from {cluster.uri}")
                click.echo(f"Live page: {page}\n\nOn the page, click")
                for number, each in enumerate(_TO_CLICK, 1):
                    echo(f"  {number}. {each}")
                click.echo("\nCtrl-C ends it.\n")
                if open_page:
                    click.launch(page)
                _watch(shop, record.totals, seconds)
        # Ctrl-C is how a demo ends, and no reason for the exit code of an interruption.
        interruption.forget()
    record.totals.finish()
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(shop.failures.items()))
    click.echo()
    rows = record.totals.rows()
    for line in aligned(rows, columns(), words=1) if rows else ():
        click.echo(line)
    click.echo(f"{shop.orders} orders, {shop.failures.total()} failed{f': {kinds}' if kinds else ''}")


def _watch(shop: Shop, totals: OperationTotals, seconds: float | None) -> None:
    """Tell how the shop is doing until the time is over."""
    # A terminal shows one line that changes; a file would get a line a second.
    is_watched = sys.stdout.isatty()
    interval = _INTERVAL if is_watched else _INTERVAL_IN_A_PIPE
    began = time.monotonic()
    end = inf if seconds is None else began + seconds
    due = began + interval
    while (now := time.monotonic()) < end:
        interruption.check()
        Event().wait(min(_LOOK, end - now))
        if time.monotonic() < min(due, end):
            continue
        due += interval
        line = (
            f"{time.monotonic() - began:4.0f} s   {shop.orders} orders, {shop.failures.total()} failed;"
            f" {totals.requests} requests"
        )
        click.echo(f"\r\x1b[K{line}" if is_watched else line, nl=not is_watched)


# A small shop: clients that look at a shelf, order and count the stock, and what they met meanwhile.
#
# It is what `pushbackd demo` watches: an ordinary application on PyMongo, with a driver's defaults.


_CUSTOMERS: Final = 3
_PAUSE: Final = 0.1
"""Seconds between two orders of a customer."""

_SHELF: Final = ("apples", "bread", "cheese", "dates")


class Shop:
    """Customers in threads. `orders` were confirmed; `failures` counts the kinds of errors they were told."""

    def __init__(self, uri: str) -> None:
        self.orders = 0
        self.failures: Counter[str] = Counter()
        self._uri = uri
        self._counting = threading.Lock()
        self._closing = threading.Event()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let the customers in; on leaving, return when they are gone."""
        with MongoClient[dict[str, Any]](self._uri, appname="shop") as client:
            shelf = client.shop.shelf
            shelf.insert_many([{"_id": name, "stock": 1_000_000} for name in _SHELF])
            customers = [
                threading.Thread(target=self._customer, args=(client, number), name=f"customer {number}")
                for number in range(_CUSTOMERS)
            ]
            for each in customers:
                each.start()
            try:
                yield
            finally:
                self._closing.set()
                # Whoever still waits for a server is told that the client is closed.
                client.close()
                for each in customers:
                    each.join()

    def _customer(self, client: MongoClient[dict[str, Any]], number: int) -> None:
        shop = client.shop
        visit = 0
        while not self._closing.wait(_PAUSE):
            name = _SHELF[(visit + number) % len(_SHELF)]
            visit += 1
            try:
                shop.shelf.find_one({"_id": name})
                shop.orders.insert_one({"of": name, "customer": number})
                shop.shelf.update_one({"_id": name}, {"$inc": {"stock": -1}})
            except PyMongoError as error:
                if not self._closing.is_set():
                    with self._counting:
                        self.failures[type(error).__name__] += 1
            else:
                with self._counting:
                    self.orders += 1

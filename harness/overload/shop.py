"""A small shop: clients that look at a shelf, order and count the stock, and what they met meanwhile.

It is what `pushbackd demo` watches: an ordinary application on PyMongo, with a driver's defaults.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pymongo import MongoClient
from pymongo.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Iterator

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

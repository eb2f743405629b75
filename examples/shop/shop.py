"""A shop: customers order, the shop books each order and takes its item from the stock.

`run` sells with a way to place an order, which is what the two programs beside it differ in, and looks into
the books afterwards. A program ends with 1 if the books are wrong.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pymongo.collection import Collection

ITEM = "teapot"
ORDERS = 200


@dataclass(frozen=True)
class Shop:
    """The collections of the shop."""

    orders: Collection[dict[str, Any]]
    stock: Collection[dict[str, Any]]


def run(place: Callable[[Shop, int], None]) -> int:
    """Sell to as many customers as the command line says, and return the exit code."""
    customers = int(sys.argv[1]) if len(sys.argv) > 1 else ORDERS
    with MongoClient[dict[str, Any]](os.environ["MONGODB_URI"], appname="shop") as client:
        shop = Shop(client.shop.orders, client.shop.stock)
        failed = _sell(shop, customers, place)
        problems = _audit(shop, customers)
    for line in [f"customer {number}: {error}" for number, error in failed] + problems:
        print(line, file=sys.stderr)
    print(f"{customers - len(failed)} of {customers} customers were served")
    return 1 if failed or problems else 0


def _sell(shop: Shop, customers: int, place: Callable[[Shop, int], None]) -> list[tuple[int, PyMongoError]]:
    """Place an order for each customer, and return the customers for whom that failed."""
    patiently(lambda: shop.stock.replace_one({"_id": ITEM}, {"count": customers}, upsert=True))
    failed = []
    for customer in range(customers):
        try:
            place(shop, customer)
        except PyMongoError as error:
            failed.append((customer, error))
    return failed


def _audit(shop: Shop, customers: int) -> list[str]:
    """Return what is wrong with the books: each customer wanted one item."""
    ordered = patiently(lambda: [order["customer"] for order in shop.orders.find()])
    left = patiently(lambda: shop.stock.find_one({"_id": ITEM}) or {}).get("count")
    twice = len(ordered) - len(set(ordered))
    problems = [f"{twice} orders were booked twice"] if twice else []
    if left != customers - len(set(ordered)):
        problems.append(f"{left} items are left, and {customers - len(set(ordered))} should be")
    return problems


def patiently(work: Callable[[], Any]) -> Any:
    """Do what may be done twice until it is done: set up and audit are no part of the example."""
    for _ in range(100):
        try:
            return work()
        except PyMongoError:
            continue
    return work()

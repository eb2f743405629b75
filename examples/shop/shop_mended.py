"""The shop, mended: a step may be done twice, and a server that is overloaded gets time.

The driver retries by itself what the server says may be retried, after a backoff of its own. What is left are
overload errors that it must not retry, because it cannot know whether the step may be done twice. Here it
may: an order has its number before it is first sent, and the stock remembers the orders that it served.
"""

from __future__ import annotations

import random
import sys
import time
from typing import TYPE_CHECKING

from pymongo.errors import DuplicateKeyError, PyMongoError
from shop import ITEM, Shop, run

if TYPE_CHECKING:
    from collections.abc import Callable

ATTEMPTS = 8
BACKOFF = 0.01
LONGEST_BACKOFF = 1.0


def place(shop: Shop, customer: int) -> None:
    """Book an order, and take its item from the stock."""
    order = f"order-{customer}"
    retry(lambda: book(shop, order, customer))
    retry(
        lambda: shop.stock.update_one(
            {"_id": ITEM, "served": {"$ne": order}}, {"$inc": {"count": -1}, "$push": {"served": order}}
        )
    )


def book(shop: Shop, order: str, customer: int) -> None:
    """Book an order; one that is there already has been booked."""
    try:
        shop.orders.insert_one({"_id": order, "customer": customer, "item": ITEM})
    except DuplicateKeyError:
        return


def retry(step: Callable[[], object]) -> None:
    """Do a step that may be done twice again when the server is overloaded, each time after a longer wait."""
    for attempt in range(ATTEMPTS):
        try:
            step()
        except PyMongoError as error:
            if attempt == ATTEMPTS - 1 or not error.has_error_label("SystemOverloadedError"):
                raise
            time.sleep(random.random() * min(LONGEST_BACKOFF, BACKOFF * 2**attempt))
        else:
            return


if __name__ == "__main__":
    sys.exit(run(place))

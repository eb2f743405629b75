"""The shop with the loop that everybody writes first: if anything fails, do it all again, at once.

Placing an order has two steps. Where the second one is refused, the loop begins with the first one again, and
the customer has ordered twice. And a server that refuses because it is overloaded is asked again at once.
"""

from __future__ import annotations

import sys

from pymongo.errors import PyMongoError
from shop import ITEM, Shop, run

ATTEMPTS = 10


def place(shop: Shop, customer: int) -> None:
    """Book an order, and take its item from the stock."""
    for attempt in range(ATTEMPTS):
        try:
            shop.orders.insert_one({"customer": customer, "item": ITEM})
            shop.stock.update_one({"_id": ITEM}, {"$inc": {"count": -1}})
        except PyMongoError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return


if __name__ == "__main__":
    sys.exit(run(place))

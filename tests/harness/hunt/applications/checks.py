"""Invariants of the applications, as functions of their documents."""


def goods(contents):
    """Each packet of tea is in the shop or paid."""
    stock = contents.get("shop.stock", [])
    if not stock:
        return None
    paid = len(contents.get("shop.payments", []))
    left = stock[0]["left"]
    return None if left + paid == 10 else f"{left} are left, and {paid} are paid"


def money(contents):
    """Money is neither made nor lost."""
    accounts = contents.get("bank.accounts", [])
    total = sum(each["balance"] for each in accounts)
    return None if total in {0, 200} else f"the accounts have {total}"


def trips(contents):
    """Return what is booked of a cancelled trip."""
    cancelled = {trip["_id"] for trip in contents.get("travel.trips", []) if trip["state"] == "cancelled"}
    for step in ("flights", "hotels", "cars"):
        kept = cancelled & {booking["_id"] for booking in contents.get(f"travel.{step}", [])}
        if kept:
            return f"{step} of the trips {sorted(kept)}"
    return None

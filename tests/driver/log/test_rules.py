"""The messages of the pool, field by field and word by word (CMAP: Connection Pool Logging)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from bson import ObjectId

from driver import events
from driver.errors import NetworkError
from driver.log.client_log import ClientLog
from driver.monitoring import Shield

SERVICE = ObjectId("6500000000000000000000bb")
LOST = NetworkError("lost")
AT = {"serverHost": "a", "serverPort": 27017}
OPTIONS = {
    "maxIdleTimeMS": 100,
    "minPoolSize": 1,
    "maxPoolSize": 5,
    "maxConnecting": 3,
    "waitQueueTimeoutMS": 7,
}

MESSAGES: list[tuple[events.PoolEvent, dict[str, Any], str]] = [
    (
        events.PoolCreatedEvent("a:27017", OPTIONS),
        {"message": "Connection pool created", **OPTIONS},
        (
            "Connection pool created for a:27017 using options maxIdleTimeMS=100, minPoolSize=1, "
            "maxPoolSize=5, maxConnecting=3, waitQueueTimeoutMS=7"
        ),
    ),
    (
        events.PoolReadyEvent("a:27017"),
        {"message": "Connection pool ready"},
        "Connection pool ready for a:27017",
    ),
    (
        events.PoolClearedEvent("a:27017", SERVICE),
        {"message": "Connection pool cleared", "serviceId": str(SERVICE)},
        f"Connection pool for a:27017 cleared for serviceId {SERVICE}",
    ),
    (
        events.PoolClosedEvent("a:27017"),
        {"message": "Connection pool closed"},
        "Connection pool closed for a:27017",
    ),
    (
        events.ConnectionCreatedEvent("a:27017", 4),
        {"message": "Connection created", "driverConnectionId": 4},
        "Connection created: address=a:27017, driver-generated ID=4",
    ),
    (
        events.ConnectionReadyEvent("a:27017", 4, 0.5),
        {"message": "Connection ready", "driverConnectionId": 4, "durationMS": 500.0},
        "Connection ready: address=a:27017, driver-generated ID=4, established in=500.0 ms",
    ),
    (
        events.ConnectionCheckOutStartedEvent("a:27017"),
        {"message": "Connection checkout started"},
        "Checkout started for connection to a:27017",
    ),
    (
        events.ConnectionCheckedOutEvent("a:27017", 4, 0.25),
        {"message": "Connection checked out", "driverConnectionId": 4, "durationMS": 250.0},
        "Connection checked out: address=a:27017, driver-generated ID=4, duration=250.0 ms",
    ),
    (
        events.ConnectionCheckedInEvent("a:27017", 4),
        {"message": "Connection checked in", "driverConnectionId": 4},
        "Connection checked in: address=a:27017, driver-generated ID=4",
    ),
]
CLOSED = {
    "stale": "Connection became stale because the pool was cleared",
    "idle": "Connection has been available but unused for longer than the configured max idle time",
    "error": "An error occurred while using the connection",
    "poolClosed": "Connection pool was closed",
}
FAILED = {
    "timeout": "Wait queue timeout elapsed without a connection becoming available",
    "connectionError": "An error occurred while trying to establish a new connection",
    "poolClosed": "Connection pool was closed",
}


def logged(event: events.PoolEvent, caplog: pytest.LogCaptureFixture) -> tuple[dict[str, Any], str]:
    """Return what is logged of an event: its fields and its sentence."""
    with caplog.at_level(logging.DEBUG, logger="pushbackd.connection"):
        ClientLog(ObjectId("6500000000000000000000aa"), 1000, Shield()).take(event)
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.DEBUG, "pushbackd.connection")
    message: Any = record.msg
    return dict(message.data), record.getMessage()


@pytest.mark.spec(
    "CMAP-116", "CMAP-119", "CMAP-120", "CMAP-121", "CMAP-122", "CMAP-124", "CMAP-126", "CMAP-128"
)
@pytest.mark.spec("CMAP-130", "CMAP-132", "CMAP-137", "CMAP-142", "CMAP-144")
@pytest.mark.parametrize(("event", "fields", "_sentence"), MESSAGES)
def test_each_message_of_a_pool_has_its_fields(
    event: events.PoolEvent, fields: dict[str, Any], _sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert logged(event, caplog)[0] == {**AT, **fields}


@pytest.mark.spec("CMAP-123", "CMAP-125", "CMAP-127", "CMAP-129", "CMAP-131", "CMAP-133", "CMAP-138")
@pytest.mark.spec("CMAP-143", "CMAP-145")
@pytest.mark.parametrize(("event", "_fields", "sentence"), MESSAGES)
def test_each_message_of_a_pool_has_its_sentence(
    event: events.PoolEvent, _fields: dict[str, Any], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert logged(event, caplog)[1] == sentence


@pytest.mark.spec("CMAP-134", "CMAP-135", "CMAP-136")
@pytest.mark.parametrize("reason", CLOSED)
def test_a_closed_connection_says_why_in_the_specified_words(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = LOST if reason == "error" else None
    data, sentence = logged(events.ConnectionClosedEvent("a:27017", 4, reason, error), caplog)
    assert (data["driverConnectionId"], data["reason"]) == (4, CLOSED[reason])
    assert data.get("error") == ("NetworkError: lost" if error else None)
    told = f"Connection closed: address=a:27017, driver-generated ID=4. Reason: {CLOSED[reason]}."
    assert sentence == (f"{told} Error: NetworkError: lost" if error else told)


@pytest.mark.spec("CMAP-139", "CMAP-140", "CMAP-141")
@pytest.mark.parametrize("reason", FAILED)
def test_a_failed_check_out_says_why_in_the_specified_words(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = LOST if reason == "connectionError" else None
    data, sentence = logged(events.ConnectionCheckOutFailedEvent("a:27017", reason, 0.02, error), caplog)
    assert (data["reason"], data["durationMS"]) == (FAILED[reason], 20.0)
    assert data.get("error") == ("NetworkError: lost" if error else None)
    cause = " Error: NetworkError: lost." if error else ""
    assert sentence == (
        f"Checkout failed for connection to a:27017. Reason: {FAILED[reason]}.{cause} Duration: 20.0 ms"
    )

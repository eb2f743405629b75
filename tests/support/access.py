"""A user for tests, and the way in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from driver.auth import KeyCache, ScramClient
from fakeserver import UserSpec

if TYPE_CHECKING:
    from talking import Talker

ADMIN = UserSpec("bob", "pwd123")


async def log_in_as(talker: Talker, user: str, password: str, db: str) -> None:
    """Authenticate a connection."""
    scram = ScramClient("SCRAM-SHA-256", user, password, nonce="a-nonce", cache=KeyCache())
    start = {"saslStart": 1, "mechanism": scram.mechanism, "payload": scram.first(), "$db": db}
    first = await talker.ok({**start, "options": {"skipEmptyExchange": True}})
    proof = scram.final(first["payload"])
    await talker.ok({"saslContinue": 1, "conversationId": 1, "payload": proof, "$db": db})

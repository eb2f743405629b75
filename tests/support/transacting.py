"""A client of one session that runs transactions, command by command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bson import Int64
from talking import lsid

if TYPE_CHECKING:
    from talking import Talker


@dataclass
class Session:
    """One logical session on one connection. `begin` makes the next command start a transaction."""

    talker: Talker
    number: int = 1
    txn_number: int = 0
    starting: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def begin(self, **options: Any) -> None:
        """Have the next command start a transaction, with these fields besides."""
        self.txn_number += 1
        self.starting, self.options = True, options

    def fields(self) -> dict[str, Any]:
        """Return what a command in the transaction carries."""
        fields = {"lsid": lsid(self.number), "txnNumber": Int64(self.txn_number), "autocommit": False}
        if self.starting:
            fields |= {"startTransaction": True, **self.options}
        self.starting = False
        return fields

    async def run(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run a command in the transaction, on `db` unless it says otherwise, and return the reply."""
        reply = await self.talker.command({**command, "$db": command.get("$db", "db"), **self.fields()})
        assert reply is not None
        return reply

    async def ok(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run a command that must succeed."""
        reply = await self.run(command)
        assert reply["ok"] == 1.0, reply
        return reply

    async def fails(self, command: dict[str, Any]) -> tuple[int, str, list[str]]:
        """Run a command that must fail, and return code, message and labels."""
        reply = await self.run(command)
        assert reply["ok"] == 0.0, reply
        return reply["code"], reply["errmsg"], reply.get("errorLabels", [])

    async def insert(self, *documents: dict[str, Any]) -> dict[str, Any]:
        """Insert into `c`."""
        return await self.ok({"insert": "c", "documents": list(documents)})

    async def add(self, _id: Any, number: int = 1) -> dict[str, Any]:
        """Add to `x` of a document of `c`, and return the reply whatever it is."""
        return await self.run({"update": "c", "updates": [{"q": {"_id": _id}, "u": {"$inc": {"x": number}}}]})

    async def find(self, **how: Any) -> list[dict[str, Any]]:
        """Return the documents of `c`."""
        return await batch(self.ok({"find": "c", **how}))

    async def end(self, verb: str, **how: Any) -> dict[str, Any]:
        """Commit or abort, and return the reply."""
        return await self.run({f"{verb}Transaction": 1, "$db": "admin", **how})


async def batch(reply: Any) -> list[dict[str, Any]]:
    """Return the first batch of a reply that is to come."""
    found: list[dict[str, Any]] = (await reply)["cursor"]["firstBatch"]
    return found


async def plain_find(talker: Talker, **how: Any) -> list[dict[str, Any]]:
    """Return the documents of `c`, as anybody sees them."""
    return await batch(talker.ok({"find": "c", "$db": "db", **how}))


async def plain_insert(talker: Talker, *documents: dict[str, Any]) -> dict[str, Any]:
    """Insert into `c`, outside of transactions."""
    return await talker.ok({"insert": "c", "documents": list(documents), "$db": "db"})

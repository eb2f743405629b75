from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driven_client import Stage, play
from scripted_mongod import Drop, error

from driver import events
from driver.errors import ServerError
from driver.events import DriverEvent
from driver.monitoring import is_sensitive

if TYPE_CHECKING:
    from collections.abc import Iterator


def concrete(kind: type[DriverEvent]) -> Iterator[type[DriverEvent]]:
    for child in kind.__subclasses__():
        if child.kind:
            yield child
        yield from concrete(child)


def test_every_event_has_the_name_of_its_specification() -> None:
    for kind in concrete(DriverEvent):
        assert kind.kind[0].lower() + kind.kind[1:] == kind.__name__[0].lower() + kind.__name__[1:]


def test_a_started_command_shows_what_was_sent_and_where() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.collection.insert_one({"_id": 1})

    stage = play(scenario)
    started, succeeded = stage.of_kind("commandStartedEvent")[0], stage.of_kind("commandSucceededEvent")[0]
    assert (started.command_name, started.database_name) == ("insert", "db")
    assert started.connection_id == stage.primary.address
    assert started.command["documents"] == [{"_id": 1}]
    assert started.command["$db"] == "db"
    assert (succeeded.request_id, succeeded.operation_id) == (started.request_id, started.operation_id)
    assert succeeded.duration == pytest.approx(0.001)
    assert succeeded.reply["ok"] == 1.0


def test_a_failed_command_shows_the_error() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", error(8, "boom"))
        with pytest.raises(ServerError):
            await stage.client.command("admin", {"ping": 1})

    failed = play(scenario).of_kind("commandFailedEvent")[0]
    assert str(failed.failure) == "boom"


@pytest.mark.parametrize(
    ("command", "sensitive"),
    [
        ({"saslStart": 1}, True),
        ({"SASLCONTINUE": 1}, True),
        ({"createUser": "u", "pwd": "p"}, True),
        ({"hello": 1}, False),
        ({"hello": 1, "speculativeAuthenticate": {}}, True),
        ({"isMaster": 1, "speculativeAuthenticate": {}}, True),
        ({"find": "t"}, False),
    ],
)
def test_commands_that_may_hold_secrets_are_known(command: dict[str, Any], sensitive: bool) -> None:  # noqa: FBT001 - a case
    assert is_sensitive(next(iter(command)), command) is sensitive


def test_secrets_appear_in_no_event() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("createUser", {"ok": 1.0, "secret": "s3cret"}, error(18, "s3cret"), Drop())
        command = {"createUser": "u", "pwd": "s3cret"}
        await stage.client.command("admin", command)
        for _ in range(2):
            with pytest.raises(Exception, match=r"s3cret|closed|reset"):
                await stage.client.command("admin", command)

    stage = play(scenario)
    told = [event for event in stage.events if isinstance(event, events.CommandEvent)]
    assert not any("s3cret" in str(event) for event in told)
    refused = stage.of_kind("commandFailedEvent")[0]
    assert (refused.failure.code, refused.sensitive) == (18, True)

"""Who a client is: SCRAM as a server speaks it (Authentication), the localhost exception, logout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talking import Deployment, Talker, play

from driver.auth import KeyCache, ScramClient
from fakeserver import ClusterSpec, UserSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

BOB = UserSpec("bob", "pwd123")
AUTH = ClusterSpec.standalone(auth=True, users=(BOB,))
BOTH = ("SCRAM-SHA-1", "SCRAM-SHA-256")
NONCE = "abcdefghijklmnop"


def client(mechanism: str = BOTH[1], user: str = "bob", password: str = "pwd123") -> ScramClient:
    return ScramClient(mechanism, user, password, nonce=NONCE, cache=KeyCache())


def start(scram: ScramClient, **more: Any) -> dict[str, Any]:
    return {"saslStart": 1, "mechanism": scram.mechanism, "payload": scram.first(), **more}


def go_on(payload: bytes, conversation: int = 1) -> dict[str, Any]:
    return {"saslContinue": 1, "conversationId": conversation, "payload": payload}


async def log_in(talker: Talker, scram: ScramClient | None = None, db: str = "admin") -> dict[str, Any]:
    """Authenticate in three steps, and return the last reply."""
    scram = scram or client()
    first = await talker.ok({**start(scram), "$db": db})
    second = await talker.ok({**go_on(scram.final(first["payload"])), "$db": db})
    scram.verify(second["payload"])
    return await talker.ok({**go_on(b""), "$db": db})


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("mechanism", BOTH)
def test_a_password_is_proven_in_three_steps(mechanism: str, repeats: bool) -> None:  # noqa: FBT001 - a case
    async def scenario(deployment: Deployment) -> None:
        talker, scram = await deployment.connect(), client(mechanism)
        first = await talker.ok(start(scram))
        assert first["conversationId"] == 1
        assert first["done"] is False
        assert first["payload"].startswith(f"r={NONCE}".encode())
        second = await talker.ok(go_on(scram.final(first["payload"])))
        assert second["done"] is False
        scram.verify(second["payload"])
        await talker.fails({"find": "c", "$db": "db"})
        # Java's driver of 2018 sends the server's signature back.
        third = await talker.ok(go_on(second["payload"] if repeats else b""))
        assert (third["done"], third["payload"]) == (True, b"")
        await talker.ok({"find": "c", "$db": "db"})

    play(scenario, AUTH)


def test_the_empty_exchange_is_skipped_on_request() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, scram = await deployment.connect(), client()
        first = await talker.ok(start(scram, options={"skipEmptyExchange": True}))
        second = await talker.ok(go_on(scram.final(first["payload"])))
        assert second["done"] is True
        await talker.ok({"find": "c", "$db": "db"})

    play(scenario, AUTH)


def test_a_hello_can_carry_the_first_step() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, scram = await deployment.connect(), client()
        attempt = {**start(scram, options={"skipEmptyExchange": True}), "db": "admin"}
        hello = await talker.ok({"hello": 1, "speculativeAuthenticate": attempt})
        first = hello["speculativeAuthenticate"]
        assert "ok" not in first
        await talker.ok(go_on(scram.final(first["payload"])))
        await talker.ok({"find": "c", "$db": "db"})

    play(scenario, AUTH)


@pytest.mark.parametrize(
    "attempt",
    [
        {**start(client(user="nobody")), "db": "admin"},
        {**start(client()), "db": "other"},
        start(client()),
        {"saslStart": 1, "db": "admin"},
        {"saslStart": 1, "mechanism": "PLAIN", "payload": b"\0bob\0pwd123", "db": "admin"},
        {"saslStart": 1, "mechanism": BOTH[0], "payload": b"\xff", "db": "admin"},
        {"authenticate": 1, "mechanism": "MONGODB-X509", "db": "$external"},
    ],
)
def test_an_attempt_in_a_hello_that_fails_is_left_out_of_the_reply(attempt: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert "speculativeAuthenticate" not in await talker.ok(
            {"hello": 1, "speculativeAuthenticate": attempt}
        )

    play(scenario, AUTH)


def test_a_hello_tells_the_mechanisms_of_a_user_it_knows() -> None:
    users = (BOB, UserSpec("one", "x", mechanisms=("SCRAM-SHA-1",)))

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for wanted, mechanisms in (
            ("admin.bob", list(BOTH)),
            ({"user": "one", "db": "admin"}, ["SCRAM-SHA-1"]),
            ("admin.nobody", None),
            ("other.bob", None),
        ):
            hello = await talker.ok({"hello": 1, "saslSupportedMechs": wanted})
            assert hello.get("saslSupportedMechs") == mechanisms
        assert (await talker.fails({"hello": 1, "saslSupportedMechs": "bob"}))["code"] == 2

    play(scenario, ClusterSpec.standalone(auth=True, users=users))


def test_what_is_not_a_password_fails_as_authentication_and_tells_nothing_else() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        scram = client(password="wrong")
        first = await talker.ok(start(scram))
        failures = [await talker.fails(go_on(scram.final(first["payload"])))]
        failures.append(await talker.fails(start(client(user="nobody"))))
        failures.append(await talker.fails({**start(client()), "$db": "other"}))
        for failure in failures:
            assert (failure["code"], failure["errmsg"]) == (18, "Authentication failed.")

    play(scenario, AUTH)


def test_protocol_errors_and_missing_mechanisms_are_told_apart() -> None:
    users = (UserSpec("bob", "pwd123", mechanisms=("SCRAM-SHA-1",)),)

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails(go_on(b"")))["code"] == 17
        assert (await talker.fails(start(client(BOTH[1]))))["code"] == 334
        assert (await talker.fails({"saslStart": 1, "mechanism": "PLAIN", "payload": b""}))["code"] == 334
        scram = client(BOTH[0])
        first = await talker.ok(start(scram))
        failure = await talker.fails(go_on(scram.final(first["payload"]), conversation=2))
        assert (failure["code"], failure["errmsg"]) == (17, "sasl: Mismatched conversation id")
        assert (await talker.fails(start(scram, options={"skipEmptyExchange": 1})))["code"] == 14

    play(scenario, ClusterSpec.standalone(auth=True, users=users))


def test_a_conversation_stays_on_its_database() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, scram = await deployment.connect(), client()
        first = await talker.ok(start(scram))
        assert (await talker.fails({**go_on(scram.final(first["payload"])), "$db": "x"}))["code"] == 17

    play(scenario, AUTH)


@pytest.mark.parametrize("mechanism", BOTH)
@pytest.mark.parametrize("name", ["a=b,c", "=2C", "IX\u2168", "user name", "ü"])
def test_any_user_name_and_password_can_be_written(name: str, mechanism: str) -> None:
    spec = ClusterSpec.standalone(auth=True, users=(UserSpec(name, "p\u2168ss, =ü"),))

    async def scenario(deployment: Deployment) -> None:
        await log_in(await deployment.connect(), client(mechanism, name, "p\u2168ss, =ü"))

    play(scenario, spec)


def test_strangers_may_do_nothing_but_introduce_themselves() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for command in (
            *({"hello": 1}, {"ping": 1}, {"buildInfo": 1}, {"connectionStatus": 1}, {"logout": 1}),
            *({"whatsmyuri": 1}, {"configureFailPoint": "failCommand", "mode": "off"}),
        ):
            await talker.ok(dict[str, Any](command))
        for name in ("find", "insert", "listDatabases", "serverStatus", "getParameter", "createUser"):
            failure = await talker.fails({name: "x"})
            assert (failure["code"], failure["errmsg"]) == (13, f"Command {name} requires authentication")

    play(scenario, AUTH)


def test_an_unknown_command_is_unknown_to_strangers_too_and_a_fail_point_does_not_see_them() -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.fail_command({"times": 1}, "find", errorCode=91)
        talker = await deployment.connect()
        assert (await talker.fails({"nothing": 1}))["code"] == 59
        assert (await talker.fails({"find": "c", "unknown": 1, "$db": "db"}))["code"] == 13
        await log_in(talker)
        assert (await talker.fails({"find": "c", "$db": "db"}))["code"] == 91

    play(scenario, AUTH)


def test_logout_forgets_the_user_of_its_database() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await log_in(talker)
        await talker.ok({"logout": 1, "$db": "other"})
        await talker.ok({"find": "c", "$db": "db"})
        await talker.ok({"logout": 1})
        assert (await talker.fails({"find": "c", "$db": "db"}))["code"] == 13

    play(scenario, AUTH)


def test_while_there_are_no_users_a_local_client_may_make_the_first_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        refused = await talker.fails({"find": "c", "$db": "db"})
        assert refused["errmsg"].startswith('not authorized on db to execute command { find: "c"')
        await talker.ok({"createUser": "bob", "pwd": "pwd123", "roles": ["root"]})
        assert (await talker.fails({"createUser": "eve", "pwd": "x", "roles": []}))["code"] == 13
        await log_in(talker)
        await talker.ok({"find": "c", "$db": "db"})

    play(scenario, ClusterSpec.standalone(auth=True))


def test_the_localhost_exception_can_be_switched_off() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert (await talker.fails({"createUser": "bob", "pwd": "x", "roles": ["root"]}))["code"] == 13

    play(scenario, ClusterSpec.standalone(auth=True, parameters={"enableLocalhostAuthBypass": False}))


def test_a_deployment_tells_that_it_asks_who_is_there() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await log_in(talker)
        options = await talker.ok({"getCmdLineOpts": 1})
        assert options["parsed"]["security"] == {"authorization": "enabled"}
        assert "--auth" in options["argv"]
        told = await talker.ok({"getParameter": 1, "authenticationMechanisms": 1})
        assert set(BOTH) <= set(told["authenticationMechanisms"])

    play(scenario, AUTH)


def test_nothing_that_is_kept_holds_a_password_or_a_proof() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, scram = await deployment.connect(), client()
        await talker.fails({"createUser": "eve", "pwd": "secret-of-eve", "roles": ["root"]})
        await talker.ok(start(scram))
        await log_in(talker)
        await talker.ok({"createUser": "eve", "pwd": "secret-of-eve", "roles": [], "$db": "db"})
        await log_in(talker, client(user="eve", password="secret-of-eve"), db="db")
        await talker.ok({"logout": 1})
        refused = await talker.fails({"createUser": "x", "pwd": "secret-of-eve", "roles": [], "$db": "db"})
        kept = [
            deployment.cluster.journal.to_json_lines(),
            repr(deployment.cluster.spec),
            json.dumps(list(deployment.primary.log.lines)),
            str(refused),
            repr(deployment.cluster.users.all()),
        ]
        for text in kept:
            assert "pwd123" not in text
            assert "secret-of-eve" not in text
        assert "Successfully authenticated" in kept[2]

    play(scenario, AUTH)


def test_the_connection_string_names_the_first_user() -> None:
    users = (UserSpec("a b", "p:@/", db="x"),)

    async def scenario(deployment: Deployment) -> None:
        assert deployment.cluster.uri.startswith("mongodb://a%20b:p%3A%40%2F@localhost:")
        assert deployment.cluster.uri.endswith("/?replicaSet=rs0&authSource=x")

    play(scenario, ClusterSpec.replica_set(1, users=users))


@pytest.mark.parametrize(
    "facts", [{"name": ""}, {"name": "x"}, {"name": "x", "db": "$external", "password": "y"}]
)
def test_a_user_that_no_server_would_keep_is_refused(facts: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match="user"):
        UserSpec(**facts)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.from_regex(
                rb"[nyp]=?,[a-z=]{0,4},(n=bob,)?(m=x,)?r=[!-~]{0,12}(,[a-z]=.{0,5})?", fullmatch=True
            ),
            st.from_regex(rb"c=[A-Za-z0-9+/=]{0,8},r=[!-~]{0,12},p=[A-Za-z0-9+/=]{0,8}", fullmatch=True),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_payload_takes_the_server_down_or_in(payloads: list[bytes]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for mechanism in BOTH:
            for payload in payloads:
                reply = await talker.command({"saslStart": 1, "mechanism": mechanism, "payload": payload})
                assert reply is not None
                assert reply["ok"] == 1.0 or reply["code"] in {17, 18, 334}
                for answer in payloads:
                    reply = await talker.fails(go_on(answer))
                    assert reply["code"] in {17, 18}
        assert (await talker.fails({"find": "c", "$db": "db"}))["code"] == 13

    play(scenario, AUTH)

"""Load shedding: which requests are refused, how, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from talking import Deployment, play

if TYPE_CHECKING:
    from talking import Talker

INSERT: dict[str, Any] = {"insert": "c", "documents": [{}], "$db": "db"}


async def _fates(talker: Talker, count: int) -> list[int]:
    replies = [await talker.command(INSERT) for _ in range(count)]
    return [reply.get("code", 0) for reply in replies if reply is not None]


def test_the_same_seed_refuses_the_same_requests() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, talker = deployment.cluster.control, await deployment.connect()
        fates = []
        for seed in (7, 7, 8):
            control.shed("10%", seed=seed)
            fates.append(await _fates(talker, 200))
        assert fates[0] == fates[1] != fates[2]
        assert 10 <= sum(map(bool, fates[0])) <= 30
        assert set(fates[0]) == {0, 462, 463}

    play(scenario)


def test_the_code_says_whether_a_refusal_is_retryable() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, talker = deployment.cluster.control, await deployment.connect()
        labels = {462: ["SystemOverloadedError", "RetryableError"], 463: ["SystemOverloadedError"]}
        for code, expected in labels.items():
            control.shed(1, codes=code)
            reply = await talker.fails(INSERT)
            assert (reply["code"], reply["errorLabels"]) == (code, expected)

    play(scenario)


def test_shedding_ends_with_its_duration_or_when_it_is_ended() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, talker = deployment.cluster.control, await deployment.connect()
        control.shed(1, codes=462, duration="10s")
        await talker.fails(INSERT)
        assert control.state()["shedding"] == {"share": 1, "seen": 1, "refused": {"462": 1}}
        await deployment.sleep(10.0)
        await talker.ok(INSERT)
        assert control.state()["shedding"] == {}
        control.shed(1, codes=462)
        await talker.fails(INSERT)
        control.shed(0)
        await talker.ok(INSERT)

    play(scenario)


def test_monitors_and_verbs_pass_while_everything_is_shed() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        deployment.cluster.control.shed(1)
        for command in ({"hello": 1}, {"ping": 1}, {"serverStatus": 1}, {"pushbackd": "state"}):
            await talker.ok(command)

    play(scenario)


def test_a_reset_takes_it_away_or_begins_it_anew() -> None:
    async def scenario(deployment: Deployment) -> None:
        cluster, talker = deployment.cluster, await deployment.connect()
        control = cluster.control
        control.shed(1)
        control.reset()
        await talker.ok(INSERT)
        control.shed("50%", seed=3)
        control.begin()
        first = await _fates(talker, 50)
        control.reset()
        assert await _fates(talker, 50) == first

    play(scenario)

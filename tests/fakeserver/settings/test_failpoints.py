from __future__ import annotations

import math
from typing import Any

import pytest
from bson import Decimal128, Int64

from fakeserver.errors import CommandError
from fakeserver.settings.failpoints import FailPointRegistry, FailPointTarget
from mongowire.system import SeededRng

_INSERT = FailPointTarget(("insert",), "db.c", "app", "conn1")
_IS_MASTER = FailPointTarget(("isMaster", "ismaster"), "admin")


class _ScriptedRng:
    """Returns the numbers of a script, in order."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = list(numbers)

    def random(self) -> float:
        return self._numbers.pop(0)

    def randbytes(self, n: int) -> bytes:
        raise NotImplementedError

    def spawn(self, actor: str) -> _ScriptedRng:
        raise NotImplementedError


def _registry(mode: Any = "alwaysOn", *, rng: _ScriptedRng | None = None, **data: Any) -> FailPointRegistry:
    registry = FailPointRegistry(rng or SeededRng(0))
    data.setdefault("failCommands", ["insert"])
    registry.configure("failCommand", mode=mode, data=data)
    return registry


def _fires(registry: FailPointRegistry, target: FailPointTarget = _INSERT) -> bool:
    return registry.fail_command(target) is not None


def _entered(registry: FailPointRegistry) -> int:
    return registry.get("failCommand").times_entered


# Modes.


def test_a_fail_point_that_is_off_never_fires() -> None:
    registry = _registry("off", errorCode=91)
    assert not _fires(registry)
    assert not registry.active


def test_a_fail_point_that_is_always_on_fires_every_time() -> None:
    registry = _registry("alwaysOn", errorCode=91)
    assert [_fires(registry) for _ in range(3)] == [True] * 3
    assert _entered(registry) == 3


@pytest.mark.parametrize(("times", "fired"), [(0, 1), (1, 1), (2, 2), (Int64(3), 3), (2.0, 2)])
def test_times_counts_down_and_switches_off(times: Any, fired: int) -> None:
    registry = _registry({"times": times}, errorCode=91)
    assert [_fires(registry) for _ in range(5)] == [True] * fired + [False] * (5 - fired)
    assert not registry.active


def test_skip_lets_the_first_matches_pass() -> None:
    registry = _registry({"skip": 2}, errorCode=91)
    assert [_fires(registry) for _ in range(4)] == [False, False, True, True]
    assert _entered(registry) == 2


def test_a_probability_is_decided_by_the_rng() -> None:
    registry = _registry({"activationProbability": 0.5}, rng=_ScriptedRng(0.49, 0.5, 0.0), errorCode=91)
    assert [_fires(registry) for _ in range(3)] == [True, False, True]
    assert _entered(registry) == 2


def test_what_does_not_match_touches_neither_times_nor_the_count() -> None:
    registry = _registry({"times": 1}, errorCode=91)
    assert not _fires(registry, FailPointTarget(("find",), "db.c"))
    assert _entered(registry) == 0
    assert _fires(registry)


def test_configuring_tells_the_hits_of_the_servers_lifetime() -> None:
    registry = _registry({"times": 2}, errorCode=91)
    _fires(registry)
    assert registry.configure("failCommand", mode="off") == 1
    assert registry.configure("failCommand", mode="alwaysOn", data={"failCommands": ["insert"]}) == 1


def test_the_first_known_key_of_a_mode_wins() -> None:
    registry = _registry({"skip": 5, "times": 1}, errorCode=91)
    assert [_fires(registry), _fires(registry)] == [True, False]


def test_configuring_rings_a_bell() -> None:
    registry = FailPointRegistry(SeededRng(0))
    heard: list[str] = []
    registry.changed.listen(lambda: heard.append("ring"))
    registry.configure("failCommand", mode="off")
    assert heard == ["ring"]


@pytest.mark.parametrize(
    ("mode", "code", "message"),
    [
        ("sometimes", 2, "unknown mode: sometimes"),
        (5, 14, "'mode' must be a string or JSON object"),
        (
            {"often": 1},
            2,
            "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or '{activationProbability:p}'",
        ),
        ({"times": -1}, 2, "'times' option to 'mode' must be positive"),
        ({"skip": -1}, 2, "'skip' option to 'mode' must be positive"),
        ({"times": Int64(2**31)}, 2, "'times' option to 'mode' is too large"),
        ({"times": "3"}, 14, 'Expected field "times" to have numeric type, but found string'),
        (
            {"activationProbability": "x"},
            14,
            "the 'activationProbability' option to 'mode' must be a double between 0 and 1",
        ),
        (
            {"activationProbability": 1.5},
            2,
            "activationProbability must be between 0.0 and 1.0; found 1.5",
        ),
    ],
)
def test_a_bad_mode_is_refused(mode: Any, code: int, message: str) -> None:
    with pytest.raises(CommandError) as refusal:
        FailPointRegistry(SeededRng(0)).configure("failCommand", mode=mode)
    assert (refusal.value.code, refusal.value.message) == (code, message)


def test_a_refused_configuration_changes_nothing() -> None:
    registry = _registry("alwaysOn", errorCode=91)
    with pytest.raises(CommandError):
        registry.configure("failCommand", mode="off", data=7)
    assert _fires(registry)


def test_an_unknown_fail_point_is_not_found() -> None:
    with pytest.raises(CommandError, match="bogus not found") as refusal:
        FailPointRegistry(SeededRng(0)).configure("bogus", mode="off")
    assert refusal.value.code == 266


def test_data_that_is_no_object_is_refused() -> None:
    with pytest.raises(CommandError, match="the 'data' option must be a JSON object") as refusal:
        FailPointRegistry(SeededRng(0)).configure("failCommand", mode="off", data="x")
    assert refusal.value.code == 14


# Filters.


@pytest.mark.parametrize(
    ("data", "matches"),
    [
        ({"failCommands": ["find"]}, False),
        ({"failCommands": "insert"}, False),
        ({"failCommands": ["insert"], "appName": "app"}, True),
        ({"failCommands": ["insert"], "appName": "other"}, False),
        ({"failCommands": ["insert"], "appName": 5}, True),
        ({"failCommands": ["insert"], "threadName": "conn1"}, True),
        ({"failCommands": ["insert"], "threadName": "conn2"}, False),
        ({"failCommands": ["insert"], "namespace": "db.c"}, True),
        ({"failCommands": ["insert"], "namespace": "db.d"}, False),
        ({"failCommands": [], "failAllCommands": True}, True),
        ({"failCommands": [], "failAllCommands": True, "failCommandsExcept": ["insert"]}, False),
        ({"failCommands": [], "failAllCommands": True, "failCommandsExcept": ["find"]}, True),
        ({"failCommands": ["insert"], "failCommandsExcept": ["insert"]}, True),
        ({"failCommands": ["insert"], "priorityPortOnly": True}, False),
    ],
)
def test_filters_decide_what_matches(*, data: dict[str, Any], matches: bool) -> None:
    assert _fires(_registry(errorCode=91, **data)) is matches


def test_an_alias_names_its_command() -> None:
    registry = _registry(errorCode=91, failCommands=["ismaster"])
    assert _fires(registry, _IS_MASTER)
    assert not _fires(registry, FailPointTarget(("hello",), "admin"))


def test_configure_fail_point_is_never_failed() -> None:
    registry = _registry(errorCode=91, failAllCommands=True)
    assert not _fires(registry, FailPointTarget(("configureFailPoint",), "admin"))


@pytest.mark.parametrize("asked", [False, True])
def test_internal_clients_are_spared_unless_asked_for(*, asked: bool) -> None:
    registry = _registry(errorCode=91, failInternalCommands=asked)
    assert _fires(registry, _INSERT._replace(internal_client=True)) is asked


# Effects.


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"errorCode": 0},
        {"errorCode": "91"},
        {"errorExtraInfo": {"a": 1}},
        {"errorLabels": ["x"]},
        {"writeConcernError": {"code": 91}},
        {"closeConnection": False, "blockConnection": False},
    ],
)
def test_a_fail_point_without_an_effect_before_the_command_is_not_entered(data: dict[str, Any]) -> None:
    registry = _registry(**data)
    assert not _fires(registry)
    assert _entered(registry) == 0


def test_an_error_carries_code_message_and_extra_info() -> None:
    fault = _registry(errorCode=13388.0, errorMsg="stale", errorExtraInfo={"ns": "a.b"}).fail_command(_INSERT)
    assert fault is not None
    assert fault.error is not None
    assert (fault.error.code, fault.error.message, fault.error.extra) == (13388, "stale", {"ns": "a.b"})
    assert (fault.labels, fault.block, fault.close, fault.effect) == (None, 0.0, False, "error")


@pytest.mark.parametrize("code", [91, Int64(91), 91.0, Decimal128("91")])
def test_the_code_may_be_any_number_and_the_message_has_a_default(code: Any) -> None:
    fault = _registry(errorCode=code).fail_command(_INSERT)
    assert fault is not None
    assert fault.error is not None
    assert (fault.error.code, fault.error.message) == (91, "Failing command via 'failCommand' failpoint")


def test_closing_wins_over_an_error() -> None:
    fault = _registry(errorCode=91, closeConnection=True).fail_command(_INSERT)
    assert fault is not None
    assert (fault.close, fault.error, fault.effect) == (True, None, "close")


def test_labels_replace_even_when_there_are_none() -> None:
    fault = _registry(errorCode=91, errorLabels=[]).fail_command(_INSERT)
    assert fault is not None
    assert fault.labels == ()


@pytest.mark.parametrize(
    ("data", "block"), [({"blockTimeMS": 250}, 0.25), ({"blockTimeMS": 0}, 0.0), ({}, math.inf)]
)
def test_a_block_is_a_number_of_seconds_or_until_further_notice(data: dict[str, Any], block: float) -> None:
    fault = _registry(blockConnection=True, **data).fail_command(_INSERT)
    assert fault is not None
    assert fault.block == block


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        ({"blockConnection": True, "blockTimeMS": "x"}, 72, "Failed to parse 'blockTimeMS'"),
        ({"blockConnection": True, "blockTimeMS": -1}, 72, "'blockTimeMS' must be non-negative"),
        ({"errorCode": 91, "errorMsg": 5}, 14, "wrong type for field (errorMsg) int != string"),
    ],
)
def test_bad_data_is_the_victims_error_and_a_hit(data: dict[str, Any], code: int, message: str) -> None:
    registry = _registry(**data)
    with pytest.raises(CommandError) as refusal:
        registry.fail_command(_INSERT)
    assert (refusal.value.code, refusal.value.message) == (code, message)
    assert _entered(registry) == 1


def test_a_write_concern_error_is_a_hit_of_its_own() -> None:
    registry = _registry(
        {"times": 2}, blockConnection=True, blockTimeMS=1, writeConcernError={"code": 91}, errorLabels=["x"]
    )
    assert _fires(registry)
    fault = registry.write_concern_error(_INSERT)
    assert fault is not None
    assert (fault.error, fault.labels) == ({"code": 91}, ("x",))
    assert registry.write_concern_error(_INSERT) is None


@pytest.mark.parametrize(
    ("mode", "target"),
    [("off", _INSERT), ("alwaysOn", FailPointTarget(("find",), "db.c")), ({"skip": 1}, _INSERT)],
)
def test_a_write_concern_error_is_filtered_like_the_rest(mode: Any, target: FailPointTarget) -> None:
    assert _registry(mode, writeConcernError={"code": 91}).write_concern_error(target) is None


def test_a_fail_point_without_a_write_concern_error_adds_none() -> None:
    assert _registry(errorCode=91).write_concern_error(_INSERT) is None


# Other fail points.


def _configured(name: str, mode: Any = "alwaysOn", **data: Any) -> FailPointRegistry:
    registry = FailPointRegistry(SeededRng(0))
    registry.configure(name, mode=mode, data=data)
    return registry


@pytest.mark.parametrize(
    ("data", "close", "code"),
    [
        ({}, True, None),
        ({"closeConnection": False}, False, None),
        ({"failBeforeCommitExceptionCode": 1}, True, 1),
        ({"closeConnection": False, "failBeforeCommitExceptionCode": Int64(50)}, False, 50),
    ],
)
def test_on_primary_transactional_write_closes_unless_told_otherwise(
    *, data: dict[str, Any], close: bool, code: int | None
) -> None:
    assert _configured("onPrimaryTransactionalWrite", **data).transactional_write() == (close, code)


def test_on_primary_transactional_write_obeys_its_mode() -> None:
    registry = _configured("onPrimaryTransactionalWrite", {"times": 1})
    assert registry.transactional_write() is not None
    assert registry.transactional_write() is None


_GET_MORE = FailPointTarget(("getMore",), "db.c", "app")


@pytest.mark.parametrize(
    ("data", "code"), [({}, 1), ({"errorCode": 43}, 43), ({"failCommands": ["find"]}, 1)]
)
def test_fail_get_more_after_cursor_checkout_fails_get_more_whatever_is_listed(
    data: dict[str, Any], code: int
) -> None:
    failure = _configured("failGetMoreAfterCursorCheckout", **data).get_more_failure(_GET_MORE)
    assert failure is not None
    assert failure.code == code
    assert failure.message == "Hit the 'failGetMoreAfterCursorCheckout' failpoint"


@pytest.mark.parametrize(("mode", "data"), [("off", {}), ("alwaysOn", {"appName": "x"}), ({"skip": 1}, {})])
def test_fail_get_more_after_cursor_checkout_is_filtered(mode: Any, data: dict[str, Any]) -> None:
    registry = _configured("failGetMoreAfterCursorCheckout", mode, **data)
    assert registry.get_more_failure(_GET_MORE) is None


def test_a_fail_point_without_filters_is_asked_by_name() -> None:
    registry = _configured("maxTimeAlwaysTimeOut", {"times": 1})
    assert registry.is_configured("maxTimeAlwaysTimeOut")
    assert registry.is_on("maxTimeAlwaysTimeOut")
    assert not registry.is_on("maxTimeAlwaysTimeOut")
    assert not registry.is_configured("maxTimeAlwaysTimeOut")


def test_a_fail_point_shows_itself_as_a_parameter() -> None:
    registry = _registry({"skip": 1}, errorCode=91)
    shown = registry.get("failCommand").document()
    assert shown == {"mode": 4, "data": {"failCommands": ["insert"], "errorCode": 91}, "timesEntered": 0}

"""From the checked key `pushbackd` of a file to frozen values.

The schema has checked shapes and types. What it cannot say is checked here, with a place and a fix: names of
rules, of errors, of servers and of oracles, a gap before the first attempt, an element that selects and
asserts nothing. `decoded` is passed in, because `harness.unified.build`, which has it, imports this module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from harness.unified.errors import ScenarioError
from harness.unified.model import UNSET
from harness.unified.server_side.model import (
    FULL_OVERLOAD_BACKOFF,
    GAP_RULES,
    NO_GAP,
    OVERLOAD_BACKOFF,
    OVERLOAD_RETRIES,
    TRANSACTION_BACKOFF,
    CountRule,
    ExpectedAttempt,
    ExpectedAttempts,
    ExpectedConnection,
    ExpectedConnections,
    ExpectedMetric,
    ExpectedRules,
    GapRule,
    Range,
    RunOn,
    ServerSide,
)
from harness.unified.server_side.oracles import ALL, ORACLES
from mongowire.codes import ErrorCode
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from harness.unified.server_side.model import ExpectedCount, ExpectedGap
    from mongowire.documents.marks import Marked

    T = TypeVar("T")

ENDS: Final = ("ok", "disconnect", "silence")
PLACES: Final = ("primary", "secondary", "mongos", "same", "another", "not overloaded")
_CONNECTED: Final = ("primary", "secondary", "each")
_MEASURED: Final = ("primary", "each", "any")
# By pattern and not by the deployment: one file runs on deployments of several sizes.
_MEMBER: Final = re.compile(r"(node|mongos)[0-9]+")
_COUNT: Final = re.compile(rf"{OVERLOAD_RETRIES}(?: \+ ([0-9]+))?")
_GAP: Final = re.compile(r"(.*?)(?:, attempt ([0-9]+))?")
# Rules that grow with the number of the retry; `none` has no number to give.
_NUMBERED: Final = (OVERLOAD_BACKOFF, FULL_OVERLOAD_BACKOFF, TRANSACTION_BACKOFF)
_CODE_NAMES: Final = frozenset(code.code_name for code in ErrorCode)


def server_side(item: Marked, decoded: Callable[[Marked], Any]) -> ServerSide:
    """Return the key of a case; `decoded` reads Extended JSON. Raises `ScenarioError`."""
    value = item.value
    run_on = value.get("runOn", {})
    profile = run_on.get("profile", {})
    return ServerSide(
        location=item.location,
        run_on=RunOn(
            editions=tuple(run_on.get("editions", ())),
            time=run_on.get("time"),
            features=tuple(run_on.get("features", ())),
            least_profile=profile.get("min"),
            most_profile=profile.get("max"),
        ),
        attempts=_each(item, "expectAttempts", lambda each: _attempts(each, decoded)),
        connections=_each(item, "expectConnections", lambda each: _connections(each, decoded)),
        metrics=_each(item, "expectMetrics", lambda each: _metric(each, decoded)),
        rules=_rules(item.get("expectRules")),
    )


def _rules(item: Marked | None) -> ExpectedRules | None:
    if item is None:
        return None
    given = (
        tuple(ORACLES) if item.value == ALL else (item.value,) if isinstance(item.value, str) else item.value
    )
    known: dict[str, re.Pattern[str] | None] = {}
    for name, colon, pattern in (each.partition(":") for each in given):
        if name not in ORACLES:
            raise ScenarioError(
                f"there is no oracle {name!r}",
                location=item.location,
                fix=did_you_mean(name, (ALL, *ORACLES)) or f"{ALL}, or some of {', '.join(ORACLES)}",
            )
        # A colon with nothing after it is an empty expression, which passes over every sentence of its
        # oracle.
        known[name] = _pattern(item, pattern) if colon else None
    return ExpectedRules(known, item.location)


def _pattern(item: Marked, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        fix = "a regular expression that finds the sentences to pass over"
        raise ScenarioError(f"{text!r}: {error}", location=item.location, fix=fix) from error


def _attempts(item: Marked, decoded: Callable[[Marked], Any]) -> ExpectedAttempts:
    value, comment = item.value, item.get("comment")
    command = value["command"]

    def one(name: str) -> ExpectedAttempt | None:
        body = item.get(name)
        return None if body is None else _attempt(body, decoded, is_first=name == "first")

    listed = item.get("attempts")
    attempts = None
    if listed is not None:
        attempts = tuple(
            _attempt(each, decoded, is_first=index == 0) for index, each in enumerate(listed.items())
        )
    operations = _range(value.get("operations"))
    return ExpectedAttempts(
        commands=(command,) if isinstance(command, str) else tuple(command),
        location=item.location,
        namespace=value.get("namespace"),
        app_name=value.get("appName"),
        comment=UNSET if comment is None else decoded(comment),
        session=value.get("session"),
        # A list of attempts is about one operation: of two, either would have to have all of them.
        operations=Range(1, 1) if operations is None and attempts is not None else operations,
        count=_count(item),
        attempts=attempts,
        first=one("first"),
        retries=one("retries"),
        each=one("each"),
        last=one("last"),
        jitter=value.get("jitter"),
    )


def _attempt(item: Marked, decoded: Callable[[Marked], Any], *, is_first: bool) -> ExpectedAttempt:
    value, carries = item.value, item.get("carries")
    for name, what in (("gap", "gap before it"), ("connection", "attempt before it")):
        if is_first and name in value:
            raise ScenarioError(
                f"the first attempt has no {what}", location=item[name].location, fix=f"leave {name} out"
            )
    # `each` may say these, for it is about later attempts as well; the judge passes over the first one there.
    if is_first and value.get("on") in ("same", "another"):
        raise ScenarioError(
            "the first attempt has no attempt before it",
            location=item["on"].location,
            fix="name a role or a member",
        )
    return ExpectedAttempt(
        body=value,
        location=item.location,
        meets=_meets(item),
        on=_place(item, PLACES),
        gap=_gap(item),
        carries=None if carries is None else decoded(carries),
        same=tuple(value.get("same", ())),
        newer=tuple(value.get("newer", ())),
        omits=tuple(value.get("omits", ())),
        size_max=value.get("size", {}).get("max"),
        connection=value.get("connection"),
        compressor=value.get("compressor"),
    )


def _meets(item: Marked) -> tuple[str | int, ...]:
    met = item.value.get("meets", ())
    ends = (met,) if isinstance(met, (str, int)) else tuple(met)
    for end in ends:
        if isinstance(end, str) and end not in ENDS and end not in _CODE_NAMES:
            raise ScenarioError(
                f"{end!r} is no end of an attempt and no name of an error",
                location=item["meets"].location,
                fix=did_you_mean(end, [*ENDS, *sorted(_CODE_NAMES)])
                or f"one of {', '.join(ENDS)}, or an error's name",
            )
    return ends


def _place(item: Marked, places: Sequence[str]) -> str | None:
    """Return the server that an element names, None for none.

    Raises `ScenarioError` for a name that no deployment can have; whether this one has it is known when the
    case is judged.
    """
    name = item.value.get("on")
    if name is not None and name not in places and not _MEMBER.fullmatch(name):
        raise ScenarioError(
            f"{name!r} is no server",
            location=item["on"].location,
            fix=did_you_mean(name, places) or f"one of {', '.join(places)}, or a name such as node0",
        )
    found: str | None = name
    return found


def _gap(item: Marked) -> ExpectedGap | None:
    value = item.value.get("gap")
    if not isinstance(value, str):
        return _range(value)
    parts = _GAP.fullmatch(value)
    assert parts is not None
    name, retry = parts[1], parts[2]
    if name not in GAP_RULES or (retry is not None and (name not in _NUMBERED or int(retry) < 1)):
        raise ScenarioError(
            f"{value!r} is no rule for a gap",
            location=item["gap"].location,
            fix=did_you_mean(name, GAP_RULES) or f"one of {', '.join(GAP_RULES)}, or seconds",
        )
    if name == NO_GAP:
        return GapRule(NO_GAP)
    return GapRule(name, None if retry is None else int(retry))


def _count(item: Marked) -> ExpectedCount | None:
    value = item.value.get("count")
    if not isinstance(value, str):
        return _range(value)
    # A number in quotes is meant as a number.
    if value.isdecimal():
        return Range(int(value), int(value))
    parts = _COUNT.fullmatch(value)
    if parts is None:
        raise ScenarioError(
            f"{value!r} is no rule for a number of attempts",
            location=item["count"].location,
            fix=f"write {OVERLOAD_RETRIES} + 1",
        )
    return CountRule(int(parts[1] or 0))


def _connections(item: Marked, decoded: Callable[[Marked], Any]) -> ExpectedConnections:
    value, each, listed = item.value, item.get("each"), item.get("connections")
    order = value.get("closedInOrder")
    _asserts(item, ("appName", "on", "monitoring"))
    return ExpectedConnections(
        location=item.location,
        app_name=value.get("appName"),
        on=_place(item, _CONNECTED),
        monitoring=bool(value.get("monitoring")),
        established=_range(value.get("established")),
        at_once=_range(value.get("atOnce")),
        open=_range(value.get("open")),
        open_at_end=_range(value.get("openAtEnd")),
        idle=_range(value.get("idle")),
        each=None if each is None else _connection(each, decoded),
        connections=None
        if listed is None
        else tuple(_connection(connection, decoded) for connection in listed.items()),
        closed_in_order=None if order is None else tuple(order),
    )


def _connection(item: Marked, decoded: Callable[[Marked], Any]) -> ExpectedConnection:
    value, hello = item.value, item.get("hello")
    listed = {
        name: None if value.get(name) is None else tuple(value[name])
        for name in ("commands", "authentication", "compressed")
    }
    return ExpectedConnection(
        location=item.location,
        hello=None if hello is None else decoded(hello),
        closed_by=value.get("closedBy"),
        streamed=value.get("streamed"),
        **listed,
    )


def _metric(item: Marked, decoded: Callable[[Marked], Any]) -> ExpectedMetric:
    value = item.get("value")
    _asserts(item, ("path", "on"))
    return ExpectedMetric(
        path=item.value["path"],
        location=item.location,
        on=_place(item, _MEASURED),
        change=_range(item.value.get("change")),
        value=UNSET if value is None else decoded(value),
    )


def _asserts(item: Marked, selectors: Sequence[str]) -> None:
    """Check that an element has more than selectors. Raises `ScenarioError`."""
    if not item.value.keys() - set(selectors):
        raise ScenarioError(
            "expects nothing", location=item.location, fix="add what is expected, or leave it out"
        )


def _range(value: float | Mapping[str, float] | None) -> Range | None:
    """Return the range that a file gives, None for none.

    A bare number is a range of one, so that judges compare ranges alone.
    """
    if value is None:
        return None
    if isinstance(value, (int, float)):
        return Range(value, value)
    return Range(**{_ENDS_OF_RANGE[name]: number for name, number in value.items()})


_ENDS_OF_RANGE: Final = {"min": "least", "max": "most"}


def _each(item: Marked, name: str, make: Callable[[Marked], T]) -> tuple[T, ...]:
    found = item.get(name)
    return tuple(make(each) for each in found.items()) if found else ()

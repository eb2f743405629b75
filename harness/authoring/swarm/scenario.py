"""From a schedule to a scenario of the unified test format, which `conform` runs.

The text is complete: a failure is printed as it stands here, and a user runs it without the swarm. So
everything is in the file, also the client that sets the faults and the steps that undo them. What the
driver's features do not allow is left out here, and only here (`_takes`, `_lacks`); the schedule itself does
not know the driver. Each value stands on one line (`flow`), so that a step is a line, and a smaller schedule
a shorter file.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import Feature
from harness.adapters.deployment import Topology
from harness.authoring.swarm import faults
from harness.authoring.swarm.work import CLIENT, COLLECTION, CURSOR, DATABASE, HELD, SESSION, UNACKNOWLEDGED
from harness.deployments.targets import profile_of, topology_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.authoring.swarm.schedule import SwarmSchedule

_PLAIN: Final = re.compile(r"[A-Za-z$][A-Za-z0-9_$]*")
_THREAD: Final = re.compile(r"thread[0-9]+")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_NEEDED: Final = {
    "timeoutMS": Feature.TIMEOUT_MS,
    "adaptiveRetries": Feature.ADAPTIVE_RETRIES,
    "maxAdaptiveRetries": Feature.MAX_ADAPTIVE_RETRIES,
    "enableOverloadRetargeting": Feature.MAX_ADAPTIVE_RETRIES,
}
"""Options that not every driver has."""

_OF_AN_EDITION: Final = frozenset({"adaptiveRetries", "maxAdaptiveRetries", "enableOverloadRetargeting"})
"""Options that the reference driver reads in every edition, and heeds in one."""


def text_of(
    schedule: SwarmSchedule, features: frozenset[Feature], rules: Sequence[str] | str, why: str = ""
) -> str:
    """Return the text of the scenario of a schedule, for a driver with these features.

    `rules` are the oracles that it is held against; `why` stands in a comment at its head.
    """
    lines = [f"# {line}".rstrip() for line in why.splitlines()]
    held = [{"_id": number, "n": 0} for number in range(1, HELD + 1)]
    requirement = {"topologies": [str(topology_of(schedule.target))]}
    profile = profile_of(schedule.target)
    run_on = {"editions": [schedule.edition], "profile": {"min": profile, "max": profile}}
    lines += [
        f"description: swarm {schedule.seed}",
        'schemaVersion: "1.17"',
        "",
        "runOnRequirements:",
        f"  - {flow(requirement)}",
        "",
        "createEntities:",
        *(f"  - {flow(entity)}" for entity in _entities(schedule, features)),
        "",
        "initialData:",
        f"  - {flow({'databaseName': 'swarm', 'collectionName': 'stock', 'documents': held})}",
        "",
        "tests:",
        f"  - description: seed {schedule.seed}",
        "    operations:",
        *(f"      - {flow(operation)}" for operation in _operations(schedule, features)),
        "    pushbackd:",
        f"      runOn: {flow(run_on)}",
        f"      expectRules: {flow(rules)}",
    ]
    return "\n".join(lines) + "\n"


def _entities(schedule: SwarmSchedule, features: frozenset[Feature]) -> Iterator[dict[str, Any]]:
    traits = {name: json.loads(value) for name, value in schedule.traits}
    if Feature.JITTER not in features:
        traits.pop("pushbackd", None)
    if not topology_of(schedule.target).has_mongos:
        traits.pop("useMultipleMongoses", None)
    if Feature.LOG_MESSAGES in features:
        # Of more than pools: what is about a pool, and told as of something else, is heard too.
        traits["observeLogMessages"] = {"connection": "debug", "topology": "debug"}
    options = {"appName": faults.APP_NAME}
    options |= {name: json.loads(value) for name, value in schedule.options if _takes(name, features)}
    yield {"client": {"id": CLIENT, **traits, "uriOptions": options}}
    balanced = topology_of(schedule.target) is Topology.LOAD_BALANCED
    yield {
        "client": {
            "id": faults.FAULTS,
            **({"useMultipleMongoses": False} if balanced else {}),
            "uriOptions": {"appName": faults.FAULTS},
        }
    }
    yield {"database": {"id": faults.ADMIN, "client": faults.FAULTS, "databaseName": "admin"}}
    yield {"database": {"id": DATABASE, "client": CLIENT, "databaseName": "swarm"}}
    yield {"collection": {"id": COLLECTION, "database": DATABASE, "collectionName": "stock"}}
    used = schedule_words(schedule)
    if UNACKNOWLEDGED in used:
        options_of = {"writeConcern": {"w": 0}}
        yield {
            "collection": {
                "id": UNACKNOWLEDGED,
                "database": DATABASE,
                "collectionName": "stock",
                "collectionOptions": options_of,
            }
        }
    if SESSION in used:
        yield {"session": {"id": SESSION, "client": CLIENT}}
    threads = sorted(word for word in used if _THREAD.fullmatch(word))
    yield from ({"thread": {"id": name}} for name in threads)


def _takes(option: str, features: frozenset[Feature]) -> bool:
    """Return whether a driver with these features takes an option."""
    if option in _OF_AN_EDITION and Feature.VIRTUAL_TIME in features:
        return True
    return option not in _NEEDED or _NEEDED[option] in features


def schedule_words(schedule: SwarmSchedule) -> frozenset[str]:
    """Return the words that are values in the steps of a schedule; its entities are among them."""
    return frozenset(word for step in schedule.steps for word in _values(step.operation))


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _values(member)
    elif isinstance(value, list):
        for member in value:
            yield from _values(member)
    elif isinstance(value, str):
        yield value


def _operations(schedule: SwarmSchedule, features: frozenset[Feature]) -> Iterator[dict[str, Any]]:
    """Yield the steps that an adapter can take, and at last what undoes those that outlive the case."""
    steps = [step.operation for step in schedule.steps]
    if Feature.TIMEOUT_MS not in features:
        steps = [_without("timeoutMS", step) for step in steps]
    yield from (step for step in steps if not _lacks(step, features))
    set_by = [step.get("arguments", {}).get("command", {}) for step in steps]
    if any("setParameter" in command for command in set_by):
        yield faults.admin({"setParameter": 1, "externalClientBaseBackoffMS": 0})
    if any(command.get("pushbackd") == "addRule" for command in set_by):
        yield faults.NO_RULES
    if any(command.get("pushbackd") == "addFault" for command in set_by):
        yield faults.admin({"pushbackd": "removeFault", "id": faults.CUT})


def _without(name: str, value: Any) -> Any:
    """Return a value without the fields of a name, wherever they stand."""
    if isinstance(value, dict):
        return {key: _without(name, member) for key, member in value.items() if key != name}
    return [_without(name, member) for member in value] if isinstance(value, list) else value


def _lacks(operation: dict[str, Any], features: frozenset[Feature]) -> bool:
    """Return whether an adapter lacks what an operation needs."""
    # More than a minute where it has transactions begin anew.
    arguments = operation.get("arguments", {})
    rule = arguments.get("command", {}).get("rule", {})
    repeated = any(each.get("labels") == ["TransientTransactionError"] for each in rule.get("then", ()))
    lasts = 2 * _MINUTE if repeated else arguments.get("ms", 0)
    takes_long = max(_bases(operation), default=0) > _LONG or lasts > _MINUTE
    if takes_long and Feature.VIRTUAL_TIME not in features:
        return True
    needs = Feature.FIND_CURSORS if operation["object"] == CURSOR else _NEEDED_BY.get(operation["name"])
    in_session = SESSION in (operation["object"], operation.get("arguments", {}).get("session"))
    return (needs is not None and needs not in features) or (
        in_session and Feature.TRANSACTIONS not in features
    )


_NEEDED_BY: Final = {
    "clientBulkWrite": Feature.CLIENT_BULK_WRITE,
    "createFindCursor": Feature.FIND_CURSORS,
}


def _bases(value: Any) -> Iterator[int]:
    """Yield the bases of backoffs that servers advise, wherever they stand in an operation."""
    if isinstance(value, dict):
        yield from (value[name] for name in ("baseBackoffMS", "externalClientBaseBackoffMS") if name in value)
        for member in value.values():
            yield from _bases(member)
    elif isinstance(value, list):
        for member in value:
            yield from _bases(member)


_MINUTE: Final = 60_000
_LONG: Final = 100
"""Milliseconds of a base of backoffs that nobody waits for in real time."""


def flow(value: Any) -> str:
    """Return a value as YAML on one line, in the style of scenarios."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_word(name)}: {flow(member)}" for name, member in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(flow, value))}]"
    return _word(value) if isinstance(value, str) else json.dumps(value)


def _word(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else json.dumps(text)

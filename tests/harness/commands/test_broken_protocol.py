"""Every part of the line protocol that `check-adapter` judges is failed by a program that breaks it."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness.adapters.deployment import Topology
from harness.authoring.skeletons import files_of
from harness.deployments.embedded import embedded
from harness.testing.adapter_protocol import check_protocol
from harness.testing.verdict import Holds, Verdict
from harness.testing.worlds import run_in_system
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mongowire.ports import Clock, Network


def changed(text: str, changes: Mapping[str, str]) -> str:
    """Return a text after some replacements, each of which is made."""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


NO_OPERATION = "    raise Unsupported(f\"no {params['operation']} on a {params['kind']}\")"
OPERATIONS = """
    name, arguments, client = params["operation"], params["arguments"], _on
    while "client" not in entities[client]:
        client = entities[client]["parent"]
    known = {"runCommand": {"command", "commandName"}, "insertOne": {"document"}, "find": {"filter"}}
    if not set(arguments) <= known.get(name, set()) or name not in known:
        raise Unsupported(f"no {name} with {', '.join(arguments)}")
    if "127.0.0.1:1/" in entities[client]["client"]:
        return {"error": {"message": "nobody answers", "isClientError": True}}
    if "noSuchCommand" in arguments.get("command", {}):
        return {"error": {"message": "no such command", "code": 59}}
    if name == "insertOne":
        tell(client, "commandStartedEvent", {"command": {"insert": "documents"}})
        tell(client, "commandSucceededEvent", {"reply": {"ok": 1}})
        return {"result": {"insertedId": 1}}
    return {"result": [{"_id": 1, "x": 5}] if name == "find" else {"ok": 1}}


def tell(client, kind, fields):
    fields["commandName"] = "insert"
    line = json.dumps({"event": {"client": client, "kind": kind, "at": 1.0, "fields": fields}})
    sys.stdout.write(line + "\\n")
"""
WHOLE = changed(
    files_of("protocol")["adapter.py"],
    {
        NO_OPERATION: OPERATIONS,
        '"features": []': '"features": ["COMMAND_EVENTS"]',
        "**answer}": '"clock": 1.0, **answer}',
    },
)
"""The bare skeleton, with operations that it makes up: it keeps every part of the protocol."""


def docstring_of(function: str) -> str:
    """Return the line of a function of the skeleton after which its work begins."""
    (found,) = re.findall(rf'^def {function}\(.*\n(    """.*"""\n)', WHOLE, re.MULTILINE)
    return str(found)


HELLO, CLIENT, CREATE, CLOSE_CLIENT, CLOSE = map(
    docstring_of, ("hello", "client", "create", "close_client", "close")
)
OTHER_VERSION = '_params["protocol"] != {"$numberInt": "1"}'
ENTITY = 'return {"entity": True}'
NULL = 'return {"result": None}'
AGAIN = f'    if entities.setdefault("%s", {{}}): {ENTITY}\n    entities["%s"]["done"] = True\n'

BROKEN: Mapping[str, Mapping[str, str]] = {
    "hello": {'"protocol": 1': '"protocol": 2'},
    "hello of another version": {
        HELLO: f'{HELLO}    if {OTHER_VERSION}: raise Unsupported("another version")\n'
    },
    "unknown parameters are ignored": {
        HELLO: f'{HELLO}    if len(_params) > 1: raise Unsupported("what is this?")\n'
    },
    "unknown method": {'raise Unsupported("no such method")': NULL},
    "client is answered without a reachable server": {
        CLIENT: f'{CLIENT}    if "127.0.0.1:1/" in params["uri"]: {NULL}\n'
    },
    "create a client": {CLIENT: f'{CLIENT}    if "127.0.0.1:1/" not in params["uri"]: {NULL}\n'},
    "create a database": {CREATE: f'{CREATE}    if params["kind"] == "database": {NULL}\n'},
    "create a collection": {CREATE: f'{CREATE}    if params["kind"] == "collection": {NULL}\n'},
    "unknown entity": {"raise Unsupported(f\"no entity {params['kind']}\")": ENTITY},
    "call runCommand": {'{"ok": 1}}\n\n': '{"ok": 0}}\n\n'},
    "hello names the driver that connects": {
        '"name": "my-driver"': '"name": "my-driver", "driver": {"name": "nodejs", "version": "7.9.0"}'
    },
    "call insertOne": {'return {"result": {"insertedId": 1}}': ENTITY},
    "events come before the answer": {'tell(client, "commandSucceededEvent", {"reply": {"ok": 1}})': "pass"},
    "events and answers have times": {'"clock": 1.0, ': ""},
    "call find": {'[{"_id": 1, "x": 5}]': "[]"},
    "two requests at once": {
        "    for line in sys.stdin:": (
            "    for at, line in enumerate(sys.stdin):\n"
            "        if at == 13: line = line.replace('\"id\": 14', '\"id\": 13')"
        )
    },
    "error of the server": {'"code": 59': '"code": 60'},
    "error of the client": {', "isClientError": True}': "}"},
    "unknown operation": {"{name} with": "what"},
    "unknown argument": {"not set(arguments) <= known.get(name, set()) or ": ""},
    "closeClient": {CLOSE_CLIENT: f"{CLOSE_CLIENT}    {ENTITY}\n"},
    "closeClient again": {CLOSE_CLIENT: CLOSE_CLIENT + AGAIN.replace("%s", "closed")},
    "close": {CLOSE: f"{CLOSE}    {ENTITY}\n"},
    "the next case: a client after close": {
        "    entities.clear()": '    entities.clear()\n    entities["closed"] = {}',
        CLIENT: f'{CLIENT}    if "closed" in entities: {NULL}\n',
    },
    "close again": {CLOSE: CLOSE + AGAIN.replace("%s", "ended"), "    entities.clear()\n": ""},
    "exit": {"    main()\n": "    main()\n    __import__('time').sleep(30)\n"},
    "standard output has messages only": {
        "    entities.clear()": '    entities.clear()\n    print("closed")'
    },
    "a line that is no request": {
        "        request = json.loads(line)": (
            "        try:\n            request = json.loads(line)\n"
            "        except ValueError:\n            raise SystemExit(0)"
        )
    },
}
"""For each part of the protocol, a change to the program that breaks it."""

ONLY_TOLD = {"answers come in time"}
"""How long answers took is told, and judged by their deadlines."""


def verdicts(path: Path, text: str) -> dict[str, Verdict]:
    """Return the verdicts on a program by the part that each is about."""
    path.write_text(text)
    found: dict[str, Verdict] = {}

    async def scenario(clock: Clock, network: Network) -> None:
        ports: dict[str, Any] = {"clock": clock, "network": network, "rng": SeededRng(0), "virtual": False}
        async with embedded(Topology.REPLICA_SET, **ports) as deployment:
            async for each in check_protocol(shlex.join([sys.executable, str(path)]), deployment):
                found[each.part] = each

    run_in_system(scenario)
    return found


@pytest.mark.slow
def test_every_part_of_the_protocol_holds_and_has_a_program_that_breaks_it(tmp_path: Path) -> None:
    found = verdicts(tmp_path / "adapter.py", WHOLE)
    lacking = {part for part, verdict in found.items() if verdict.holds is not Holds.OK}
    assert lacking == {"hello names the driver that connects"}
    assert BROKEN.keys() == found.keys() - ONLY_TOLD


@pytest.mark.slow
@pytest.mark.parametrize("part", BROKEN)
def test_a_part_that_is_broken_fails_with_what_was_expected_and_what_came(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.testing.adapter_protocol._CALL_SECONDS", 1.0)
    monkeypatch.setattr("harness.testing.adapter_protocol.CLOSE_SECONDS", 1.0)
    verdict = verdicts(tmp_path / "adapter.py", changed(WHOLE, BROKEN[part]))[part]
    assert (verdict.holds, bool(verdict.expected and verdict.got)) == (Holds.FAILED, True)

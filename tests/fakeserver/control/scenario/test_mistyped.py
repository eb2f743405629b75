"""Scenario files with mistakes: each is told with line, column, field and cure, and all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakeserver.control.scenario.building import build
from fakeserver.control.scenario.loader import ScenarioFileError, read, read_text
from mongowire.documents import reader
from mongowire.documents.reader import BYTES_MAX, DEPTH_MAX

if TYPE_CHECKING:
    from pathlib import Path

HEAD = 'pushbackd: "1.0"\n'


def problems(text: str) -> list[str]:
    with pytest.raises(ScenarioFileError) as raised:
        build(read_text(text, "s.yml"))
    assert str(raised.value) == "\n".join(map(str, raised.value.problems))
    return [str(each) for each in raised.value.problems]


MISTYPED = {
    "a field": (
        f"{HEAD}timelin: []\n",
        "s.yml:2:1: unknown field 'timelin'; did you mean 'timeline'?",
    ),
    "a field of the deployment": (
        f"{HEAD}deployment:\n  topology: replicaset\n  member: 3\n",
        "s.yml:4:3: deployment: unknown field of deployment 'member'; did you mean 'members'?",
    ),
    "a topology": (
        f"{HEAD}deployment: {{topology: replicast}}\n",
        "s.yml:2:24: deployment.topology: unknown value 'replicast'; did you mean 'replicaset'?",
    ),
    "a parameter": (
        f"{HEAD}parameters:\n  ingressRequestRateLimiterEnable: true\n",
        (
            "s.yml:3:3: parameters: unknown parameter 'ingressRequestRateLimiterEnable'; did you mean"
            " 'ingressRequestRateLimiterEnabled'?"
        ),
    ),
    "a value of a parameter": (
        f"{HEAD}parameters:\n  logLevel: 9\n",
        (
            "s.yml:3:13: parameters.logLevel: Invalid value for parameter logLevel: 9 is not less than or"
            " equal to 5"
        ),
    ),
    "a namespace": (
        f"{HEAD}data:\n  orders: []\n",
        "s.yml:3:3: data.orders: 'orders' is no namespace; write database.collection",
    ),
    "a condition of a rule": (
        f"{HEAD}rules:\n  - when: {{comand: find}}\n    then: [{{error: 462}}]\n",
        "s.yml:3:12: rules[0].when: unknown condition 'comand'; did you mean 'command'?",
    ),
    "a phase of a fault": (
        f"{HEAD}faults:\n  - {{at: beforReply, do: {{cut: 0}}}}\n",
        "s.yml:3:10: faults[0].at: unknown phase 'beforReply'; did you mean 'beforeReply'?",
    ),
    "a verb": (
        f"{HEAD}timeline:\n  - at: 5s\n    stepdown: {{seconds: 10}}\n",
        "s.yml:4:5: timeline[0]: unknown field or verb 'stepdown'; did you mean 'stepDown'?",
    ),
    "an argument": (
        f"{HEAD}timeline:\n  - at: 5s\n    stepDown: {{second: 10}}\n",
        "s.yml:4:16: timeline[0].stepDown: unknown field of stepDown 'second'; did you mean 'seconds'?",
    ),
    "a server": (
        f"{HEAD}timeline:\n  - at: 5s\n    kill: {{node: primray}}\n",
        "s.yml:4:18: timeline[0].kill.node: unknown server 'primray'; did you mean 'primary'?",
    ),
    "a quantity": (
        f"{HEAD}timeline:\n  - when: conections > 50\n    kill:\n",
        "s.yml:3:11: timeline[0].when: unknown quantity 'conections'; did you mean 'connections'?",
    ),
    "a command": (
        f"{HEAD}timeline:\n  - after: 3 insrt requests\n    kill:\n",
        "s.yml:3:12: timeline[0].after: unknown command 'insrt'; did you mean 'insert'?",
    ),
}


@pytest.mark.parametrize(("text", "expected"), MISTYPED.values(), ids=MISTYPED)
def test_a_mistyped_name_is_told_with_its_place_and_the_cure(text: str, expected: str) -> None:
    assert problems(text) == [expected]


WRONG = {
    "no version": (
        "seed: 1\n",
        's.yml:1:1: the field pushbackd is missing; begin with `pushbackd: "1.0"`',
    ),
    "another version": (
        'pushbackd: "2.0"\n',
        "s.yml:1:12: pushbackd: version '2.0' is not known; write \"1.0\"",
    ),
    "a list": ("- at: 5s\n", "s.yml:1:1: a scenario is a mapping of names to values, not a list"),
    "a bare number of requests": (
        f"{HEAD}timeline:\n  - after: 100\n    kill:\n",
        (
            "s.yml:3:12: timeline[0].after: 100 is no number of requests; write '100 requests', or '3 insert"
            " requests'"
        ),
    ),
    "a duration": (
        f"{HEAD}timeline:\n  - at: 5 secs\n    kill:\n",
        "s.yml:3:9: timeline[0].at: '5 secs' is no duration; write one with its unit, such as '200ms' or",
    ),
    "an operator": (
        f"{HEAD}timeline:\n  - when: connections => 5\n    kill:\n",
        "s.yml:3:11: timeline[0].when: unknown operator '=>'; known are >=, <=, ==, !=, >, <",
    ),
    "a primary by number": (
        f"{HEAD}timeline:\n  - when: primary > node1\n    kill:\n",
        "s.yml:3:11: timeline[0].when: the primary is compared with == or !=, not with >",
    ),
    "two beginnings": (
        f"{HEAD}timeline:\n  - at: 5s\n    after: 3 requests\n    kill:\n",
        "s.yml:4:5: timeline[0]: a step begins with one of at, after and when; write two steps",
    ),
    "two verbs": (
        f"{HEAD}timeline:\n  - at: 5s\n    kill:\n    stepDown:\n",
        "s.yml:5:5: timeline[0]: a step has one verb, this one has kill and stepDown; write two steps",
    ),
    "arguments that are no mapping": (
        f"{HEAD}timeline:\n  - at: 5s\n    slow: 2\n",
        "s.yml:4:11: timeline[0].slow: the arguments are a mapping; write slow: {seconds: 2}",
    ),
    "an argument too few": (
        f"{HEAD}timeline:\n  - at: 5s\n    shed:\n",
        "s.yml:4:10: timeline[0].shed: shed needs share: the share of operations to refuse; 0 ends it",
    ),
    "a verb that cannot be undone": (
        f"{HEAD}timeline:\n  - at: 5s\n    for: 2s\n    snapshot: {{name: a}}\n",
        "s.yml:4:5: timeline[0]: snapshot has no verb that undoes it; leave for and until out",
    ),
    "an effect longer than its period": (
        f"{HEAD}timeline:\n  - every: 2s\n    for: 3s\n    kill:\n",
        "s.yml:4:5: timeline[0]: 3s is not shorter than the period of every, 2s",
    ),
    "an end before the beginning": (
        f"{HEAD}timeline:\n  - at: 5s\n    until: 3s\n    kill:\n",
        "s.yml:4:5: timeline[0]: 3s is not later than at, 5s; both count from the start",
    ),
    "times without every": (
        f"{HEAD}timeline:\n  - at: 5s\n    times: 3\n    kill:\n",
        "s.yml:4:5: timeline[0]: nothing repeats this step; add every",
    ),
    "a verb of another topology": (
        f"{HEAD}deployment: {{topology: single}}\ntimeline:\n  - at: 5s\n    stepDown:\n",
        (
            "s.yml:5:14: timeline[0].stepDown: stepDown is for replica sets and sharded clusters; this is of"
            " topology single"
        ),
    ),
    "too many members": (
        f"{HEAD}deployment: {{members: 51}}\n",
        "s.yml:2:23: deployment.members: members must be from 1 to 50, not 51",
    ),
    "a user without a password": (
        f"{HEAD}users:\n  - {{name: ada}}\n",
        "s.yml:3:5: users[0]: user 'ada': a password is for every database but $external",
    ),
    "a mongos of a replica set": (
        f"{HEAD}deployment: {{mongos: 2}}\n",
        "s.yml:2:22: deployment.mongos: mongos is for a sharded cluster; write topology: sharded",
    ),
    "a repeated name": (
        (
            f"{HEAD}rules:\n"
            "  - {name: a, when: {command: find}, then: [{close: true}]}\n"
            "  - {name: a, when: {command: find}, then: [{close: true}]}\n"
        ),
        "s.yml:4:12: rules[1].name: a rule has the name 'a' already; choose another one",
    ),
    "a repeated key": (
        f"{HEAD}seed: 1\nseed: 2\n",
        "s.yml:3:1: key 'seed' is repeated; remove one of the two",
    ),
    "a merge key": (
        f"{HEAD}data: {{<<: 3}}\n",
        "s.yml:2:8: data: only mappings can be merged with <<; give an alias of a mapping",
    ),
    "a tag": (
        f"{HEAD}seed: !odd 3\n",
        "s.yml:2:7: seed: tag !odd is not supported; write the value as Extended JSON",
    ),
    "a file in itself": (
        f"{HEAD}data: &a\n  shop.orders: [*a]\n",
        "s.yml:3:17: data.shop.orders[0]: anchor &a contains itself; use an alias of another value",
    ),
    "no Extended JSON": (
        f"{HEAD}data:\n  shop.orders: [{{_id: {{$oid: 12}}}}]\n",
        "s.yml:3:23: data.shop.orders[0]._id: is no Extended JSON: ",
    ),
    "no object id": (
        f"{HEAD}data:\n  shop.orders: [{{_id: {{$oid: x}}}}]\n",
        "s.yml:3:23: data.shop.orders[0]._id: is no Extended JSON: ",
    ),
    "a name that is a mapping": (
        f"{HEAD}rules:\n  - {{name: {{a: 1}}, when: {{command: find}}, then: [{{close: true}}]}}\n",
        "s.yml:3:12: rules[0].name: ",
    ),
    "a code that is a mapping": (
        f"{HEAD}timeline:\n  - at: 5s\n    shed: {{share: 2%, codes: [{{a: 1}}]}}\n",
        "s.yml:4:30: timeline[0].shed.codes: unknown error code",
    ),
    "nothing": ("# no more\n", 's.yml:1:1: is empty; a scenario begins with `pushbackd: "1.0"`'),
    "a tab": ("pushbackd:\n\tx: 1\n", "s.yml:2:1: is not YAML: "),
    "a step without a verb": (
        f"{HEAD}timeline:\n  - at: 5s\n",
        "s.yml:3:5: timeline[0]: a step names a verb; known are kill, start, restart",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_told_with_its_place_and_the_cure(text: str, expected: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(expected)


def test_all_mistakes_of_a_file_are_told_in_its_order() -> None:
    text = f"{HEAD}sed: 3\ntimeline:\n  - at: 5x\n    kil:\n  - every: 0s\n    kill: {{node: node7}}\n"
    assert [each.split(": ")[0] for each in problems(text)] == [
        "s.yml:2:1",
        "s.yml:5:5",
        "s.yml:6:12",
        "s.yml:7:18",
    ]


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 50_000])
def test_a_file_that_is_nested_without_end_is_refused(depth: int) -> None:
    assert (
        f"nested more than {DEPTH_MAX} levels deep"
        in problems(HEAD + "data: " + "[" * depth + "]" * depth)[0]
    )


def test_aliases_that_multiply_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "VALUES_MAX", 1000)
    lines = ["a0: &a0 [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 7)]
    assert "holds more than 1000 values" in problems("\n".join(lines))[0]


def test_a_file_that_cannot_be_read_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFileError, match=r"none\.yml:1:1: cannot be read: No such file or directory"):
        read(tmp_path / "none.yml")
    latin = tmp_path / "latin.yml"
    latin.write_bytes("description: caf\xe9".encode("latin-1"))
    with pytest.raises(ScenarioFileError, match=r"latin\.yml:1:17: is not UTF-8; save it as UTF-8"):
        read(latin)
    large = tmp_path / "large.yml"
    large.write_bytes(b" " * (BYTES_MAX + 1))
    with pytest.raises(ScenarioFileError, match="is larger than"):
        read(large)

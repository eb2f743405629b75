"""Drafts of expectations files: failures are added, what stood there stays, reasons are left to fill in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.planning import expectations
from harness.planning.expectations import ExpectationsError, drafted, failures, write_draft
from harness.planning.result import Result, ResultStatus

if TYPE_CHECKING:
    from pathlib import Path

FAILED = Result(
    'a/b::says "no": \\ twice *',
    ResultStatus.FAILED,
    "replicaset",
    "node",
    "2026-07-08",
    reason="insertOne failed:\nno such thing",
    file="/somewhere/b.yml",
    line=7,
)
OTHER = replace(FAILED, id="a/c::ends")
PASSED = replace(FAILED, status=ResultStatus.PASSED)

BOOK = """\
# Mine, by hand.
known-failing:
    - case: "a/old::*"   # of long ago
      reason: &why "NODE-1"

    # Of a pair:
    - {case: "a/older::x", reason: *why}

# The next list:
flaky:
    - case: "a/c::*"
      reason: "slow machines"
      topologies: [sharded]
"""


def filled(text: str) -> str:
    return text.replace('reason: ""', 'reason: "NODE-2"')


def test_a_new_file_has_an_entry_for_each_case_that_failed_with_where_and_why(tmp_path: Path) -> None:
    path = tmp_path / "known.yml"
    assert str(write_draft(path, [FAILED, OTHER])) == "2 entries added: fill in the reasons"
    text = path.read_text()
    assert "  # /somewhere/b.yml:7: insertOne failed: no such thing\n  - case:" in text
    path.write_text(filled(text))
    entries = expectations.load(path).entries
    assert [(entry.pattern, entry.reason) for entry in entries] == [
        (FAILED.id, "NODE-2"),
        (OTHER.id, "NODE-2"),
    ]
    assert entries[0].matches(FAILED.id)


def test_a_draft_is_refused_until_its_reasons_are_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "known.yml"
    write_draft(path, [OTHER])
    with pytest.raises(
        ExpectationsError, match=r"known\.yml:6: the reason is empty: fill in why 'a/c::ends'"
    ):
        expectations.load(path)


def test_a_file_that_exists_keeps_its_entries_their_reasons_and_every_comment(tmp_path: Path) -> None:
    path = tmp_path / "known.yml"
    path.write_text(BOOK)
    assert str(write_draft(path, [FAILED])) == "1 entry added, 3 kept: fill in the reasons"
    text = path.read_text()
    old = [line for line in BOOK.splitlines() if line]
    assert [line for line in text.splitlines() if line in old] == old
    before, _, after = text.partition("# The next list:")
    assert before.endswith('twice *"\n      reason: ""\n\n')
    assert after.endswith("topologies: [sharded]\n")
    path.write_text(filled(text))
    assert [entry.kind for entry in expectations.load(path).entries] == [*["known-failing"] * 3, "flaky"]


def test_what_a_file_knows_already_is_not_added_again(tmp_path: Path) -> None:
    path = tmp_path / "known.yml"
    write_draft(path, [FAILED])
    before = path.read_text()
    assert str(write_draft(path, [FAILED])) == "nothing to add, 1 kept"
    assert path.read_text() == before
    assert len(write_draft(path, [FAILED, OTHER]).added) == 1


def test_nothing_is_written_where_nothing_failed(tmp_path: Path) -> None:
    assert str(write_draft(tmp_path / "known.yml", [PASSED])) == "nothing to add"
    assert not (tmp_path / "known.yml").exists()


@pytest.mark.parametrize(
    "text",
    [
        "known-failing: []\nskip: []\n",
        "'known-failing': [] # none\n",
        "# only words",
        "skip:\n- case: a/x::y\n  reason: z",
        "known-failing:\n- case: a/x::y\n  reason: z\n",
    ],
)
def test_an_entry_is_added_to_a_list_however_it_begins(tmp_path: Path, text: str) -> None:
    path = tmp_path / "known.yml"
    path.write_text(text)
    write_draft(path, [OTHER])
    path.write_text(filled(path.read_text()))
    assert OTHER.id in [entry.pattern for entry in expectations.load(path).entries]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("known.yml", "known-failing: [{case: a/x::y, reason: z}]\n", "write it as a block"),
        ("known.yml", "known-failing:\n  hopeless\n", "'known-failing' holds a list"),
        ("known.yml", "skip: [", "known.yml:1"),
        ("known.json", "{}", "entries are written as YAML"),
    ],
)
def test_a_file_that_cannot_be_added_to_stays_as_it_is(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ExpectationsError, match=complaint):
        write_draft(path, [OTHER])
    assert path.read_text() == text


def test_a_file_with_reasons_to_fill_in_can_be_added_to(tmp_path: Path) -> None:
    path = tmp_path / "known.yml"
    write_draft(path, [OTHER])
    assert drafted(path).kept == 1


def test_a_case_that_fails_on_some_deployments_only_names_them() -> None:
    elsewhere = replace(PASSED, topology="single")
    skipped = replace(PASSED, topology="sharded", status=ResultStatus.SKIPPED)
    both = replace(FAILED, topology="sharded+auth")
    (some,) = failures([elsewhere, FAILED, skipped, both])
    assert some.topologies == ("replicaset", "sharded+auth")
    (everywhere,) = failures([FAILED, skipped, both])
    assert everywhere.topologies == ()


def test_deployments_are_written_as_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "known.yml"
    write_draft(path, [replace(FAILED, topology="sharded+auth@7.0"), replace(PASSED, topology="single")])
    path.write_text(filled(path.read_text()))
    (entry,) = expectations.load(path).entries
    assert entry.topologies == {"sharded+auth@7.0"}

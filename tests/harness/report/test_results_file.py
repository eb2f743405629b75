from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made_results import REAL, every_status, result

from harness.planning.plan import Settings
from harness.report.results_file import SCHEMA, ResultsFileError, ResultsReader, ResultsWriter, RunHeader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.planning.result import Result

START = '"schema": "pushbackd-results/1", "started": "", "pushbackd": ""'


def write(path: Path, results: Sequence[Result]) -> Path:
    with ResultsWriter(path, REAL) as writer:
        for each in results:
            writer.add(each)
        writer.end()
    return path


def read(path: Path) -> list[Result]:
    with ResultsReader(path) as reader:
        assert reader.run == REAL
        return list(reader.results())


def complaint(path: Path) -> str:
    with pytest.raises(ResultsFileError) as caught:
        read(path)
    return str(caught.value).removeprefix(f"{path}")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write(tmp_path / "run.jsonl", [result(), result("insert once")])


def changed(path: Path, line: int, text: str | None) -> Path:
    """Replace a line of a file, counted from 1, or leave it out."""
    lines = path.read_text().splitlines(keepends=True)
    lines[line - 1 : line] = [] if text is None else [text]
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_what_was_written_is_read_back(tmp_path: Path, name: str) -> None:
    results = list(every_status())
    assert read(write(tmp_path / name, results)) == results


def test_a_file_with_the_ending_gz_is_compressed(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl.gz", [result()])
    assert json.loads(gzip.decompress(path.read_bytes()).splitlines()[0])["schema"] == SCHEMA


def test_the_example_of_the_guide_is_a_file_of_results(tmp_path: Path) -> None:
    guide = Path(__file__).parents[3] / "docs" / "REPORTS.md"
    path = tmp_path / "example.jsonl"
    path.write_text(guide.read_text().partition("```json\n")[2].partition("```")[0])
    with ResultsReader(path) as reader:
        assert reader.run.settings.time == "virtual"
        assert [result.duration_ms for result in reader.results()] == [24.5]


def test_the_file_tells_no_password(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    settings = Settings(uri="mongodb://bob:secret@a/", uri_multi="mongodb://bob:secret@a,b/")
    with ResultsWriter(path, RunHeader.at(0, settings)) as writer:
        writer.end()
    assert "mongodb://" in path.read_text()
    assert "secret" not in path.read_text()


def test_results_stand_in_the_file_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with ResultsWriter(path, REAL) as writer:
        writer.add(result())
    assert complaint(path) == (
        ":3: the last line is missing: the run was ended from outside, or the file was cut off"
    )


def test_a_line_that_was_cut_off_is_named(whole: Path) -> None:
    whole.write_text(whole.read_text()[:-40])
    assert complaint(whole) == ":3: the line has no end: the file was cut off"


def test_a_compressed_file_that_was_cut_off_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl.gz", list(every_status()) * 20)
    path.write_bytes(path.read_bytes()[:-30])
    assert "cannot be read on" in complaint(path)


def test_a_missing_result_is_noticed(whole: Path) -> None:
    assert complaint(changed(whole, 3, None)) == ":3: end: announces 2 results, but the file has 1"


def test_two_files_one_after_the_other_are_no_run(whole: Path) -> None:
    whole.write_text(whole.read_text() * 2)
    assert complaint(whole) == ":5: a line follows the end of the run: a file holds one run"


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("", ":1: schema: must be 'pushbackd-results/1', the file is not what"),
        ("hello\n", ":1: no JSON in UTF-8 (Expecting value"),
        ("[" * 100_000 + "\n", ":1: no JSON in UTF-8 (maximum recursion depth"),
        ("[1]\n", ":1: the line is no JSON object"),
        ('{"id": "a/b::c", "status": "passed"}\n', ":1: schema: must be 'pushbackd-results/1'"),
        ('{"schema": "pushbackd-results/9"}\n', ":1: schema: is 'pushbackd-results/9', and this version of"),
        ('{"schema": "pushbackd-results/1"}\n', ':1: the first line does not describe a run: "started" is'),
        (
            f'{{{START}, "settings": {{"commands": [], "time": []}}}}\n',
            ":1: the first line does not describe a run: settings.time: [] is not one of",
        ),
        (
            f'{{{START}, "settings": {{"commands": [], "of_tomorrow": 1}}}}\n',
            ":1: the first line does not describe a run: Settings.__init__() got an unexpected keyword",
        ),
    ],
)
def test_a_file_of_something_else_is_refused_with_the_reason(tmp_path: Path, first: str, said: str) -> None:
    path = tmp_path / "foreign"
    path.write_text(first)
    assert complaint(path).startswith(said)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00\x01" * 100)
    assert "no JSON in UTF-8" in complaint(path)
    (tmp_path / "binary.gz").write_bytes(b"\xff\xfe\x00\x01" * 100)
    assert "cannot be read on: Not a gzipped file" in complaint(tmp_path / "binary.gz")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert complaint(tmp_path / "none") == ": No such file or directory"


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_refused(whole: Path, number: str) -> None:
    line = whole.read_text().splitlines()[1].replace('"duration_ms":12.5', f'"duration_ms":{number}')
    assert f"{number} is no number of JSON" in complaint(changed(whole, 2, line + "\n"))


def test_a_compressed_file_with_a_flaw_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl.gz", list(every_status()) * 20)
    packed = bytearray(path.read_bytes())
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)  # no block begins so
    path.write_bytes(packed)
    assert "cannot be read on" in complaint(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": "fine"}, 'status: "fine" is not one of "passed", "failed"'),
        ({"duration_ms": "long"}, 'duration_ms: "long" is not of type "number"'),
        ({"colour": "red"}, "Additional properties are not allowed ('colour' was unexpected)"),
        ({"timeline": [{"at": "noon"}]}, "timeline.0"),
        ({"comparison": [[]]}, 'comparison.0: [] is not of type "object"'),
    ],
)
def test_a_line_that_is_no_result_is_refused_with_the_field(
    whole: Path, change: dict[str, object], said: str
) -> None:
    document = json.loads(whole.read_text().splitlines()[2])
    message = complaint(changed(whole, 3, json.dumps({**document, **change}) + "\n"))
    assert message.startswith(f":3: no result of a case: {said}")

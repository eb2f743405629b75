from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.planning.discovery import BadInputError, bundled_root, discover

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = 'description: tiny\nschemaVersion: "1.0"\ntests: []\n'


def write(folder: Path, **files: str) -> list[str]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [path.relative_to(folder).as_posix() for path in discover([folder])]


def test_a_folder_gives_its_scenarios_in_the_order_of_their_names(tmp_path: Path) -> None:
    assert write(tmp_path, **{"b/two.yml": SCENARIO, "b/one.yaml": SCENARIO, "a.yml": SCENARIO}) == [
        "a.yml",
        "b/one.yaml",
        "b/two.yml",
    ]


def test_a_json_twin_is_not_run_a_second_time(tmp_path: Path) -> None:
    found = write(
        tmp_path,
        **{"x.yml": SCENARIO, "x.json": '{"schemaVersion": "1.0"}', "y.json": '{"schemaVersion": "1.0"}'},
    )
    assert found == ["x.yml", "y.json"]


def test_a_json_twin_that_is_named_itself_is_run(tmp_path: Path) -> None:
    write(tmp_path, **{"x.yml": SCENARIO, "x.json": '{"schemaVersion": "1.0"}'})
    assert discover([tmp_path / "x.json"]) == (tmp_path / "x.json",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pool.yml", "version: 1\nstyle: unit\n"),
        ("schema.json", '{"properties": {"schemaVersion": {"type": "string"}}}'),
        ("nested.yml", "a:\n  schemaVersion: 1\n"),
        ("README.md", "schemaVersion: 1\n"),
        ("binary.yml", "\x00"),
    ],
)
def test_other_files_in_a_folder_are_passed_over(tmp_path: Path, name: str, text: str) -> None:
    assert write(tmp_path, **{"x.yml": SCENARIO, name: text}) == ["x.yml"]


def test_a_json_file_that_is_broken_is_left_to_the_loader_to_complain_about(tmp_path: Path) -> None:
    assert write(tmp_path, **{"x.json": '{"schemaVersion": "1.0",}'}) == ["x.json"]


def test_a_file_that_is_named_twice_runs_once(tmp_path: Path) -> None:
    write(tmp_path, **{"x.yml": SCENARIO})
    assert discover([tmp_path / "x.yml", tmp_path]) == (tmp_path / "x.yml",)


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"missing\.yml: no such file or folder"):
        discover([tmp_path / "missing.yml"])


def test_a_folder_without_scenarios_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no scenarios"):
        discover([tmp_path])


def test_without_paths_the_bundled_scenarios_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = discover([])
    assert found
    assert all(path.is_relative_to(bundled_root()) for path in found)
    assert not any("expectations" in path.parts for path in found)

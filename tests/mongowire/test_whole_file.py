from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from mongowire.whole_file import beside, check_writable, remove_unfinished, write_whole

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with beside(path) as temporary:
        temporary.write_text("half")
        assert not path.exists()
        temporary.write_text("whole")
    assert path.read_text() == "whole"
    assert names(path.parent) == {"file"}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_was_there_stays_when_writing_fails(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")

    def fail() -> None:
        with beside(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "before"
    assert names(tmp_path) == {"file"}


def test_a_program_that_leaves_removes_what_it_has_begun(tmp_path: Path) -> None:
    with suppress(FileNotFoundError), beside(tmp_path / "file") as temporary:
        temporary.write_text("half")
        remove_unfinished()
        assert not names(tmp_path)


def test_a_check_leaves_everything_as_it_was(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "before")
    check_writable(tmp_path / "file")
    check_writable(tmp_path / "other")
    assert names(tmp_path) == {"file"}
    assert (tmp_path / "file").read_text() == "before"
    with pytest.raises(NotADirectoryError):
        check_writable(tmp_path / "file" / "below" / "it")


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    write_whole(target, "secret", mode=0o600)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_what_is_no_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    read, write = os.pipe()
    write_whole(tmp_path.__class__(f"/dev/fd/{write}"), "said")
    os.close(write)
    assert os.read(read, 10) == b"said"
    os.close(read)


def test_folders_are_made(tmp_path: Path) -> None:
    write_whole(tmp_path / "a" / "new" / "x", "whole")
    assert (tmp_path / "a" / "new" / "x").read_text() == "whole"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        write_whole(tmp_path / "file" / "x", "whole")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, "")


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    write_whole(tmp_path / ("ü" * 127), "whole")
    assert len(names(tmp_path)) == 1

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from controlled import controlled

import fakeserver.control
from fakeserver import ClusterSpec
from fakeserver.control.client import ControlClient, ServerStatus, connect, find
from fakeserver.control.registry import Registry, RegistryEntry, check_id, home
from mongowire.documents.errors import ControlError

ENTRY = RegistryEntry("shop", 1, "mongodb://localhost:1/", "single", "unix:/nowhere", "token", started="2026")


def test_the_folder_is_named_by_the_environment_or_the_place_for_state() -> None:
    assert home({"PUSHBACKD_HOME": "/a", "XDG_STATE_HOME": "/b"}) == Path("/a")
    assert home({"XDG_STATE_HOME": "/b"}) == Path("/b/pushbackd")
    assert home({}) == Path.home() / ".local/state/pushbackd"


def test_an_entry_is_read_as_it_was_written_and_only_its_owner_can(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "home")
    registry.write(ENTRY)
    assert registry.entries() == [ENTRY]
    assert stat.S_IMODE(registry.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(registry.file("shop").stat().st_mode) == 0o600
    registry.remove("shop")
    assert registry.entries() == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"id": "torn"}'])
def test_a_file_that_is_no_entry_is_passed_over(tmp_path: Path, content: str) -> None:
    registry = Registry(tmp_path)
    registry.file("torn").write_text(content)
    assert registry.entries() == []
    assert registry.ids() == ["torn"]


@pytest.mark.parametrize("name", ["", "-a", "a/b", "..", "a b", "x" * 65])
def test_an_id_that_cannot_name_a_file_is_refused(name: str) -> None:
    with pytest.raises(ControlError, match="is no id"):
        check_id(name)


def test_a_path_that_is_too_long_for_a_socket_gets_none(tmp_path: Path) -> None:
    assert Registry(tmp_path / ("x" * 100)).socket_file("shop") is None


def test_a_server_whose_process_has_ended_is_seen_as_such(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.write(ENTRY)
    assert ControlClient(ENTRY).status() is ServerStatus.ENDED
    with pytest.raises(ControlError, match="no server runs"):
        find(registry=registry)


def test_another_server_that_has_the_address_by_now_is_not_taken_for_it(tmp_path: Path) -> None:
    with controlled(tmp_path, spec=ClusterSpec.standalone()) as (_, entry):
        assert ControlClient(replace(entry, id="other")).status() is ServerStatus.NOT_ANSWERING
        assert ControlClient(replace(entry, token="other")).status() is ServerStatus.NOT_ANSWERING


def test_the_only_server_is_found_and_of_several_one_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PUSHBACKD_ID", raising=False)
    monkeypatch.setenv("PUSHBACKD_HOME", str(tmp_path))
    single = ClusterSpec.standalone()
    with controlled(tmp_path, "shop", single) as (_, shop):
        assert find() == shop
        assert fakeserver.control.connect().fail_points_off() == {"off": 0}
        with pytest.raises(ControlError, match="unknown server 'shpo'; did you mean 'shop'"):
            connect("shpo")
        with controlled(tmp_path, "till", single) as (_, till):
            with pytest.raises(ControlError, match="several servers run; name one by --id: shop, till"):
                find()
            monkeypatch.setenv("PUSHBACKD_ID", "till")
            assert find() == till

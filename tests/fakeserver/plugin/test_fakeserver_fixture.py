from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import fakeserver

PLUGIN = "fakeserver.pytest_plugin"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project that treats warnings as errors; the plugin is loaded by hand where it is not installed."""
    installed = any(entry.value == PLUGIN for entry in metadata.entry_points(group="pytest11"))
    load = "" if installed else f" -p {PLUGIN}"
    pytester.makeini(f"[pytest]\naddopts = --strict-markers --strict-config{load}\nfilterwarnings = error\n")
    return pytester


def test_loading_the_plugin_imports_nothing_heavy_and_nothing_of_ours_beyond_the_server() -> None:
    heavy = ("asyncio", "bson", "mongomock", "pymongo", "harness", "driver", "mongowire", "yaml")
    script = (
        "import pytest, sys; before = set(sys.modules)\n"
        f"import {PLUGIN}\n"
        f"print([name for name in {heavy} if name in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_synchronous_test_gets_a_replica_set_of_its_own(project: pytest.Pytester) -> None:
    project.makepyfile("""
        from pymongo import MongoClient

        def count(uri):
            with MongoClient(uri) as client:
                client.shop.orders.insert_one({})
                return client.shop.orders.count_documents({})

        def test_one(fakeserver):
            assert len(fakeserver.nodes) == 3
            assert count(fakeserver.uri) == 1

        def test_two(fakeserver):
            assert count(fakeserver.uri) == 1
    """)
    project.runpytest_inprocess().assert_outcomes(passed=2)


def test_an_asynchronous_test_gets_one_too(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import asyncio
        from pymongo import AsyncMongoClient

        def test_async(fakeserver):
            async def scenario():
                async with AsyncMongoClient(fakeserver.uri) as client:
                    await client.shop.orders.insert_one({})
            asyncio.run(scenario())
    """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_marker_describes_the_deployment_of_a_test(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.fakeserver(topology="single", parameters={"enableTestCommands": False})
        def test_single(fakeserver):
            assert len(fakeserver.nodes) == 1
            assert fakeserver.spec.parameters == {"enableTestCommands": False}

        @pytest.mark.fakeserver(members=5, profile="8.2", seed=7)
        def test_five(fakeserver):
            assert len(fakeserver.nodes) == 5
            assert fakeserver.spec.seed == 7
    """)
    project.runpytest_inprocess().assert_outcomes(passed=2)


def test_options_and_the_ini_file_describe_all_others(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(fakeserver): assert len(fakeserver.nodes) == 1")
    project.runpytest_inprocess("--fakeserver-topology", "single").assert_outcomes(passed=1)
    project.runpytest_inprocess("-o", "fakeserver_topology=single").assert_outcomes(passed=1)
    project.runpytest_inprocess("-o", "fakeserver_members=1").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("topology", "ring", "fakeserver topology: 'ring' is none of single, replicaset"),
        ("members", "many", "fakeserver members: 'many' is not a number"),
        ("members", "99", "fakeserver: members must be from 1 to 50"),
    ],
)
def test_a_wrong_description_is_a_usage_error(
    project: pytest.Pytester, option: str, value: str, message: str
) -> None:
    project.makepyfile("def test_it(fakeserver): pass")
    done = project.runpytest_inprocess(f"--fakeserver-{option}", value)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([f"*{message}*"])


def test_a_test_that_fails_shows_the_end_of_the_journal(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(fakeserver): assert False")
    done = project.runpytest_inprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*fakeserver journal*", '*"kind":"primaryElected"*'])


@pytest.mark.slow
def test_tests_run_in_parallel(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xdist")
    monkeypatch.setenv("PYTHONPATH", str(Path(fakeserver.__file__).parents[1]))
    project.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_it(fakeserver, number): assert fakeserver.primary.is_primary
    """)
    project.runpytest_subprocess("-n", "2").assert_outcomes(passed=4)

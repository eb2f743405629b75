from __future__ import annotations

import gc
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pymongo
import pytest

import fakeserver
import fakeserver.assembly.assembling
import fakeserver.control.scenario.loader

IMPORTED = (fakeserver.assembly.assembling, fakeserver.control.scenario.loader, pymongo)
"""A run in this process forgets what it has imported itself; that it finds these makes it quick."""

PLUGIN = "fakeserver.pytest_plugin"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project that treats warnings as errors; the plugin is loaded by hand where it is not installed."""
    installed = any(entry.value == PLUGIN for entry in metadata.entry_points(group="pytest11"))
    load = "" if installed else f" -p {PLUGIN}"
    pytester.makeini(f"[pytest]\naddopts = --strict-markers --strict-config{load}\nfilterwarnings = error\n")
    return pytester


def test_loading_the_plugin_imports_nothing_heavy_and_nothing_of_ours_beyond_the_server() -> None:
    heavy = ("asyncio", "bson", "mongomock", "pymongo", "harness", "driver", "mongowire.codes", "yaml")
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
    project.runpytest_inprocess("-o", "fakeserver_topology=standalone").assert_outcomes(passed=1)
    project.runpytest_inprocess("-o", "fakeserver_members=1").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("topology", "shardet", "fakeserver_topology: unknown topology 'shardet'; did you mean 'sharded'?"),
        ("members", "many", "fakeserver_members: 'many' is no number"),
        ("members", "99", "fakeserver marker: members must be from 1 to 50, not 99"),
        ("profile", "8.22", "fakeserver_profile: unknown release '8.22'; did you mean '8.2'?"),
        ("unmet", "ignored", "fakeserver_unmet: unknown value 'ignored'; did you mean 'ignore'?"),
    ],
)
def test_a_wrong_option_is_an_error_of_one_line(
    project: pytest.Pytester, option: str, value: str, message: str
) -> None:
    project.makepyfile("def test_it(fakeserver): pass")
    done = project.runpytest_inprocess(f"--fakeserver-{option}", value)
    done.assert_outcomes(errors=1)
    assert error_of(done) == [message]


WRONG_MARKERS = {
    "'single'": "'single' has no name; write every argument as name=value",
    "toplogy='single'": "unknown argument 'toplogy'; did you mean 'topology'?",
    "topology='shardet'": "topology: unknown topology 'shardet'; did you mean 'sharded'?",
    "topology=3": "topology: unknown topology '3'; known are load-balanced, replicaset, sharded, single",
    "members='three'": "members: 'three' is no number",
    "members=2.5": "members: 2.5 is no whole number",
    "members=[1, 2]": "members: 1 is no MemberSpec",
    "members=0": "members must be from 1 to 50, not 0",
    "mongos=-1": "mongos: -1 is negative",
    "profile='82'": "profile: unknown release '82'; did you mean '8.2'?",
    "seed='x'": "seed: 'x' is no number",
    "parameters=5": "parameters: 5 is no dictionary of server parameters",
    "parameters={'logLevl': 1}": "parameters: unknown server parameter 'logLevl'; did you mean 'logLevel'?",
    "parameters={'failpoint.failComand': {}}": (
        "parameters: unknown fail point 'failComand'; did you mean 'failCommand'?"
    ),
    "unmet='pass'": "unmet: unknown value 'pass'; known are fail, ignore",
    "paramters={}": "unknown argument 'paramters'; did you mean 'parameters'?",
}


@pytest.mark.parametrize(("marker", "message"), WRONG_MARKERS.items())
def test_a_wrong_marker_is_an_error_of_one_line_with_or_without_the_fixture(
    project: pytest.Pytester, marker: str, message: str
) -> None:
    project.makepyfile(f"""
        import pytest

        @pytest.mark.fakeserver({marker})
        def test_it(): pass
    """)
    done = project.runpytest_inprocess()
    done.assert_outcomes(errors=1)
    assert error_of(done) == [f"fakeserver marker: {message}"]


def error_of(done: pytest.RunResult) -> list[str]:
    """Return the lines between the title of the only error and the summary."""
    titles = [number for number, line in enumerate(done.outlines) if line.startswith("___")]
    ends = [number for number, line in enumerate(done.outlines) if "short test summary" in line]
    return done.outlines[titles[0] + 1 : ends[0]]


def test_a_deployment_that_cannot_start_is_an_error_of_one_line(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.fakeserver(parameters={"failpoint.failCommand": {"mode": "alwayson"}})
        def test_it(fakeserver): pass
    """)
    done = project.runpytest_inprocess()
    cause = "parameter failpoint.failCommand: unknown mode: alwayson"
    assert error_of(done) == [f"fakeserver cannot start: {cause}"]


def test_the_nearest_marker_takes_precedence_argument_by_argument(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        pytestmark = pytest.mark.fakeserver(members=1, seed=7)

        @pytest.mark.fakeserver(members=2)
        def test_it(fakeserver):
            assert (len(fakeserver.nodes), fakeserver.spec.seed) == (2, 7)
    """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


SCENARIO = """
pushbackd: "1.0"
description: orders fail
seed: 3
deployment: {topology: single}
data:
  shop.stock: [{_id: 1}]
rules:
  - when: {command: insert}
    then: [{error: 96}]
"""


def test_a_scenario_file_beside_the_test_describes_its_deployment(project: pytest.Pytester) -> None:
    project.mkdir("scenarios").joinpath("orders.yml").write_text(SCENARIO)
    project.makepyfile("""
        import pytest
        from pymongo import MongoClient, errors

        pytestmark = pytest.mark.fakeserver(scenario="scenarios/orders.yml", seed=4)

        @pytest.mark.fakeserver(parameters={"logLevel": 1})
        def test_it(fakeserver):
            assert (fakeserver.spec.seed, fakeserver.spec.parameters["logLevel"]) == (4, 1)
            with MongoClient(fakeserver.uri) as client:
                assert client.shop.stock.find_one() == {"_id": 1}
                with pytest.raises(errors.OperationFailure):
                    client.shop.orders.insert_one({})

        def test_its_rules_must_be_met(fakeserver): pass
    """)
    done = project.runpytest_inprocess("--fakeserver-scope", "session")
    done.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    ("marker", "text", "message"),
    [
        ("topology='single'", SCENARIO, "topology: a scenario file describes the deployment itself; leave"),
        ("seed=1", SCENARIO.replace("insert", "inserd"), "did you mean 'insert'?"),
        ("seed=1", None, "orders.yml"),
    ],
)
def test_a_wrong_scenario_is_an_error_of_one_line(
    project: pytest.Pytester, marker: str, text: str | None, message: str
) -> None:
    if text is not None:
        project.makefile(".yml", orders=text)
    project.makepyfile(f"""
        import pytest

        @pytest.mark.fakeserver(scenario="orders.yml", {marker})
        def test_it(fakeserver): pass
    """)
    done = project.runpytest_inprocess()
    (line,) = error_of(done)
    assert line.startswith("fakeserver")
    assert message in line


def test_a_test_that_fails_shows_the_end_of_the_journal(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(fakeserver): assert False")
    done = project.runpytest_inprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*fakeserver journal*", "*node0 elected primary in term 1"])
    done.stdout.no_fnmatch_line("*{*kind*")


def test_a_failure_tells_what_happened_and_what_the_application_was_told(project: pytest.Pytester) -> None:
    project.makepyfile("""
        from pymongo import MongoClient

        def test_it(fakeserver):
            fakeserver.fail_command("insert", error_code=2)
            with MongoClient(fakeserver.uri) as client:
                client.shop.orders.insert_one({})
    """)
    done = project.runpytest_inprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "*fakeserver verdict*",
            "verdict: met rule failCommand1 once; 1 of 1 operations failed",
            "  failed in the application: insert, 2 BadValue, once",
            "  trace: *test_it.html",
        ]
    )
    (page,) = project.path.joinpath(".pytest_cache/d/fakeserver").iterdir()
    assert "● rule failCommand1 on insert: error" in page.read_text()


def test_a_timeline_that_outlives_its_test_has_tested_nothing(project: pytest.Pytester) -> None:
    project.makefile(
        ".yml", slow='pushbackd: "1.0"\ntimeline:\n  - after: 3 insert requests\n    stepDown:\n'
    )
    project.makepyfile("""
        import pytest
        from pymongo import MongoClient

        @pytest.mark.fakeserver(scenario="slow.yml")
        def test_it(fakeserver):
            with MongoClient(fakeserver.uri) as client:
                client.shop.orders.insert_one({})
    """)
    done = project.runpytest_inprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        ["  not performed: *slow.yml:3 after 3 insert requests: stepDown (1 of 3 insert requests came)"]
    )


def test_a_factory_starts_several_deployments_and_all_stop_after_the_test(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        kept = []

        def test_two(fakeserver_factory):
            kept.extend([fakeserver_factory(members=1), fakeserver_factory(topology="single", seed=3)])
            assert [len(each.nodes) for each in kept] == [1, 1]
            assert kept[0].uri != kept[1].uri
            assert kept[1].spec.seed == 3

        def test_they_have_stopped():
            for each in kept:
                with pytest.raises(RuntimeError, match="has stopped"):
                    each.primary
    """)
    project.runpytest_inprocess().assert_outcomes(passed=2)


def test_a_wrong_call_of_the_factory_fails_the_test_in_one_line(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(fakeserver_factory): fakeserver_factory(member=1)")
    done = project.runpytest_inprocess()
    done.assert_outcomes(failed=1)
    assert error_of(done) == ["fakeserver_factory: unknown argument 'member'; did you mean 'members'?"]


SHARED = """
    import pytest
    from pymongo import MongoClient

    uris = set()

    def use(server):
        uris.add(server.uri)
        with MongoClient(server.uri) as client:
            client.shop.orders.insert_one({"_id": 1})
            assert client.shop.orders.count_documents({}) == 1

    def test_one(fakeserver):
        use(fakeserver)
        fakeserver.run(fakeserver.node("secondary").kill)

    def test_two(fakeserver):
        fakeserver.fail_command("find", error_code=89)
        fakeserver.stop_failing()
        assert not any(node.stopped for node in fakeserver.nodes)
        use(fakeserver)

    test_two = pytest.mark.fakeserver(unmet="ignore")(test_two)

    @pytest.mark.fakeserver(seed=5)
    def test_another(fakeserver):
        use(fakeserver)

    def test_they_shared():
        assert len(uris) == SHARED
"""


@pytest.mark.parametrize(("scope", "deployments"), [("function", 3), ("module", 2), ("session", 2)])
def test_tests_that_are_described_alike_share_a_deployment_that_is_reset_between_them(
    project: pytest.Pytester, scope: str, deployments: int
) -> None:
    project.makepyfile(SHARED.replace("SHARED", str(deployments)))
    done = project.runpytest_inprocess("-o", f"fakeserver_scope={scope}")
    done.assert_outcomes(passed=4)


@pytest.mark.parametrize(("scope", "deployments"), [("module", 2), ("session", 1)])
def test_a_deployment_of_a_module_is_not_that_of_another_one(
    project: pytest.Pytester, scope: str, deployments: int
) -> None:
    project.makeconftest("uris = []")
    for name in ("test_a", "test_b"):
        project.makepyfile(
            **{name: "import conftest\ndef test(fakeserver): conftest.uris.append(fakeserver.uri)"}
        )
    project.makepyfile(test_c=f"import conftest\ndef test(): assert len(set(conftest.uris)) == {deployments}")
    project.runpytest_inprocess("--fakeserver-scope", scope).assert_outcomes(passed=3)


def test_a_shared_deployment_that_a_test_has_stopped_is_replaced(project: pytest.Pytester) -> None:
    project.makepyfile("""
        def test_one(fakeserver): fakeserver.stop()
        def test_two(fakeserver): assert fakeserver.primary
    """)
    project.runpytest_inprocess("--fakeserver-scope", "session").assert_outcomes(passed=2)


def test_a_fixture_of_the_session_may_keep_a_client(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest
        from pymongo import MongoClient

        @pytest.fixture(scope="session")
        def client(fakeserver_session):
            with MongoClient(fakeserver_session.uri) as client:
                yield client

        @pytest.mark.parametrize("number", range(3))
        def test_it(client, number):
            client.shop.orders.insert_one({"_id": 1})
            assert client.shop.orders.count_documents({}) == 1

        def test_unmet(client, fakeserver_session):
            fakeserver_session.fail_command("insert", error_code=89)
    """)
    done = project.runpytest_inprocess()
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(["  never met*"])


def test_a_failure_shows_what_happened_since_its_test_began(project: pytest.Pytester) -> None:
    project.makepyfile("""
        from pymongo import MongoClient

        def drop(server, name):
            with MongoClient(server.uri) as client:
                client[name].command("ping")

        def test_one(fakeserver_session): drop(fakeserver_session, "before")

        def test_two(fakeserver_session):
            drop(fakeserver_session, "after")
            assert False
    """)
    done = project.runpytest_inprocess()
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*fakeserver journal of fakeserver_session*", "*after*"])
    done.stdout.no_fnmatch_line("*before*")


@pytest.mark.parametrize("scope", ["function", "session"])
def test_nothing_is_left_behind(project: pytest.Pytester, scope: str) -> None:
    project.makepyfile("""
        import asyncio, gc, threading
        import pytest
        from pymongo import AsyncMongoClient

        @pytest.mark.parametrize("number", range(3))
        def test_it(fakeserver, fakeserver_factory, number):
            async def main():
                async with AsyncMongoClient(fakeserver_factory().uri) as client:
                    await client.shop.orders.insert_one({})
            asyncio.run(main())
    """)
    before, sockets = set(threading.enumerate()), open_sockets()
    project.runpytest_inprocess("--fakeserver-scope", scope, "-W", "error").assert_outcomes(passed=3)
    gc.collect()
    assert {thread for thread in threading.enumerate() if thread not in before} == set()
    assert open_sockets() <= sockets


def open_sockets() -> set[str]:
    """Return the sockets of this process, where the system tells."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        return set()
    links = []
    for each in folder.iterdir():
        with suppress(OSError):  # the one that lists the folder
            links.append(str(each.readlink()))
    return {link for link in links if link.startswith("socket:")}


def test_a_fail_point_that_was_never_met_fails_the_test(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest
        from pymongo import MongoClient

        def test_never(fakeserver):
            fakeserver.fail_command("insert", error_code=89)
            fakeserver.stop_failing()

        def test_met_once_on_one_of_three_servers(fakeserver):
            fakeserver.fail_command("insert", error_code=89, times=1)
            with MongoClient(fakeserver.uri) as client:
                client.shop.orders.insert_one({})

        def test_by_a_command_and_off_again(fakeserver):
            with MongoClient(fakeserver.uri) as client:
                point = {"configureFailPoint": "failCommand", "data": {"failCommands": ["find"]}}
                client.admin.command(point | {"mode": "alwaysOn"})
                client.admin.command(point | {"mode": "off"})

        @pytest.mark.fakeserver(unmet="ignore")
        def test_told_otherwise(fakeserver):
            fakeserver.fail_command("insert", error_code=89)
    """)
    done = project.runpytest_inprocess()
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(
        [
            "not as expected, so nothing was tested (unmet='ignore' allows it):",
            "  never met: rule failCommand1 (command: insert)",
            '  never met: fail point failCommand {?failCommands?: ?"find"?}',
        ]
    )
    project.runpytest_inprocess("-o", "fakeserver_unmet=ignore").assert_outcomes(passed=4)


def test_rules_expectations_and_faults_of_bytes_must_be_met_too(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest
        from pymongo import MongoClient
        from fakeserver.rules import delay

        pytestmark = pytest.mark.fakeserver(topology="single")

        def test_expectation(fakeserver):
            fakeserver.control.expect("insert", namespace="shop.orders", count=1)
            with MongoClient(fakeserver.uri) as client:
                client.shop.carts.insert_one({})

        def test_rule_and_fault(fakeserver):
            fakeserver.control.when("find", nth=2).then(delay("1ms"))
            fakeserver.control.add_fault({"at": "reply", "command": "find", "do": {"cut": 4}, "name": "half"})

        def test_met(fakeserver):
            fakeserver.control.when("find", probability="1%").then(delay("1ms"))
            with fakeserver.control.expect("find", count=1), MongoClient(fakeserver.uri) as client:
                client.shop.carts.find_one()
    """)
    done = project.runpytest_inprocess()
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "*(command: insert, namespace: shop.orders): expected once, none came",
            "*near miss: *namespace is shop.carts, expected shop.orders",
            "  never met: rule rule1 (command: find, nth: 2)",
            "  never met: fault half (at: reply)",
        ]
    )


def test_a_fault_is_about_one_collection(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest
        from pymongo import MongoClient, errors

        @pytest.mark.fakeserver(topology="single")
        def test_it(fakeserver):
            fakeserver.fail_command("insert", error_code=2, namespace="shop.orders")
            with MongoClient(fakeserver.uri) as client:
                client.shop.carts.insert_one({})
                with pytest.raises(errors.OperationFailure):
                    client.shop.orders.insert_one({})
    """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


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

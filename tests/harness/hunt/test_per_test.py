"""`--fakeserver-hunt`: each failing place names the test, and a test without a bug passes as always."""

from __future__ import annotations

import pytest

TESTS = """
    import pymongo, pytest
    from pymongo.errors import PyMongoError

    @pytest.fixture
    def orders(fakeserver):
        with pymongo.MongoClient(fakeserver.uri, appname="till") as client:
            client.shop.settings.insert_one({"_id": "made by a fixture"})
            yield client.shop.orders

    def test_an_order_is_forgotten(orders):
        try:
            orders.insert_one({"_id": 1})
        except PyMongoError:
            pass

    def test_an_order_is_stored(orders):
        orders.insert_one({"_id": 1})

    def test_of_a_fault(orders, fakeserver):
        fakeserver.fail_command("insert", times=1, close_connection=True)
        orders.insert_one({"_id": 1})

    def test_without_a_deployment():
        pass
"""
ERROR = "error @ till: shop.orders insert {_id} #1"


@pytest.mark.slow
def test_the_test_that_has_the_bug_fails_and_its_line_finds_it_again(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_shop=TESTS)
    done = pytester.runpytest_subprocess("--fakeserver-hunt", "20s")
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(
        [
            "*_ test_an_order_is_forgotten _*",
            "hunt: the test succeeds, and the documents are other ones (* of * runs)",
            "*till: shop.orders insert {_id} #1 failed with an error that is not retryable*",
            f"*pytest test_shop.py::test_an_order_is_forgotten --fakeserver-hunt-only '{ERROR}'",
            "*hunt: 2 tests, * trials, * bugs, *1 tests *",
        ]
    )
    again = pytester.runpytest_subprocess("--fakeserver-hunt-only", ERROR, "-k", "forgotten or stored")
    again.assert_outcomes(passed=1, failed=1)
    again.stdout.fnmatch_lines(["*hunt: 2 tests, 2 trials, 1 bugs, 1 failed, 1 reported*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fakeserver-hunt", "soon"], "*--fakeserver-hunt: *soon*"),
        (["--fakeserver-hunt-only", "error"], "*'error' is no trial; write it as a hunt prints it*"),
    ],
)
def test_a_mistake_is_told_in_a_line(pytester: pytest.Pytester, arguments: list[str], message: str) -> None:
    done = pytester.runpytest_inprocess(*arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([message])

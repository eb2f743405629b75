"""A decimal has the digits that a server gives it: 34 of its own, 15 when it was a double."""

from __future__ import annotations

import math
from typing import Any

import pytest
from bson import Decimal128, Int64
from hypothesis import given
from hypothesis import strategies as st
from pipelines import piped, refusal

from fakeserver.storage.values.arithmetic import to_decimal


def value(expression: Any) -> Any:
    (found,) = piped([{}], {"$replaceWith": {"r": expression}})
    return found["r"]


def d(text: str) -> Decimal128:
    return Decimal128(text)


@pytest.mark.parametrize(
    ("expression", "digits"),
    [
        ({"$toDecimal": 2.5}, "2.50000000000000"),
        ({"$toDecimal": -12}, "-12"),
        ({"$toDecimal": Int64(2**53 + 1)}, "9007199254740993"),
        ({"$toDecimal": 0.1}, "0.100000000000000"),
        ({"$toDecimal": 0.9999999999999994}, "0.999999999999999"),
        ({"$toDecimal": 0.9999999999999999}, "1.00000000000000"),
        ({"$toDecimal": 1e300}, "1.00000000000000E+300"),
        ({"$toDecimal": 0.0}, "0"),
        ({"$toDecimal": -0.0}, "-0"),
        ({"$toDecimal": float("-inf")}, "-Infinity"),
        ({"$convert": {"input": 2.5, "to": "decimal"}}, "2.50000000000000"),
        ({"$add": [d("1"), 2.5]}, "3.50000000000000"),
        ({"$multiply": [2.5, d("1")]}, "2.50000000000000"),
        ({"$divide": [d("1"), 3]}, "0.3333333333333333333333333333333333"),
        ({"$mod": [d("-7.5"), 2]}, "-1.5"),
        ({"$abs": d("-1.234567890123456789012345678901234")}, "1.234567890123456789012345678901234"),
        ({"$sqrt": d("2")}, "1.414213562373095048801688724209698"),
        ({"$sqrt": d("4.00")}, "2.0"),
        ({"$ln": d("7")}, "1.945910149055313305105352743443180"),
        ({"$log10": d("101")}, "2.004321373782642574275188178222938"),
        ({"$log10": d("1E+3")}, "3"),
        ({"$log": [d("8"), 2]}, "3.000000000000000000000000000000000"),
        ({"$log": [2.5, d("8")]}, "0.4406426982957874492901064764964633"),
        ({"$exp": d("-1")}, "0.3678794411714423215955237701614609"),
        ({"$exp": d("1E+6")}, "Infinity"),
        ({"$sigmoid": d("1")}, "0.7310585786300048792511592418218362"),
        ({"$pow": [d("-2.0"), 2]}, "4.000000000000000000000000000000000"),
        ({"$pow": [0.5, d("-1")]}, "2.000000000000000000000000000000000"),
        ({"$pow": [d("0"), d("0")]}, "1.000000000000000000000000000000000"),
        ({"$pow": [5, d("-112")]}, "5.192296858534827628530496329220096E-79"),
        ({"$pow": [d("-2"), d("0.5")]}, "NaN"),
        ({"$pow": [d("9.999999999999999999999999999999999E+6144"), 1]}, "Infinity"),
        ({"$pow": [d("-9.999999999999999999999999999999999E+6144"), 1]}, "-Infinity"),
        ({"$pow": [d("9E+6144"), 1]}, "9.000000000000000000000000000000000E+6144"),
        ({"$round": [d("1.2345"), 2]}, "1.23"),
        ({"$round": [d("2.5")]}, "2"),
        ({"$round": [d("1.298"), 100]}, "1.298000000000000000000000000000000"),
        ({"$trunc": [d("23.298"), -1]}, "2E+1"),
        ({"$ceil": d("1E+3")}, "1000"),
        ({"$floor": d("-1.2")}, "-2"),
        ({"$ceil": d("Infinity")}, "NaN"),
        ({"$sin": d("1")}, "0.8414709848078965066525023216302990"),
        ({"$atan2": [d("1"), 1.0]}, "0.7853981633974483096156608458198757"),
        ({"$degreesToRadians": d("90")}, "1.570796326794896619231321691639752"),
        ({"$radiansToDegrees": d("1")}, "57.29577951308232087679815481410517"),
        ({"$sum": [[d("0.1"), 1]]}, "1.1"),
        ({"$sum": [[d("1"), 0.1]]}, "1.100000000000000005551115123125783"),
        ({"$avg": [[d("1"), 2]]}, "1.5"),
    ],
    ids=str,
)  # fmt: skip
def test_a_decimal_has_a_servers_digits(expression: Any, digits: str) -> None:
    found = value(expression)
    assert isinstance(found, Decimal128)
    assert str(found) == digits


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$round": [2.675, 2]}, 2.67),
        ({"$round": [1e20, 15]}, 1e20),
        ({"$sum": [[0.1, 0.2, 0.3]]}, 0.6),
        ({"$sum": [[1e300, 1, -1e300]]}, 0.0),
        ({"$sum": [[float("inf"), 1.0]]}, float("inf")),
        ({"$sum": [[Int64(2**62), Int64(2**62)]]}, 2.0**63),
        ({"$sum": [[2**53, 1, 0.5]]}, 2.0**53 + 2),
        ({"$avg": [[0.1, 0.2, 0.3]]}, 0.6 / 3),
        ({"$stdDevPop": [[1, 2, 3, 4]]}, 1.118033988749895),
    ],
    ids=str,
)
def test_sums_of_doubles_are_made_with_twice_their_precision(expression: Any, expected: float) -> None:
    found = value(expression)
    assert found == expected
    assert type(found) is float


@pytest.mark.parametrize(
    "expression",
    [
        {"$stdDevPop": [1e308, -1e308]},
        {"$sum": [[float("inf"), float("-inf")]]},
        {"$ln": float("nan")},
        {"$pow": [-2, 0.5]},
    ],
    ids=str,
)
def test_what_doubles_cannot_hold_is_no_number(expression: Any) -> None:
    assert math.isnan(value(expression))


@pytest.mark.parametrize(
    ("operator", "argument", "code"),
    [
        ("$sqrt", -1, 28714),
        ("$sqrt", d("-1"), 28714),
        ("$ln", 0, 28766),
        ("$ln", d("-1"), 28766),
        ("$log10", -5, 28761),
        ("$log", [0, 5], 28758),
        ("$log", [d("5"), d("1")], 28759),
        ("$exp", "a", 28765),
        ("$pow", [d("0"), Int64(-1)], 28764),
        ("$mod", [1, 0], 16610),
        ("$mod", [d("1"), 0], 5733415),
    ],
    ids=str,
)
def test_each_operator_has_a_code_of_its_own_for_what_it_has_no_value_for(
    operator: str, argument: Any, code: int
) -> None:
    assert refusal([{}], {"$set": {"r": {operator: argument}}})[0] == code


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e290, max_value=1e290))
def test_a_double_becomes_a_decimal_of_15_digits(number: float) -> None:
    found = to_decimal(number)
    assert len(found.as_tuple().digits) == (15 if number else 1)
    assert float(found) == pytest.approx(number, rel=1e-14)

"""Angles and hyperbolic functions: of doubles as C's, of decimals to 34 digits."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from bson import Decimal128
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.port.engine import Scope
from fakeserver.storage.values import decimal_functions

ONE_ARGUMENT = (
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
)


def value(expression: Any, **document: Any) -> Any:
    scope = Scope()
    return compile_expression(expression, scope)(scope.frame(document))


@pytest.mark.parametrize("name", ONE_ARGUMENT)
@pytest.mark.parametrize("number", [1, 1.0])
def test_a_double_is_what_c_makes_of_it(name: str, number: float) -> None:
    if name == "atanh":
        number /= 2
    assert value({f"${name}": number}) == pytest.approx(getattr(math, name)(number))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$sin": Decimal128("1")}, "0.8414709848078965066525023216302990"),
        ({"$cos": Decimal128("1")}, "0.5403023058681397174009366074429766"),
        ({"$tan": Decimal128("1")}, "1.557407724654902230506974807458360"),
        ({"$asin": Decimal128("1")}, "1.570796326794896619231321691639751"),
        ({"$acos": Decimal128("-1")}, "3.141592653589793238462643383279503"),
        ({"$atan": Decimal128("Infinity")}, "1.570796326794896619231321691639751"),
        ({"$sinh": Decimal128("1")}, "1.175201193643801456882381850595601"),
        ({"$cosh": Decimal128("1")}, "1.543080634815243778477905620757061"),
        ({"$tanh": Decimal128("1")}, "0.7615941559557648881194582826047936"),
        ({"$asinh": Decimal128("1")}, "0.8813735870195430252326093249797923"),
        ({"$acosh": Decimal128("2")}, "1.316957896924816708625046347307968"),
        ({"$atanh": Decimal128("0.5")}, "0.5493061443340548456976226184612629"),
        ({"$atanh": Decimal128("-1")}, "-Infinity"),
        ({"$sinh": Decimal128("20000")}, "Infinity"),
        ({"$tanh": Decimal128("-1E+40")}, "-1"),
        ({"$asinh": Decimal128("1E-40")}, "1E-40"),
        ({"$atan2": [Decimal128("1"), -1]}, "2.356194490192344928846982537459627"),
        ({"$atan2": [Decimal128("-0"), Decimal128("-1")]}, "-3.141592653589793238462643383279503"),
        (
            {"$atan2": [Decimal128("-Infinity"), Decimal128("Infinity")]},
            "-0.7853981633974483096156608458198757",
        ),
        ({"$degreesToRadians": Decimal128("180")}, "3.141592653589793238462643383279503"),
        ({"$radiansToDegrees": Decimal128("3.141592653589793238462643383279503")}, "180"),
    ],
)  # fmt: skip
def test_a_decimal_is_right_to_34_digits(expression: Any, expected: str) -> None:
    found = value(expression)
    assert isinstance(found, Decimal128)
    assert found.to_decimal() == Decimal(expected) or math.isclose(
        found.to_decimal(), Decimal(expected), rel_tol=0, abs_tol=Decimal("1e-32")
    )


def test_a_large_decimal_turns_as_often_as_it_must() -> None:
    whole_turns = Decimal(10) ** 40
    assert abs(decimal_functions.sin(whole_turns) ** 2 + decimal_functions.cos(whole_turns) ** 2 - 1) < 1e-30


@given(st.decimals(-50, 50, places=9), st.decimals(-50, 50, places=9))
def test_the_decimal_angle_of_a_point_is_the_double_one(ordinate: Decimal, abscissa: Decimal) -> None:
    found = decimal_functions.atan2(ordinate, abscissa)
    assert float(found) == pytest.approx(math.atan2(ordinate, abscissa), abs=1e-9)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$sinh": 1000}, math.inf),
        ({"$sinh": -1000.0}, -math.inf),
        ({"$cosh": -1000}, math.inf),
        ({"$atanh": 1}, math.inf),
        ({"$exp": 1000}, math.inf),
        ({"$sin": None}, None),
        ({"$atan2": [1, "$nothing"]}, None),
        ({"$sigmoid": 0}, 0.5),
        ({"$sigmoid": "$nothing"}, None),
    ],
)
def test_the_ends_of_a_range_are_no_errors(expression: Any, expected: Any) -> None:
    assert value(expression) == expected


def test_what_is_no_number_stays_none() -> None:
    assert math.isnan(value({"$acos": math.nan}))


@pytest.mark.parametrize(
    ("expression", "code", "text"),
    [
        ({"$acos": 2}, 50989, "cannot apply $acos to 2, value must in [-1,1]"),
        ({"$acosh": 0.5}, 50989, "cannot apply $acosh to 0.5, value must in [1,inf]"),
        ({"$sin": math.inf}, 50989, "cannot apply $sin to inf, value must in (-inf,inf)"),
        (
            {"$tan": Decimal128("-Infinity")},
            50989,
            "cannot apply $tan to -Infinity, value must in (-inf,inf)",
        ),
        ({"$tanh": "x"}, 28765, "$tanh only supports numeric types, not string"),
        ({"$atan2": ["x", 1]}, 51044, "$atan2 only supports numeric types, not string"),
        ({"$atan2": [1, True]}, 51045, "$atan2 only supports numeric types, not bool"),
        ({"$sigmoid": "x"}, 14, "$multiply only supports numeric types, not string"),
        ({"$sigmoid": [1]}, 14, "$multiply only supports numeric types, not array"),
        ({"$sigmoid": []}, 14, "$multiply only supports numeric types, not array"),
    ],
)
def test_what_an_operator_does_not_apply_to_is_refused(expression: Any, code: int, text: str) -> None:
    with pytest.raises(CommandError) as caught:
        value(expression)
    assert (caught.value.code, caught.value.message) == (code, text)

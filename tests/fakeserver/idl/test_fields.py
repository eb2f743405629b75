from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields, check_target, type_name, whole

_UPDATE = Fields.of(
    Field("q", "object", required=True), Field("u", "object|array", required=True), Field("multi", "bool")
)
_COMMAND = Fields.of(
    Field("batchSize", "int", minimum=0, maximum=100),
    Field("cursorId", "int64"),
    Field("ordered", "bool"),
    Field("multi", "strictBool"),
    Field("hint", "hint"),
    Field("filter", "object", nullable=False),
    Field("level", "string", choices=("local", "majority")),
    Field("updates", "array", of=_UPDATE),
    Field("names", "array", of="string"),
    Field("cursor", "object", of=Fields.of(Field("batchSize", "long"))),
    Field("anything"),
    target="collection",
)


def _command(**fields: Any) -> dict[str, Any]:
    return {"update": "c", "$db": "db", **fields}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "bool"),
        (1, "int"),
        (Int64(1), "long"),
        (1.0, "double"),
        (Decimal128("1"), "decimal"),
        ("", "string"),
        ({}, "object"),
        ([], "array"),
        (b"", "binData"),
        (datetime.now(UTC), "date"),
        (ObjectId(bytes(12)), "objectId"),
        (Timestamp(1, 1), "timestamp"),
        (Regex("a"), "regex"),
        (MaxKey(), "maxKey"),
        (None, "null"),
        (type("Own", (dict,), {})(), "object"),
        (object(), "object"),
    ],
)
def test_values_are_named_by_their_bson_type(value: Any, name: str) -> None:
    assert type_name(value) == name


@pytest.mark.parametrize(
    ("value", "integer"),
    [
        (2.9, 2),
        (-2.9, -2),
        (Decimal128("7.5"), 8),
        (Decimal128("6.5"), 6),
        (Decimal128("-0.50001"), -1),
        (Int64(3), 3),
        (float("nan"), 0),
        (Decimal128("NaN"), 0),
        (float("inf"), 2**63 - 1),
        (float("-inf"), -(2**63)),
        (Decimal128("-Infinity"), -(2**63)),
        (1e300, 2**63 - 1),
        (Decimal128("-1E6144"), -(2**63)),
    ],
)
def test_doubles_are_truncated_and_decimals_rounded_to_integers_of_64_bits(value: Any, integer: int) -> None:
    assert whole(value) == integer


def test_a_refusal_of_a_field_can_be_kept_without_the_calls_it_went_through() -> None:
    with pytest.raises(CommandError) as caught:
        _COMMAND.check_command(_command(batchSize="x"))
    kept = caught.value.copy()
    assert (type(kept), str(kept), vars(kept)) == (
        type(caught.value),
        str(caught.value),
        vars(caught.value),
    )
    assert kept.__traceback__ is None


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        (
            {"batchSize": "x"},
            14,
            (
                "BSON field 'update.batchSize' is the wrong type 'string', expected types"
                " '[long, int, decimal, double']"
            ),
        ),
        (
            {"ordered": "x"},
            14,
            (
                "BSON field 'update.ordered' is the wrong type 'string', expected types"
                " '[bool, long, int, decimal, double']"
            ),
        ),
        (
            {"cursorId": 5},
            14,
            "BSON field 'update.cursorId' is the wrong type 'int', expected type 'long'",
        ),
        ({"multi": 1}, 14, "BSON field 'update.multi' is the wrong type 'int', expected type 'bool'"),
        ({"hint": 1}, 9, "Hint must be a string or an object"),
        ({"hint": None}, 9, "Hint must be a string or an object"),
        (
            {"filter": None},
            14,
            "BSON field 'update.filter' is the wrong type 'null', expected type 'object'",
        ),
        ({"batchSize": -1}, 2, "BSON field 'batchSize' value must be >= 0, actual value '-1'"),
        ({"batchSize": 101}, 2, "BSON field 'batchSize' value must be <= 100, actual value '101'"),
        (
            {"level": "strange"},
            2,
            "Enumeration value 'strange' for field 'update.level' is not a valid value.",
        ),
        ({"bogus": 1}, 40415, "BSON field 'update.bogus' is an unknown field."),
        (
            {"jsonSchema": {}},
            4662500,
            (
                "BSON field 'update.jsonSchema' is an unknown field."
                " This command may be meant for a mongocryptd process."
            ),
        ),
        ({"updates": [{"q": {}}]}, 40414, "BSON field 'update.updates.u' is missing but a required field"),
        (
            {"updates": [{"q": {}, "u": {}, "bogus": 1}]},
            40415,
            "BSON field 'update.updates.bogus' is an unknown field.",
        ),
        (
            {"updates": [{"q": {}, "u": "x"}]},
            14,
            "BSON field 'update.updates.u' is the wrong type 'string', expected types '[object, array']",
        ),
        (
            {"updates": [{"q": {}, "u": {}}, 7]},
            14,
            "BSON field 'update.updates.1' is the wrong type 'int', expected type 'object'",
        ),
        (
            {"names": ["a", 1]},
            14,
            "BSON field 'update.names.1' is the wrong type 'int', expected type 'string'",
        ),
        (
            {"cursor": {"lsid": 1}},
            40415,
            "BSON field 'update.cursor.lsid' is an unknown field.",
        ),
    ],
)
def test_a_bad_field_is_refused_in_a_servers_words(fields: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(CommandError) as refusal:
        _COMMAND.check_command(_command(**fields))
    assert (refusal.value.code, refusal.value.message) == (code, message)


def test_generic_arguments_are_accepted_by_every_strict_command() -> None:
    _COMMAND.check_command(
        _command(lsid={}, txnNumber=Int64(1), readConcern={}, maxTimeMS=1, comment="x", apiVersion="1")
    )


def test_lenient_fields_reach_the_handler_as_integers_and_bools() -> None:
    command = _command(
        batchSize=2.0,
        ordered=1,
        cursor={"batchSize": Decimal128("3")},
        updates=[{"q": {}, "u": [], "multi": 0}],
    )
    _COMMAND.check_command(command)
    assert command["batchSize"] == 2
    assert type(command["batchSize"]) is int
    assert command["ordered"] is True
    assert command["cursor"] == {"batchSize": 3}
    assert command["updates"][0]["multi"] is False


def test_a_null_counts_as_absent_except_where_any_value_will_do() -> None:
    command = _command(batchSize=None, anything=None)
    _COMMAND.check_command(command)
    assert command == _command(anything=None)


def test_a_null_does_not_satisfy_a_required_field() -> None:
    with pytest.raises(CommandError, match="missing but a required"):
        _COMMAND.check_command(_command(updates=[{"q": None, "u": {}}]))


def test_a_null_is_no_element_of_an_array() -> None:
    command = _command(names=[None, "a", None], multi=None)
    _COMMAND.check_command(command)
    assert command == _command(names=["a"])


def test_a_command_that_is_not_strict_ignores_what_it_does_not_know() -> None:
    Fields.of(Field("a", "int"), strict=False).check_command({"ping": 1, "bogus": 1})


def test_the_value_under_the_commands_own_name_may_be_declared_too() -> None:
    fields = Fields.of(Field("getMore", "int64"))
    with pytest.raises(
        CommandError, match=r"'getMore.getMore' is the wrong type 'string', expected type 'long'"
    ):
        fields.check_command({"getMore": "x"})
    with pytest.raises(CommandError, match=r"'getMore.getMore' is missing but a required field"):
        fields.check_command({"getMore": None})


@pytest.mark.parametrize(
    ("target", "allow_one", "message"),
    [
        ("", False, "Invalid namespace specified 'db.'"),
        (".x", False, "Invalid namespace specified 'db..x'"),
        ("a\0b", False, "Invalid namespace specified 'db.a\0b'"),
        (5, False, "Collection name has invalid type int"),
        (True, True, "Collection name has invalid type bool"),
    ],
)
def test_what_cannot_name_a_collection_is_an_invalid_namespace(
    *, target: Any, allow_one: bool, message: str
) -> None:
    with pytest.raises(CommandError) as refusal:
        check_target(target, "db", allow_one=allow_one)
    assert (refusal.value.code, refusal.value.message) == (73, message)


def test_one_may_stand_for_the_whole_database_where_the_command_allows_it() -> None:
    fields = Fields.of(target="collection|1")
    fields.check_command({"aggregate": 1.0, "$db": "db"})
    fields.check_command({"aggregate": "c", "$db": "db"})


def test_declaring_a_field_twice_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="twice"):
        Fields.of(Field("a"), Field("a"))

"""The reader of documents: values with their places, and errors that name the field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mongowire.documents.errors import DocumentError
from mongowire.documents.reader import BYTES_MAX, VALUES_MAX, read, read_yaml

FILE = Path("f.yml")
MANY_VALUES = b"- &many [" + b"1," * 1000 + b"]\n" + b"- *many\n" * (VALUES_MAX // 1000)

Write: TypeAlias = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str | bytes, name: str = "case.yml") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


def value_of(path: Path) -> Any:
    return read(path).value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:\n  - b: !odd 1\n", "f.yml:2:8: a[0].b: tag !odd is not supported"),
        ("a:\n  - {b: 1, b: 2}\n", "f.yml:2:12: a[0]: key 'b' is repeated"),
        ("a: {b: *c}\n", "f.yml:1:8: a.b: alias *c has no anchor before it"),
        ("- [1, [&a [*a]]]\n", "f.yml:1:12: [0][1][0][0]: anchor &a contains itself"),
        ("b: 1\nb: 2\n", "f.yml:2:1: key 'b' is repeated"),
    ],
)
def test_an_error_names_file_line_column_and_field(text: str, said: str) -> None:
    with pytest.raises(DocumentError) as raised:
        read_yaml(text, FILE)
    assert str(raised.value).startswith(said)


def test_keys_have_places_where_they_are_asked_for() -> None:
    text = "a:\n  b: 1\n  c: &d {e: 2}\nf: *d\n"
    plain, _ = read_yaml(text, FILE)
    placed, _ = read_yaml(text, FILE, keys=True)
    assert plain.value == placed.value
    assert not plain.mark.keys
    assert placed.mark.keys == {"a": (1, 1), "f": (4, 1)}
    assert placed["a"].mark.keys == {"b": (2, 3), "c": (3, 3)}
    assert placed["f"].mark.keys == {"e": (3, 10)}


def test_off_and_times_of_day_are_texts_as_yaml_1_2_has_them() -> None:
    document, _ = read_yaml("[off, yes, 1:30, 0o17, 0x1F, 1e3, .5, ~]\n", FILE)
    assert document.value == ["off", "yes", "1:30", 15, 31, 1000.0, 0.5, None]


class TestYaml:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("a: 1", {"a": 1}),
            ("a: -1.5e3", {"a": -1500.0}),
            ("a: 0x1f", {"a": 31}),
            ("a: 0o17", {"a": 15}),
            ("a: 010", {"a": 10}),
            ("a: yes", {"a": "yes"}),
            ("a: off", {"a": "off"}),
            ("a: 12:30:45", {"a": "12:30:45"}),
            ("a: 2020-01-01", {"a": "2020-01-01"}),
            ("a: '1'", {"a": "1"}),
            ("a: !!str 1", {"a": "1"}),
            ("a: ~", {"a": None}),
            ("a:", {"a": None}),
            ("a: .inf", {"a": float("inf")}),
            ("1: a", {"1": "a"}),
            ("[a, {b: [c]}]", ["a", {"b": ["c"]}]),
        ],
    )
    def test_plain_scalars_are_those_of_yaml_1_2(self, text: str, value: Any, write: Write) -> None:
        assert value_of(write(text)) == value

    def test_an_anchor_may_be_defined_again(self, write: Write) -> None:
        text = "a: &x 1\nb: *x\nc: &x 2\nd: *x\n"
        assert value_of(write(text)) == {"a": 1, "b": 1, "c": 2, "d": 2}

    def test_a_merge_key_gives_what_the_mapping_does_not_say_itself(self, write: Write) -> None:
        anchors = "base: &base {a: 1, b: 2}\nmore: &more {b: 3, c: 4}\n"
        value = value_of(write(anchors + "one: {a: 0, <<: *base}\nall: {<<: [*base, *more]}\n"))
        assert value["one"] == {"a": 0, "b": 2}
        assert value["all"] == {"a": 1, "b": 2, "c": 4}

    def test_a_key_after_a_merge_wins_over_it(self, write: Write) -> None:
        assert value_of(write("base: &b {a: 1, c: 1}\none: {<<: *b, a: 2}\n"))["one"] == {"a": 2, "c": 1}

    @pytest.mark.parametrize("text", ["keys: {a: &aws:name1 1, b: *aws:name1}", "a: {b:, c: 1}"])
    def test_what_one_scanner_refuses_another_reads(self, text: str, write: Write) -> None:
        assert value_of(write(text))

    def test_every_value_knows_its_line(self, write: Write) -> None:
        document = read(write("a:\n  - b: 1\n  - c: &c {d: 2}\ne: *c\n"))
        assert str(document["a"][1]["c"]["d"].location).endswith("case.yml:3:15: a[1].c.d")
        assert document["e"].location.line == 4
        assert document["e"]["d"].location.line == 3


class TestJson:
    def test_it_reads_as_the_same_value_with_the_same_places(self, write: Write) -> None:
        value = {"a": [1, 2.5, None, True, {"b": "\u00e9"}], "c": "line\n"}
        document = read(write(json.dumps(value, indent=2), "case.json"))
        assert document.value == value
        assert document["c"].location.line == 11

    def test_what_is_json_but_not_yaml_reads_without_places(self, write: Write) -> None:
        document = read(write('{\n\t"a": "\\ud83d\\ude00"\n}', "case.json"))
        assert document.value == {"a": "\U0001f600"}


class TestBadInput:
    @pytest.mark.parametrize(
        ("content", "message", "line"),
        [
            (b"", "empty", 1),
            (b"  \n\n", "empty", 1),
            (b"a: \0", "binary", 1),
            (b"a: b\nc: \xff", "UTF-8", 2),
            (b"a: 1\n\tb: 2\n", "not YAML", 2),
            (b"a: [1, 2\nb: 3\n", "not YAML", 2),
            (b"a: 1\na: 2\n", "'a' is repeated", 2),
            (b"a: *b\n", "no anchor", 1),
            (b"a: &a [1, *a]\n", "contains itself", 1),
            (b"a: 1\n---\nb: 2\n", "second document", 2),
            (b"a: !!binary aGk=\n", "tag", 1),
            (b"{a: 1, true: 2}\n", "not a string", 1),
            (b"a: {<<: [1]}\n", "merged", 1),
        ],
    )
    def test_it_is_refused_with_its_line(self, content: bytes, message: str, line: int, write: Write) -> None:
        path = write(content)
        with pytest.raises(DocumentError, match=message) as raised:
            read(path)
        assert raised.value.location is not None
        assert raised.value.location.path == path
        assert raised.value.location.line == line

    @pytest.mark.parametrize(
        ("content", "message"),
        [("{", "Expecting"), ('{"a": 1, "a": 2}', "'a' is repeated"), ("[" * 100_000, "deep")],
    )
    def test_so_is_bad_json(self, content: str, message: str, write: Write) -> None:
        with pytest.raises(DocumentError, match=message):
            read(write(content, "case.json"))

    def test_a_file_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(DocumentError, match=r"nowhere\.yml.*cannot be read"):
            read(tmp_path / "nowhere.yml")

    def test_aliases_that_multiply_without_end_are_refused_before_they_are_expanded(
        self, write: Write
    ) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
        with pytest.raises(DocumentError, match="aliases"):
            read(write("\n".join(lines)))

    def test_nesting_is_bounded(self, write: Write) -> None:
        with pytest.raises(DocumentError, match="deep"):
            read(write("[" * 2000 + "]" * 2000))

    @given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
    def test_no_bytes_at_all_make_anything_but_a_document_error(self, content: bytes) -> None:
        try:
            text = content.decode()
            read_yaml(text, Path("any.yml"))
        except (DocumentError, UnicodeDecodeError):
            pass


class TestLimits:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.yml", b" " * (BYTES_MAX + 1), f"larger than {BYTES_MAX} bytes"),
            ("a.yml", b"a: " + b"9" * 5000, "a number that is too long"),
            ("a.json", b'{"a": ' + b"9" * 5000 + b"}", "a number that is too long"),
            ("a.yml", MANY_VALUES, f"more than {VALUES_MAX} values"),
        ],
        ids=["bytes", "digits", "digits of JSON", "values"],
    )
    def test_what_is_too_large_is_refused(
        self, name: str, content: bytes, message: str, write: Write
    ) -> None:
        with pytest.raises(DocumentError, match=message):
            read(write(content, name))

    def test_a_byte_order_mark_is_none_of_the_text(self, write: Write) -> None:
        assert value_of(write(b"\xef\xbb\xbfa: 1")) == {"a": 1}

    def test_a_file_of_comments_holds_nothing(self, write: Write) -> None:
        assert value_of(write("# nothing\n")) is None

    def test_a_path_through_a_merged_mapping_leads_to_its_source(self, write: Write) -> None:
        document = read(write("base: &b\n  x: 1\none: {<<: *b}\n"))
        assert document["one"]["x"].location.line == 2

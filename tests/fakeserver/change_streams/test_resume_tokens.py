"""Resume tokens name places, and order as the places do."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.change_streams.tokens import ResumeToken, StreamPosition
from fakeserver.errors import CommandError

UUID = Binary(bytes(range(16)), 4)

PLACES = st.one_of(
    st.builds(lambda s, i: StreamPosition.mark(Timestamp(s, i)), st.integers(0, 3), st.integers(0, 3)),
    st.builds(
        lambda s, i, number, invalidates, fragment: StreamPosition.event(Timestamp(s, i), number)._replace(
            invalidates=invalidates, fragment=fragment
        ),
        st.integers(0, 2**32 - 1),
        st.integers(0, 3),
        st.integers(0, 300),
        st.booleans(),
        st.integers(0, 300),
    ),
)


@given(PLACES, st.booleans())
def test_a_token_names_its_place(place: StreamPosition, with_uuid: bool) -> None:  # noqa: FBT001 -- drawn
    token = ResumeToken(place, UUID if with_uuid else None)
    assert ResumeToken.parse(token.document) == place


@given(PLACES, PLACES)
def test_tokens_order_as_places_do(one: StreamPosition, other: StreamPosition) -> None:
    texts = [ResumeToken(place, UUID if place.is_event else None).document["_data"] for place in (one, other)]
    assert (texts[0] < texts[1]) == (one < other)


def test_a_high_water_mark_stands_ahead_of_the_events_of_its_time() -> None:
    timestamp = Timestamp(7, 1)
    assert (
        StreamPosition.mark(timestamp)
        < StreamPosition.event(timestamp, 0)
        < StreamPosition.event(timestamp, 1)
    )
    assert StreamPosition.event(timestamp, 1) < StreamPosition.mark(Timestamp(7, 2))


PLACE = StreamPosition.event(Timestamp(7, 1), 2)
WHOLE = ResumeToken(PLACE, UUID).document["_data"]
MARK = ResumeToken(StreamPosition.mark(Timestamp(1, 1))).document["_data"]


@pytest.mark.parametrize("text", [WHOLE.lower(), WHOLE[:-2], WHOLE + "00", WHOLE + "FF"])
def test_what_stands_behind_the_last_element_does_not_matter(text: str) -> None:
    assert ResumeToken.parse({"_data": text, "_typeBits": Binary(b"")}) == PLACE


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ({}, 40647),
        ({"_data": 7}, 40647),
        ({"_data": "xyz"}, 9),
        ({"_data": WHOLE, "_typeBits": "0"}, 40648),
        ({"_data": ""}, 40649),
        ({"_data": "04"}, 40649),
        ({"_data": "00"}, 50811),
        ({"_data": "82"}, 15),
        ({"_data": WHOLE[:-4]}, 15),
        ({"_data": MARK[:-4]}, 15),
        ({"_data": WHOLE[:18] + "FF" + WHOLE[20:]}, 260),
    ],
)
def test_what_is_no_token_is_refused(token: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as refused:
        ResumeToken.parse(token)
    assert refused.value.code == code

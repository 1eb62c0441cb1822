"""Numbers and their nouns."""

from __future__ import annotations

import pytest
from qverify.plural import count, inflect_after_numbers


def test_a_number_with_its_noun():
    assert [count(n, "frame") for n in (0, 1, 2)] == ["0 frames", "1 frame", "2 frames"]
    assert count(1, "element", "is", "are") == "1 element is" and count(2, "element", "is", "are") == "2 elements are"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("the last 1 elements are left out", "the last 1 element is left out"),
        ("the lowest 1 bits of 21 bits", "the lowest 1 bit of 21 bits"),
        ("B * r1 + 1 elements", "B * r1 + 1 element"),
        ("1 batch items repeat those 1 before", "1 batch item repeats those 1 before"),
        ("the last 1 rows (after 2) repeat those before", "the last 1 row (after 2) repeats those before"),
        ("1 indices, 1 entries", "1 index, 1 entry"),
        ("scaled by 1/1 rows, 2.1 bits, x1 rows", "scaled by 1/1 rows, 2.1 bits, x1 rows"),
        (
            "every 2th, 3th, 11th, 12th, 13th, 21th, 112th, 123th and 4th",
            "every 2nd, 3rd, 11th, 12th, 13th, 21st, 112th, 123rd and 4th",
        ),
    ],
)
def test_texts_are_inflected_after_numbers(text: str, wanted: str):
    assert inflect_after_numbers(text) == wanted

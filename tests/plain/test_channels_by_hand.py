"""The channels to which differences are confined, and the tensors of which they are looked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compare.channels import describe_channels, describe_marked_channels
from qverify.compare.find_channels import find_channels
from qverify.compare.judge import Judge, Judged
from qverify.compare.options import Options
from qverify.compare.values import Values
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

Array = Any


def marked(shape: tuple[int, ...], *channels: int, each: int = 2) -> Array:
    """Returns a mask in which some elements of each of these channels are set."""
    mask = np.zeros(shape, bool)
    for channel in channels:
        np.moveaxis(mask, 1, 0)[channel].reshape(-1)[:each] = True
    return mask


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (marked((1, 8, 3), 2, 5), "all in 2 of 8 channels: 2, 5"),
        (marked((1, 4, 3), 1), "all in 1 of 4 channels: 1"),
        (marked((1, 4, 3), 0, 3), "all in 2 of 4 channels: 0, 3"),
        (marked((1, 4, 3), 0, 1, 3), ""),  # more than half
        (marked((1, 5, 3), 0, 1, 3), ""),
        (marked((1, 3, 3), 1), ""),  # too few channels
        (marked((1, 8, 3), 2, 5, each=1), ""),  # one element of each
        (marked((1, 8, 3), 2, each=1), ""),
        (marked((1, 8), 2, 5, each=1), "all in 2 of 8 channels: 2, 5"),  # channels of one element
        (marked((1, 8), 2, each=1), ""),
        (marked((1, 8, 3)), ""),
        (marked((1, 14, 3), *range(7)), "all in 7 of 14 channels: 0 to 6"),
        (marked((1, 16, 3), *range(0, 14, 2)), "all in 7 of 16 channels: 0, 2, 4, 6, 8, 10 ..."),
        (marked((1, 14, 3), *range(6)), "all in 6 of 14 channels: 0, 1, 2, 3, 4, 5"),
        (np.arange(8) < 2, ""),
    ],
)
def test_channels_are_named_if_they_are_few_and_wrong_more_than_once(mask: Array, text: str) -> None:
    assert describe_marked_channels(mask) == text
    assert describe_channels(np.zeros(mask.shape), mask.astype(float)) == text


def test_two_elements_of_one_channel_on_average() -> None:
    mask = marked((1, 8, 3), 2, each=3)
    mask[0, 5, 0] = True
    assert describe_marked_channels(mask) == "all in 2 of 8 channels: 2, 5"
    mask[0, 2, 0] = False
    assert describe_marked_channels(mask) == ""


def test_arrays_of_other_shapes_have_no_channels_in_common() -> None:
    assert describe_channels(np.zeros((1, 8, 3)), np.ones((1, 8, 4))) == ""


VALUES = np.linspace(-1, 1, 2 * 8 * 6).reshape(2, 8, 6).astype(np.float32)


def judge(given: dict[str, Array], wanted: dict[str, Array] | None = None, **options: Any) -> Judged:
    def record(side: str, tensors: dict[str, Array]) -> Recording:
        specs = {n: TensorSpec(n, v.dtype.name, v.shape) for n, v in tensors.items()}
        return Recording(side, side, specs=specs, finals=tuple(tensors), tensors=tensors)

    sides = record("A", wanted or dict.fromkeys(given, VALUES)), record("B", given)
    return Judge(Values(sides[0]), Values(sides[1]), None, Options(frame=3, **options)).run("A", "B")


def changed(by: float, *channels: int) -> Array:
    value = VALUES.copy()
    value[:, list(channels)] += np.float32(by)
    return value


def test_the_first_tensor_that_fails_is_described() -> None:
    (found,) = find_channels([judge({"a": VALUES, "b": changed(1, 2), "c": changed(1, 5)})])
    assert (found.kind, found.tensor, found.frame) == ("channels", "b", 3)
    assert found.text == "b: what does not match is all in 1 of 8 channels: 2"
    assert find_channels([judge({"a": VALUES})]) == []
    assert find_channels([judge({"a": changed(1, *range(8)), "c": changed(1, 5)})]) == []
    assert len(find_channels([judge({"b": changed(1, 2)}), judge({"b": changed(1, 4)})])) == 2


def test_what_matches_by_the_decimals_is_not_counted() -> None:
    given = changed(1, 2)
    given[:, 3:] += np.float32(1e-7)
    assert "1 of 8 channels: 2" in find_channels([judge({"y": given})])[0].text


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_differ_unless_they_are_the_same(value: float) -> None:
    wanted, given = VALUES.copy(), changed(0.0)
    given[:, 4] = value
    assert "1 of 8 channels: 4" in find_channels([judge({"y": given}, {"y": wanted})])[0].text
    wanted[:] = value
    other = wanted.copy()
    other[:, 1] = 2.0
    assert "1 of 8 channels: 1" in find_channels([judge({"y": other}, {"y": wanted})])[0].text


def test_of_other_shapes_nothing_is_said() -> None:
    judged = judge({"y": changed(1, 2)[:1]}, {"y": VALUES})
    assert judged.rows == {} or find_channels([judged]) == []
    judged = judge({"y": changed(1, 2)})
    judged.b.recording.tensors = {"y": changed(1, 2)[:1]}
    assert find_channels([judged]) == []
    judged.b.recording.tensors = {}
    assert find_channels([judged]) == []

"""Tensors that a board gives for another frame are recognised over several frames."""

from __future__ import annotations

import pytest

from tests.plain.test_frozen_outputs import history

FRAMES = [[*range(n, n + 8)] for n in (0, 10, 20, 30)]


def found(sources: list[int], verdict: str = "FAILED") -> list[str]:
    runs = history([FRAMES[source] for source in sources], FRAMES)
    return [f.text for f in runs.put_frozen_first(verdict, []) if f.kind == "order"]  # type: ignore[arg-type]


def test_outputs_that_are_one_frame_late() -> None:
    assert found([0, 0, 1, 2]) == [
        "y: in 3 frames the board gives the bytes that the reference has in another frame:"
        " that of the frame before, so that outputs are one frame late"
    ]
    assert found([1, 2, 3, 3])[0].endswith(": that of the 1 frame after")
    assert found([0, 1, 0, 1])[0].endswith(": that of the 2 frames before")


def test_frames_in_another_order() -> None:
    assert ": the frames are in reverse order (frame 0 has that of frame 3, frame 1" in found([3, 2, 1, 0])[0]
    assert found([1, 2, 0, 3])[0].endswith(
        "frame 0 has that of frame 1, frame 1 has that of frame 2, frame 2 has that of frame 0"
    )


@pytest.mark.parametrize("sources", [[0, 1, 2, 3], [0, 0, 0, 0], [0, 1, 1, 3]])
def test_what_is_right_frozen_or_wrong_in_one_frame_is_not_of_another_order(sources: list[int]) -> None:
    assert found(sources) == []


def test_other_values_and_small_tensors_say_nothing() -> None:
    other = history([FRAMES[1], FRAMES[0], [7] * 8, FRAMES[3]], FRAMES)
    assert other.put_frozen_first("FAILED", []) == []
    small = history([[1], [0]], [[0], [1]])
    assert small.put_frozen_first("FAILED", []) == []
    assert found([3, 2, 1, 0], "PASSED") == []

"""Outputs that do not change with the input are recognised over several runs."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.frozen import MOST_SAMPLED, MOST_SAMPLES, OutputHistory, _TensorHistory
from qverify.report.facts import Finding
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec


def record(side: str, value: list[int], dtype: str = "int8") -> Recording:
    array = np.array(value, dtype)
    specs = {"y": TensorSpec("y", dtype, array.shape)}
    return Recording(side, side, specs=specs, finals=("y",), tensors={"y": array})


def history(board: list[list[int]], host: list[list[int]], dtype: str = "int8") -> OutputHistory:
    runs = OutputHistory()
    for given, wanted in zip(board, host, strict=True):
        runs.add({"reference": record("reference", wanted, dtype), "board": record("board", given, dtype)})
    return runs


def test_the_same_bytes_in_all_frames_are_said_where_the_reference_changes() -> None:
    found = history([[1] * 8] * 3, [[*range(n, n + 8)] for n in (0, 8, 16)]).find_frozen("FAILED")
    assert [f.tensor for f in found] == ["y"]
    assert found[0].text == (
        "y has the same bytes in all 3 frames, the reference's differ: the board's output does not depend on its input"
    )


def test_a_frozen_tensor_has_no_other_finding() -> None:
    others = [Finding("scale", "y", "y is 1/4 times as large", 1), Finding("order", "x", "x: channels exchanged", 1)]
    stale = history([[1] * 8] * 3, [[*range(n, n + 8)] for n in (0, 8, 16)])
    assert [f.kind for f in stale.put_frozen_first("FAILED", others)] == ["frozen", "order"]
    fresh = history([[n] * 8 for n in range(3)], [[*range(n, n + 8)] for n in (0, 8, 16)])
    assert fresh.put_frozen_first("FAILED", others) == others


def test_nothing_is_said_where_the_board_changes_or_the_reference_does_not() -> None:
    assert history([[1, 2], [1, 3]], [[1, 2], [3, 4]]).find_frozen("FAILED") == []
    assert history([[9, 9]] * 2, [[1, 2]] * 2).find_frozen("FAILED") == []
    assert history([[1, 2]] * 2, [[1, 2], [3, 4]]).find_frozen("PASSED") == []
    assert history([[1, 2]], [[3, 4]]).find_frozen("FAILED") == []


FACT = "y has the same bytes in all 2 frames, the reference's differ"


def test_one_small_value_shows_no_more_than_the_fact() -> None:
    assert history([[1], [1]], [[1], [2]]).find_frozen("FAILED")[0].text == FACT


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_the_same_class_twice_may_be_chance(dtype: str) -> None:
    """Indices of the largest value have 64 bits; the board has it right in one frame and wrong in the other."""
    assert history([[3], [3]], [[3], [7]], dtype).find_frozen("FAILED")[0].text == FACT
    classes = [[n] for n in (3, 7, 2, 3, 7, 3, 2)]
    text = history([[3]] * 7, classes, dtype).find_frozen("FAILED")[0].text
    assert text == FACT.replace("2 frames", "7 frames")


def test_only_elements_that_change_count() -> None:
    """One of 5000 elements changes; then 16 do, by two values."""
    flat = [7] * 5000
    assert history([flat] * 2, [flat, [*flat[:-2], 1, 7]]).find_frozen("FAILED")[0].text == FACT
    for few, more in ((15, ""), (16, ": the board's output does not depend on its input")):
        text = history([[7] * 100] * 2, [[7] * 100, [9] * few + [7] * (100 - few)]).find_frozen("FAILED")[0].text
        assert text == FACT + more


def test_several_frames_tell_more() -> None:
    """Three changes of three elements, of twelve values."""
    host = [[*range(n, n + 3)] for n in (0, 3, 6, 9)]
    for frames, more in ((2, False), (4, True)):
        text = history([[0] * 3] * frames, host[:frames]).find_frozen("FAILED")[0].text
        assert text.endswith("does not depend on its input") is more


def test_values_that_are_not_known_tell_nothing() -> None:
    runs = OutputHistory()
    for number in range(2):
        side = record("reference", [number] * 100)
        side.digests = {"y": tensor_digest(side.tensors["y"])}
        side.tensors = {}
        runs.add({"reference": side, "board": record("board", [0] * 100)})
    assert runs.find_frozen("FAILED")[0].text == FACT


def test_a_gate_that_passes_hides_no_frozen_output() -> None:
    """Changes of one integer, or of less than 2^-7 of the largest value, may be lost on a board of 8 bits."""
    ramps = [[*range(n, n + 8)] for n in (0, 8, 16)]
    assert history([[1] * 8] * 3, ramps).find_frozen("PASSED")[0].text.endswith("does not depend on its input")
    assert history([[1] * 8] * 3, ramps, "float32").find_frozen("PASSED")
    slight = [[100] * 64, [101] * 64, [100, 101] * 32]
    assert history([[100] * 64] * 3, slight).find_frozen("PASSED") == []
    assert history([[100] * 64] * 3, slight).find_frozen("INCONCLUSIVE")
    large = [[1000 + k % 7, *range(63)] for k in range(3)]
    moved = [[1000, *(n + 5 for n in row[1:])] for row in large]
    assert history([large[0]] * 2, [large[0], moved[0]], "float32").find_frozen("PASSED") == []
    classes = [[n] for n in (3, 7)]
    assert history([[3]] * 2, classes, "int64").find_frozen("PASSED") == []


def test_values_that_are_no_numbers_are_no_large_changes() -> None:
    runs = OutputHistory()
    for value in (np.nan, np.inf, 1.0):
        host = record("reference", [0] * 40, "float32")
        host.tensors = {"y": np.full(40, value, "float32")}
        runs.add({"reference": host, "board": record("board", [0] * 40, "float32")})
    assert runs.find_frozen("FAILED")[0].text.endswith("does not depend on its input")
    assert len(runs.find_frozen("PASSED")) == 1  # from infinity to 1


RAMPS = [[*range(n, n + 8)] for n in (0, 8, 16)]


def test_only_complete_runs_of_a_board_count() -> None:
    runs = history([[1] * 8] * 2, RAMPS[:2])
    broken, host = record("board", [5] * 8), record("reference", RAMPS[2])
    broken.state = "partial"
    runs.add({"reference": host, "board": broken})
    runs.add({"reference": host})
    assert "in all 2 frames" in runs.find_frozen("FAILED")[0].text
    assert history([[1] * 8], RAMPS[:1]).frozen() == [] == OutputHistory().frozen()


def with_z(recording: Recording, value: list[int]) -> Recording:
    """Adds a second tensor before y."""
    recording.specs = {"z": TensorSpec("z", "int8", (8,)), **recording.specs}
    recording.tensors = {**recording.tensors, "z": np.array(value, "int8")}
    return recording


def test_a_tensor_that_is_not_in_every_run_is_not_frozen() -> None:
    """The board gives z in two of three runs; then the reference lacks it in one, and the simulator has it."""
    for simulator, lacking, found in (
        (False, "", ["z", "y"]),
        (False, "board", ["y"]),
        (False, "reference", ["y"]),
        (True, "reference", ["z", "y"]),
    ):
        runs = OutputHistory()
        for at, ramp in enumerate(RAMPS):
            sides = {"board": record("board", [1] * 8), "reference": record("reference", ramp)}
            for side in sides.values():
                if at != 1 or side.side != lacking:
                    with_z(side, [1] * 8 if side.side == "board" else ramp)
            if simulator:
                sides["simulator"] = with_z(record("simulator", ramp), ramp)
            runs.add(sides)
        assert runs.frozen() == found, (simulator, lacking)
        texts = {f.tensor: f.text for f in runs.find_frozen("FAILED")}
        assert ("the simulator's differ" in texts[found[0]]) is simulator
        assert ("(and so have 1 more tensor: y)" in texts[found[0]]) is (len(found) > 1)


def test_a_missing_tensor_is_not_frozen() -> None:
    runs = OutputHistory()
    for ramp in RAMPS:
        board = record("board", [1] * 8)
        board.missing = {"y": "no file of it"}
        runs.add({"reference": record("reference", ramp), "board": board})
    assert runs.frozen() == []


def test_many_frozen_tensors_are_shortened() -> None:
    names = [f"t{n}" for n in range(6)]
    runs = OutputHistory()
    for ramp in RAMPS[:2]:
        sides = {}
        for side, value in (("reference", ramp), ("board", [1] * 8)):
            held = {n: np.array(value, "int8") for n in names}
            specs = {n: TensorSpec(n, "int8", (8,)) for n in names}
            sides[side] = Recording(side, side, specs=specs, finals=tuple(names), tensors=held)
        runs.add(sides)
    assert runs.find_frozen("FAILED")[0].text.endswith("(and so have 5 more tensors: t1, t2, t3, t4 ...)")


def test_digests_that_a_side_sent_are_taken_as_they_are() -> None:
    """The board's values are not read; the digest alone shows that it changes."""
    runs = OutputHistory()
    for at, ramp in enumerate(RAMPS):
        board = record("board", [1] * 8)
        board.digests = {"y": f"{at:016x}"}
        runs.add({"reference": record("reference", ramp), "board": board})
    assert runs.frozen() == []


def test_a_large_change_is_one_of_more_than_an_integer_or_a_part_of_the_largest_float() -> None:
    """16 bits: 16 elements that change between two values."""
    for dtype, least in (("int16", 2), ("float32", 1 + 2.0**-7 * 1.25)):
        for by, large in ((least, True), (least - 1, False)):
            start = np.full(16, 0 if dtype == "int16" else 128.0).astype(dtype)
            moved = start + np.asarray(by, dtype)
            assert bool(history([[0] * 16] * 2, [start.tolist(), moved.tolist()], dtype).find_frozen("PASSED")) is large
    flags = [[False] * 16, [True] * 16]
    assert history([[0] * 16] * 2, flags, "bool").find_frozen("PASSED")  # type: ignore[arg-type]


def test_what_the_samples_keep_ends_with_the_evidence() -> None:
    """Every third element of a long tensor is kept; none after the changes tell enough."""
    tensors = _TensorHistory()
    tensors.add("a", np.zeros(3 * MOST_SAMPLED - 1, "int8"))
    assert [s.size for s in tensors.samples] == [MOST_SAMPLED]
    tensors.add("a", np.ones(8, "int8"))
    assert (tensors.runs, len(tensors.samples), tensors.bits) == (2, 1, 0.0)
    tensors.add("b", np.full(3 * MOST_SAMPLED - 1, 5, "int8"))
    assert tensors.samples == [] and tensors.bits == tensors.large == MOST_SAMPLED
    tensors.add("c", np.full(3 * MOST_SAMPLED - 1, 9, "int8"))
    assert tensors.samples == [] and tensors.large == MOST_SAMPLED and tensors.runs == 4
    unknown = _TensorHistory()
    unknown.add("a", np.zeros(8, "int8"))
    unknown.add("b", None)
    assert unknown.samples == [] and unknown.bits == 0.0
    slight = _TensorHistory()
    for at in range(MOST_SAMPLES + 3):
        slight.add(str(at), np.full(1, at % 2, "int8"))
    assert len(slight.samples) == MOST_SAMPLES and slight.large == 0.0 and slight.bits == MOST_SAMPLES - 1


def test_memory_does_not_grow_with_the_runs() -> None:
    changing = [[*range(n, n + 8)] for n in range(200)]
    runs = history(changing, changing, "int64")
    kept = [tensors["y"] for tensors in runs._sides.values() if tensors]
    assert [(len(h.digests), h.runs, h.samples) for h in kept] == [(2, 200, [])] * 2
    assert runs.find_frozen("FAILED") == []
    frozen = history([[1] * 8] * 200, changing, "int64")
    assert len(frozen._sides["reference"]["y"].digests) <= MOST_SAMPLES
    assert [f.tensor for f in frozen.find_frozen("FAILED")] == ["y"]

"""Which containers are read, in which of several readings, and what rows and pairs become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compare.containers import state_containers, unwrap, unwrap_differing
from qverify.compare.judge import Judge, Judged
from qverify.compare.options import Options
from qverify.compare.values import Values
from qverify.report.document import Forced
from qverify.tensors.recording import Recording, Tensors
from qverify.tensors.spec import TensorSpec

Array = Any
CODES = np.array([[-128, -3, 0], [5, 60, 127]], np.int8)


def quantized(dtype: str = "int8", shape: tuple[int, ...] = (2, 3), scale: float = 0.5) -> TensorSpec:
    return TensorSpec("t", dtype, shape, scale=(scale,), zero_point=(0,))


def plain(dtype: str, shape: tuple[int, ...] = (2, 3)) -> TensorSpec:
    return TensorSpec("t", dtype, shape)


def record(value: Array, spec: TensorSpec | None = None, side: str = "board") -> Recording:
    spec = spec or plain(value.dtype.name, value.shape)
    return Recording(side, side, specs={"t": spec}, finals=("t",), tensors={"t": value})


def peer(value: Array) -> Recording:
    return record(value, quantized(value.dtype.name, value.shape), "reference")


def read(value: Array, wanted: TensorSpec, *peers: Recording) -> tuple[str, Array, TensorSpec]:
    """Returns what is said of the container ("" if nothing), the values and their spec."""
    made = unwrap(record(value), {"t": wanted}, peers)
    return made.containers.get("t", ""), made.tensors["t"], made.specs["t"]


def test_what_is_read_is_stated_and_has_no_digest() -> None:
    board = record(CODES.reshape(-1))
    board.specs["u"], board.tensors = plain("int8"), {**board.tensors, "u": CODES}
    board.digests = {"t": "0" * 16, "u": "1" * 16}
    made = unwrap(board, {"t": quantized(), "u": plain("int8")}, [])
    assert made.containers == {"t": "given as int8[6], wanted int8[2, 3]"} and made.digests == {"u": "1" * 16}
    assert made.specs == {"t": quantized(), "u": plain("int8")}
    assert made.tensors["t"].tolist() == CODES.tolist() and made.tensors["u"] is CODES
    assert board.containers == {} and board.tensors["t"].shape == (6,)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (CODES, quantized()),
        (CODES.reshape(-1)[:-1], quantized()),
        (CODES.astype(np.int32) * 100, quantized()),
        (CODES.astype(np.int16), plain("int64")),
        (CODES.astype(np.float64), plain("float32")),
        (CODES.astype(np.float32), plain("float32")),
        (CODES.astype(np.float16), plain("float16")),
        (CODES.astype(np.float32) / 4, quantized()),
        (CODES.astype(np.complex64).reshape(-1), plain("float32")),
    ],
)
def test_what_is_no_container_is_left_as_it_is(value: Array, wanted: TensorSpec) -> None:
    board = record(value)
    assert unwrap(board, {"t": wanted}, []) is board
    assert unwrap(board, {}, []) is board


def test_a_scale_of_its_own_is_no_container() -> None:
    board = record(CODES.reshape(-1), quantized(shape=(6,), scale=0.25))
    assert unwrap(board, {"t": quantized()}, []) is board


def test_what_is_not_as_the_side_states_it_is_no_container() -> None:
    for stated in (plain("int8", (3, 2)), plain("int32", (6,))):
        board = record(CODES.reshape(-1), stated)
        assert unwrap(board, {"t": quantized()}, []) is board
    board = record(CODES.reshape(-1))
    board.tensors = {}
    assert unwrap(board, {"t": quantized()}, []) is board


def test_floats_of_fewer_digits_keep_their_type() -> None:
    half = np.array([[0.5, 1.25, -3], [4, 0, 9]], np.float16)
    text, value, spec = read(half, plain("float32"))
    assert text == "given as float16[2, 3], wanted float32[2, 3]" and value.dtype == spec.numpy_dtype == np.float16
    text, value, spec = read(half.reshape(-1), plain("float32"))
    assert text == "given as float16[6], wanted float32[2, 3]" and (spec.dtype, spec.shape) == ("float16", (2, 3))
    assert value.tolist() == half.tolist()
    text, value, spec = read(half.astype(np.float32).reshape(-1), plain("float32"))
    assert text == "given as float32[6], wanted float32[2, 3]" and spec == plain("float32")


def test_real_values_of_fewer_digits_are_read_as_integers() -> None:
    text, value, spec = read((CODES / 2).astype(np.float16), quantized())
    assert text == "given as float16[2, 3], read as real values, wanted int8[2, 3]"
    assert value.dtype == np.int8 and value.tolist() == CODES.tolist() and spec == quantized()
    text, value, spec = read((CODES / 2 + 0.1).astype(np.float16), quantized())
    assert "read as" not in text and (value.dtype, spec.dtype) == (np.float16, "float16")


@pytest.mark.parametrize(
    ("value", "wanted", "how"),
    [
        (CODES.astype(np.int32), "int8", "by value"),
        (CODES.astype(np.int16) + 1, "int8", ""),  # 128 is beyond it
        (CODES.astype(np.int16) - 1, "int8", ""),  # so is -129
        (np.array([[0, 1, 2], [3, 4, 127]], np.uint8), "int8", "by value"),
        (np.array([[0, 1, 2], [3, 4, 255]], np.uint8), "int8", "by bits"),
        (np.array([[0, 1, 2], [3, 4, 65535]], np.uint16), "int16", "by bits"),
        (CODES, "uint8", "by bits"),
        (CODES.astype(bool), "int8", "by value"),
    ],
)
def test_the_first_reading_that_holds_every_element(value: Array, wanted: str, how: str) -> None:
    text, made, spec = read(value, quantized(wanted))
    words = f"given as {value.dtype}[2, 3], read {how}, wanted {wanted}[2, 3]"
    assert text == (words if how else "")
    if how:
        same = value.view(wanted) if how == "by bits" else value.astype(wanted)
        assert np.array_equal(made, same) and made.dtype == spec.dtype == wanted


def test_an_empty_tensor_is_read_by_value() -> None:
    empty = np.zeros((0,), np.int32)
    assert "read by value" in read(empty, quantized(shape=(2, 0)))[0]


RIGHT = np.array([[0, 1, 100], [3, 40, 127]], np.uint8)  # as int8 by value, by bits alike, or with 128 added


def test_the_other_side_shows_which_reading_it_is() -> None:
    shifted = (RIGHT ^ 128).view(np.int8)
    wanted = quantized()
    for near in (shifted, np.clip(shifted.astype(int) + 1, -128, 127).astype(np.int8)):
        text, made, _ = read(RIGHT, wanted, peer(near))
        assert "read with 128 added" in text and np.array_equal(made, shifted)
    two = (shifted.astype(int) + 2).astype(np.int8)
    assert "read by value" in read(RIGHT, wanted, peer(two))[0]  # no reading is near: the first
    few = RIGHT.astype(np.int8)
    few[0, 0] = shifted[0, 0]
    assert "read by value" in read(RIGHT, wanted, peer(few))[0]


def test_only_a_side_with_the_container_of_the_model_shows_it() -> None:
    shifted = (RIGHT ^ 128).view(np.int8)
    flat, wide, real = (peer(v) for v in (shifted.reshape(-1), shifted.astype(np.int16), shifted.astype(np.float32)))
    missing, lacking = peer(shifted), peer(shifted)
    missing.missing = {"t": "no file of it"}
    lacking.tensors = {}
    for other in (flat, wide, real, missing, lacking):
        assert "read by value" in read(RIGHT, quantized(), other)[0]
        assert "read with 128 added" in read(RIGHT, quantized(), other, peer(shifted))[0]


@pytest.mark.parametrize(("right", "stored"), [(6, True), (3, True), (2, False), (0, False)])
def test_floats_are_stored_integers_if_half_of_them_are_right(right: int, stored: bool) -> None:
    shown = CODES.reshape(-1).copy()
    shown[right:] = [-90, 33, 66, -60, 90, 10][right:]
    text, made, _ = read(CODES.astype(np.float32), quantized(scale=0.75), peer(shown.reshape(2, 3)))
    assert ("read as stored integers" in text) is stored
    assert made.dtype == (np.int8 if stored else np.float32)


@pytest.mark.parametrize(("by", "stored"), [(0.0, True), (0.5, False), (1.0, False), (-1.0, False)])
def test_stored_integers_are_whole_and_within_the_type(by: float, stored: bool) -> None:
    """With 1 added the largest is 128, with 1 taken away the smallest is -129."""
    value = (CODES + by).astype(np.float32)
    text, _, _ = read(value, quantized(scale=0.75), peer(CODES))
    assert ("read as stored integers" in text) is stored


def test_tensors_that_are_loaded_on_access_stay_so() -> None:
    board = record(CODES.reshape(-1))
    board.specs["u"] = plain("int8")
    board.tensors = Tensors({"t": lambda: CODES.reshape(-1), "u": lambda: CODES})
    made = unwrap(board, {"t": quantized()}, [])
    assert isinstance(made.tensors, Tensors) and set(made.tensors) == {"t", "u"}
    assert made.tensors["t"].tolist() == made.tensors["u"].tolist() == CODES.tolist()


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [
        (plain("int8"), quantized()),
        (plain("int16"), plain("int64")),
        (plain("float64"), plain("float32")),
        (plain("float16"), plain("float16")),
    ],
)
def test_what_can_be_no_container_is_not_loaded(stated: TensorSpec, wanted: TensorSpec) -> None:
    def load() -> Array:
        raise AssertionError("loaded")

    board = record(CODES, stated)
    board.tensors = Tensors({"t": load})
    assert unwrap(board, {"t": wanted}, []) is board


def test_two_dumps_are_read_where_they_differ_in_type_or_shape() -> None:
    model = {"t": quantized()}
    for other in (CODES.reshape(-1), CODES.astype(np.int32)):
        first, second = unwrap_differing(record(CODES), record(other), model)
        assert first.containers == {} and list(second.containers) == ["t"]
        first, second = unwrap_differing(record(other), record(CODES), model)
        assert list(first.containers) == ["t"] and second.containers == {}
        assert unwrap_differing(record(other), record(CODES), {})[0].containers == {}
        same = unwrap_differing(record(other), record(other), model)
        assert same[0].containers == same[1].containers == {}
    without = record(CODES)
    without.specs = {}
    assert unwrap_differing(record(CODES.reshape(-1)), without, model)[0].containers == {}


def judged_with(given: Array, wanted: TensorSpec, reference: Array, gate: dict[str, Any] | None = None) -> Judged:
    """Returns the pair of a reference with a board whose tensor is in another container."""
    host = record(reference, wanted, "reference")
    board = unwrap(record(given), {"t": wanted}, [host])
    board.runtime = "runner"
    assert board.containers
    judged = Judge(Values(host), Values(board), None, Options(**(gate or {}))).run("reference", "board")
    return judged


def test_right_elements_are_never_passed() -> None:
    judged = judged_with(CODES.reshape(-1), quantized(), CODES)
    assert (judged.pair.verdict, judged.rows["t"].forced) == ("PASSED", None)
    state_containers(judged)
    row, pair = judged.rows["t"], judged.pair
    why = "given as int8[6], wanted int8[2, 3]: the elements are right"
    assert (row.verdict, row.why, row.bit_equal) == ("INCONCLUSIVE", why, False)
    assert (pair.verdict, pair.cause, pair.why) == ("INCONCLUSIVE", "container", f"t: {why}")
    assert not pair.bit_equal and pair.notes == []


def test_wrong_elements_stay_failed_and_state_the_container() -> None:
    judged = judged_with((CODES ^ 64).reshape(-1), quantized(), CODES)
    before = judged.rows["t"].why
    state_containers(judged)
    row, pair = judged.rows["t"], judged.pair
    assert (row.verdict, pair.verdict) == ("FAILED", "FAILED") and pair.cause != "container"
    assert row.why == "; ".join(t for t in (before, "given as int8[6], wanted int8[2, 3]") if t)
    assert pair.notes == [f"t: {row.why}"]


def test_a_row_whose_node_fails_is_not_right() -> None:
    for verdict, right in (("FAILED", False), ("PASSED", True), ("INCONCLUSIVE", True)):
        judged = judged_with(CODES.reshape(-1), quantized(), CODES)
        judged.rows["t"].forced = Forced(verdict, 1, 1)  # type: ignore[arg-type]
        state_containers(judged)
        assert (judged.rows["t"].verdict == "INCONCLUSIVE") is right
        assert ("the elements are right" in judged.pair.why) is right
        assert judged.pair.verdict == "INCONCLUSIVE" and judged.pair.cause == "container"


@pytest.mark.parametrize(("by", "right"), [(0.0, True), (0.5, False)])
def test_floats_of_fewer_digits_may_be_right_to_that_precision(by: float, right: bool) -> None:
    real = np.array([[1 / 3, 1e6, np.nan], [-0.1, np.inf, 7]], np.float32)
    with np.errstate(over="ignore"):
        given = real.astype(np.float16)
    given[1, 2] += by
    judged = judged_with(given, plain("float32"), real)
    assert judged.rows["t"].verdict != "PASSED"
    state_containers(judged)
    assert judged.rows["t"].why.endswith("wanted float32[2, 3]: the elements are right to that precision") is right


def test_nothing_is_stated_without_a_container_and_the_first_of_several_stands_for_all() -> None:
    host, board = (Recording(s, s, finals=("t", "u", "v")) for s in ("reference", "board"))
    host.specs = {n: quantized() for n in "tuv"}
    host.tensors = dict.fromkeys("tuv", CODES)
    board.specs = {"t": quantized(), "u": plain("int8", (6,)), "v": plain("int32")}
    board.tensors = {"t": CODES, "u": CODES.reshape(-1), "v": CODES.astype(np.int32)}
    made = unwrap(board, host.specs, [host])
    assert list(made.containers) == ["u", "v"]
    judged = Judge(Values(host), Values(made), None, Options()).run("reference", "board")
    state_containers(judged)
    assert [row.verdict for row in judged.rows.values()] == ["PASSED", "INCONCLUSIVE", "INCONCLUSIVE"]
    assert judged.rows["t"].bit_equal and judged.rows["t"].why == ""
    assert judged.pair.why == f"u: {judged.rows['u'].why} (and 1 more tensor in another container)"
    plainly = Judge(Values(host), Values(record(CODES, quantized())), None, Options()).run("reference", "board")
    before = plainly.pair.verdict, plainly.pair.cause, plainly.pair.why
    state_containers(plainly)
    assert (plainly.pair.verdict, plainly.pair.cause, plainly.pair.why) == before


def test_a_right_tensor_in_another_container_stands_before_a_wrong_one() -> None:
    host, board = (Recording(s, s, finals=("t", "u")) for s in ("reference", "board"))
    host.specs, host.tensors = {n: quantized() for n in "tu"}, dict.fromkeys("tu", CODES)
    board.specs = {n: plain("int8", (6,)) for n in "tu"}
    board.tensors = {"t": (CODES ^ 64).reshape(-1), "u": CODES.reshape(-1)}
    judged = Judge(Values(host), Values(unwrap(board, host.specs, [host])), None, Options()).run("reference", "board")
    state_containers(judged)
    assert [row.verdict for row in judged.rows.values()] == ["FAILED", "INCONCLUSIVE"]
    assert judged.pair.notes[-1].startswith(
        "u: given as int8[6], wanted int8[2, 3]: the elements are right (and 1 more"
    )

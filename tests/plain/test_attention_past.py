"""com.microsoft's attentions with a past, and with keys and values by heads, written out: the values of onnxruntime for
every form, and verified models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.onnx_model.decompose import check_same_values, decompose, is_close
from qverify.onnx_model.load import load
from qverify.onnx_model.open_exposed import open_exposed

from tests.ops.qdq import Qdq
from tests.plain.test_decompositions import fused, normal
from tests.plain.verified_model import refused, verified

BATCH, LENGTH, PAST, HEADS, SIZE = 2, 3, 4, 2, 5
KEYS, ALL = PAST + LENGTH, HEADS * SIZE
MASKS: dict[str, object] = {
    "none": None,
    "each key": [[1, 1, 0, 1, 0, 1, 1], [0, 1, 1, 1, 1, 1, 0]],
    "each key of each query": np.random.default_rng(0).integers(0, 2, (BATCH, LENGTH, KEYS)).tolist(),
    "ends": [5, 7],
}
EVERY = [(kind, form) for kind in ("Attention", "QAttention", "MultiHeadAttention") for form in MASKS]


def with_outputs(m: Qdq, y: str, shapes: list[tuple[int, ...]]) -> None:
    for at, shape in enumerate(shapes):
        name = f"{y}_{at}" if at else y
        m.kinds[name] = shape
        m.output(name)


def drawn(m: Qdq, *shape: int) -> str:
    return m.op("Tanh", [m.input(shape)])


def attention_with_past(m: Qdq, kind: str, mask: object, **attributes: object) -> None:
    """The attention of 3 positions after 4 of the past; outputs also the present."""
    rest = {"num_heads": HEADS, **attributes}
    masked = "" if mask is None else m.constant("mask", np.array(mask, np.int32))
    state = (BATCH, HEADS, KEYS, SIZE)
    if kind == "MultiHeadAttention":
        parts = [m.op("MatMul", [drawn(m, BATCH, LENGTH, 6), normal(m, 6, ALL)]) for _ in range(3)]
        pasts = [drawn(m, BATCH, HEADS, PAST, SIZE) for _ in range(2)]
        inputs = [*parts, normal(m, 3 * ALL), masked, normal(m, 1, HEADS, LENGTH, KEYS), *pasts]
        with_outputs(m, fused(m, kind, inputs, (BATCH, LENGTH, ALL), 3, **rest), [(BATCH, LENGTH, ALL), state, state])
        return
    x, past = drawn(m, BATCH, LENGTH, 6), drawn(m, 2, BATCH, HEADS, PAST, SIZE)
    if kind == "QAttention":
        x = m.op("DynamicQuantizeLinear", [x], 3)
        w = m.constant("w", m.rng.integers(-127, 128, (6, 3 * ALL)).astype(np.int8))
        scale, zero = m.constant("scale", np.float32(0.01)), m.constant("zero", np.int8(0))
        inputs = [x, w, normal(m, 3 * ALL), f"{x}_1", scale, masked, f"{x}_2", zero, past]
    else:
        inputs = [x, normal(m, 6, 3 * ALL), normal(m, 3 * ALL), masked, past]
    with_outputs(m, fused(m, kind, inputs, (BATCH, LENGTH, ALL), 2, **rest), [(BATCH, LENGTH, ALL), (2, *state)])


def assert_same_values(m: Qdq) -> None:
    before = load(m.model().SerializeToString(), "unit.onnx")
    done = decompose(before, "unit.onnx", {})
    assert not done.refused and not {n.domain for n in done.model.graph.node if "Attention" in n.op_type}
    outputs = [o.name for o in before.graph.output]
    theirs, mine = (open_exposed(x, []).run(m.feed, outputs) for x in (before, done.model))
    assert all(is_close(mine[o], theirs[o]) for o in outputs)
    check_same_values(done)


@pytest.mark.parametrize(("kind", "form"), EVERY)
@pytest.mark.parametrize("later", [0, 1])
def test_a_past_gives_the_values_of_onnxruntime(kind: str, form: str, later: int) -> None:
    m = Qdq(seed=5)
    attention_with_past(m, kind, MASKS[form], unidirectional=later, scale=0.3)
    assert_same_values(m)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("present", [False, True])
def test_keys_and_values_by_heads(bias: bool, present: bool) -> None:
    """Those of another sequence, which a decoder keeps: no bias is added to them."""
    m = Qdq(seed=6)
    kept = [drawn(m, BATCH, HEADS, PAST, SIZE) for _ in range(2)]
    inputs = [drawn(m, BATCH, LENGTH, ALL), *kept, *([normal(m, 3 * ALL)] if bias else [])]
    y = fused(m, "MultiHeadAttention", inputs, (BATCH, LENGTH, ALL), 3 if present else 1, num_heads=HEADS)
    with_outputs(m, y, [(BATCH, LENGTH, ALL), *([(BATCH, HEADS, PAST, SIZE)] * (2 if present else 0))])
    assert_same_values(m)


@pytest.mark.parametrize("kind", ["Attention", "MultiHeadAttention"])
def test_a_present_without_a_past(kind: str) -> None:
    m = Qdq(seed=8)
    x, state = drawn(m, BATCH, LENGTH, ALL), (BATCH, HEADS, LENGTH, SIZE)
    of_self = kind == "Attention"
    inputs = [x, normal(m, ALL, 3 * ALL), normal(m, 3 * ALL)] if of_self else [x, x, x]
    y = fused(m, kind, inputs, (BATCH, LENGTH, ALL), 2 if of_self else 3, num_heads=HEADS)
    with_outputs(m, y, [(BATCH, LENGTH, ALL), *([(2, *state)] if of_self else [state, state])])
    assert_same_values(m)


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("kind", ["Attention", "QAttention", "MultiHeadAttention"])
def test_an_attention_with_a_past_is_verified(kind: str, opset: int, tmp_path: Path) -> None:
    m = Qdq(seed=2)
    m.opset = opset
    attention_with_past(m, kind, MASKS["each key"], unidirectional=1)
    verified(m.model(), tmp_path)


def test_a_bias_is_added_before_the_mask() -> None:
    """In rows of which every key is masked, the last bits of scores beside -10000 decide."""
    m = Qdq(seed=9)
    parts, bias = [drawn(m, BATCH, LENGTH, ALL) for _ in range(3)], normal(m, 1, HEADS, LENGTH, LENGTH)
    masked = m.constant("mask", np.zeros((BATCH, LENGTH), np.int32))
    y = fused(m, "MultiHeadAttention", [*parts, "", masked, bias], (BATCH, LENGTH, ALL), num_heads=HEADS)
    m.output(y)
    assert_same_values(m)


def past_in_place(m: Qdq) -> None:
    q, past = drawn(m, 1, 2, ALL), normal(m, 1, HEADS, 9, SIZE)
    inputs = [q, q, q, "", "", "", past, past, m.constant("length", np.array([3], np.int32))]
    y = fused(m, "MultiHeadAttention", inputs, (1, 2, ALL), 3, num_heads=HEADS)
    with_outputs(m, y, [(1, 2, ALL), (1, HEADS, 9, SIZE), (1, HEADS, 9, SIZE)])


def products_of_attention(m: Qdq) -> None:
    q = drawn(m, 1, 2, ALL)
    y = fused(m, "MultiHeadAttention", [q, q, q], (1, 2, ALL), 4, num_heads=HEADS)
    m.kinds[f"{y}_3"] = (1, HEADS, 2, 2)
    m.output(f"{y}_3")


def no_presents(m: Qdq) -> None:
    q, past = drawn(m, 1, 2, ALL), normal(m, 1, HEADS, 3, SIZE)
    y = fused(m, "MultiHeadAttention", [q, q, q, "", "", "", past, past], (1, 2, ALL), 2, num_heads=HEADS)
    with_outputs(m, y, [(1, 2, ALL), (1, HEADS, 5, SIZE)])


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (no_presents, r"MultiHeadAttention\): it has a past, but not both presents as outputs"),
        (past_in_place, r"MultiHeadAttention\): a cache that is filled in place \('length'\) is not supported"),
        (products_of_attention, r"MultiHeadAttention\): the products are used as an output"),
    ],
)
def test_refused_by_name(build: object, said: str) -> None:
    assert callable(build)
    refused(build, said)

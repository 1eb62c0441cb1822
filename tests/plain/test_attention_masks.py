"""Masks of com.microsoft's attentions, written out: the values of onnxruntime for every form, and a verified model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.onnx_model.decompose import check_same_values, decompose, is_close
from qverify.onnx_model.load import load
from qverify.onnx_model.open_exposed import open_exposed

from tests.ops.qdq import Qdq
from tests.plain.test_decompositions import fused, normal
from tests.plain.verified_model import verified

LOWEST = float(np.finfo(np.float32).min)
BATCH, LENGTH = 2, 5
FORMS = {  # masks of 2 x 5 keys
    "each key": [[1, 1, 2, 0, -1], [0, 0, 1, 1, 0]],
    "each key of each query": np.random.default_rng(0).integers(-1, 3, (BATCH, LENGTH, LENGTH)).tolist(),
    "ends": [3, 5],
    "ends 0 and beyond": [0, 9],
    "ends, starts": [4, 5, 1, 0],
    "ends, starts after them": [3, 5, 4, 9],
    "ends, starts, further positions": [3, 4, 0, 3, 7, 0, 5, 10],
    "all masked": [[0] * LENGTH] * BATCH,
    "ignored": [[0], [1]],
    "ignored, one": [[0]],
}
OF_SELF = ("ends, starts", "ends, starts after them", "ignored", "ignored, one")  # no MultiHeadAttention has these
EVERY = [(kind, form) for kind in ("Attention", "QAttention") for form in FORMS]
EVERY += [("MultiHeadAttention", form) for form in FORMS if form not in OF_SELF]


def attention_with_mask(m: Qdq, kind: str, shape: tuple[int, ...], lift: int = 0, **attributes: object) -> str:
    """The attention of 2 x 5 positions with a mask that is an input, plus `lift`; returns the input's name."""
    given = m.integers(shape, dtype="int32")
    mask = m.op("Add", [given, m.constant("lift", np.int32(lift))])
    x, rest = m.op("Tanh", [m.input((BATCH, LENGTH, 6))]), {"num_heads": 2, **attributes}
    if kind == "MultiHeadAttention":
        parts = [m.op("MatMul", [x, normal(m, 6, 8)]) for _ in range(3)]
        inputs = [*parts, "", mask]
    elif kind == "QAttention":
        x = m.op("DynamicQuantizeLinear", [x], 3)
        w = m.constant("w", m.rng.integers(-127, 128, (6, 24)).astype(np.int8))
        scale, zero = m.constant("scale", np.float32(0.01)), m.constant("zero", np.int8(0))
        inputs = [x, w, normal(m, 24), f"{x}_1", scale, mask, f"{x}_2", zero]
    else:
        inputs = [x, normal(m, 6, 24), normal(m, 24), mask]
    m.output(fused(m, kind, inputs, (BATCH, LENGTH, 8), **rest))
    return given


@pytest.mark.parametrize(("kind", "form"), EVERY)
def test_a_mask_gives_the_values_of_onnxruntime(kind: str, form: str) -> None:
    """For both values that mask, with and without later keys masked."""
    value = np.array(FORMS[form], np.int32)
    for by in (-10000.0, LOWEST):
        for later in (0, 1):
            m = Qdq(seed=7)
            name = attention_with_mask(m, kind, value.shape, mask_filter_value=by, unidirectional=later)
            before = load(m.model().SerializeToString(), "unit.onnx")
            done = decompose(before, "unit.onnx", {})
            assert not done.refused and kind not in {n.op_type for n in done.model.graph.node}
            outputs = [o.name for o in before.graph.output]
            theirs, mine = (open_exposed(x, []).run(m.feed | {name: value}, outputs) for x in (before, done.model))
            assert all(is_close(mine[o], theirs[o]) for o in outputs), (by, later)
            check_same_values(done)


@pytest.mark.parametrize("kind", ["QAttention", "MultiHeadAttention"])
@pytest.mark.parametrize("later", [0, 1])
def test_lengths_computed_at_run_time_are_verified(kind: str, later: int, tmp_path: Path) -> None:
    m = Qdq(seed=3)
    attention_with_mask(m, kind, (BATCH,), 3, mask_filter_value=LOWEST, unidirectional=later)
    verified(m.model(), tmp_path)

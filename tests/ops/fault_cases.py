"""Small models in which faults that ordinary ones hide change bytes: ties, large accumulators, clamps, NaN."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq


def ties(m: Qdq) -> None:
    """A 1 x 1 conv with scales beside k + 1/2 over an accumulator: every rounding of the product shows."""
    x = m.input((1, 1, 16, 16))
    out = np.float32(0.7)
    m.constants["in0_scale"], m.constants["in0_zp"] = np.array(1, np.float32), np.array(0, np.uint8)
    m.feed["in0"] = np.arange(256, dtype=np.float32).reshape(1, 1, 16, 16)
    tie, at = m.rng.integers(1, 60, 256) + 0.5, m.rng.integers(3, 250, 256)
    scale = (np.where(np.arange(256) % 4, tie / at, 0.5) * out).astype(np.float32)
    _weights(m, m.rng.choice([-1, 1], (256, 1, 1, 1)).astype(np.int8), scale)
    made = m.op("Conv", [x, "w_dq"], kernel_shape=[1, 1])
    m.output(m.pair(made, np.asarray(out), np.array(128, np.uint8)))


def heavy(m: Qdq) -> None:
    """Accumulators beyond 2^19, biases beyond 2^15, pairs of products beyond 2^15."""
    x = m.input((3, 64))
    _weights(m, m.rng.choice([-127, 127], (7, 64)).astype(np.int8), np.full(7, 0.01, np.float32))
    scale = (m.constants["in0_scale"] * np.float32(0.01)).astype(np.float32)
    m.constant("b_i32", m.rng.integers(-600000, 600000, 7).astype(np.int32))
    m.constant("b_scale", np.full(7, scale)), m.constant("b_zp", np.zeros(7, np.int32))
    bias = m.op("DequantizeLinear", ["b_i32", "b_scale", "b_zp"], "b_dq", axis=0)
    m.output(m.quantize(m.op("Gemm", [x, "w_dq", bias], transB=1)))


def clamped(m: Qdq) -> None:
    """A Relu that its output's type does not imply."""
    m.symmetric = True
    x = m.input((1, 3, 9, 9), dtype="int8")
    made = m.op("Relu", [m.op("Conv", [x, m.weight((5, 3, 3, 3))])])
    m.output(m.quantize(made, dtype="int8"))


def roots(m: Qdq) -> None:
    """NaN below zero."""
    m.output(m.op("Sqrt", [m.op("Sub", [m.input((1, 3, 5, 7)), m.input((1, 3, 5, 7))])]))


def _weights(m: Qdq, value: np.ndarray, scale: np.ndarray) -> None:
    m.constant("w_i8", value), m.constant("w_scale", scale), m.constant("w_zp", np.zeros(len(scale), np.int8))
    m.op("DequantizeLinear", ["w_i8", "w_scale", "w_zp"], "w_dq", axis=0)


ORDINARY = "conv_depthwise_dilated_batch"
ROUNDINGS = "tflite_single gemmlowp cmsis pow2_half_up pow2_half_away pow2_floor mul8 mul15 mul16 mul24 mul31 f64"
OWN_ROUNDINGS = "half_away floor to_zero exact_product through_reals"
SHOWN_BY = {  # kind: the case of tests/ops/cases or of this file, where ORDINARY hides it
    **{f"round_{name}": "ties" for name in f"{ROUNDINGS} {OWN_ROUNDINGS}".split()},
    **dict.fromkeys(("acc_sat16", "acc_sat_pairs", "acc_wrap16", "acc_wrap20", "bias_narrow"), "heavy"),
    **dict.fromkeys(("nan", "nan_scrub"), "roots"),
    **dict.fromkeys(("lut_offset", "lut_sign"), "sigmoid"),
    **dict.fromkeys(("resize_offset", "resize_mode"), "resize_nearest"),
    **dict.fromkeys(("layout_weight", "group_order"), "conv_grouped_same_lower"),
    "clamp_missing": "clamped",
    "run_too_long": "conv_relu",
    "pool_count": "average_pool_padded",
}

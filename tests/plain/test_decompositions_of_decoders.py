"""Operators of decoders, written out: each verified without a host island, its result that of onnxruntime's kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from qverify.compiler.compile_model import compile_model
from qverify.onnx_model.decompose import check_same_values, decompose
from qverify.onnx_model.load import load

from tests.ops.qdq import Qdq
from tests.plain.test_decompositions import fused, normal
from tests.plain.test_decompositions_of_functions import angles
from tests.plain.verified_model import refused, verified

SHAPE = (2, 3, 8)
FORMS_OF_WEIGHTS = ((4, 0, False), (4, 16, True), (4, 16, False), (8, 0, False))  # bits, block, zero points


def tanh(m: Qdq, *shape: int) -> str:
    return m.op("Tanh", [m.input(shape)])


def several(m: Qdq, kind: str, inputs: list[str], *shapes: tuple[int, ...], **attributes: Any) -> list[str]:
    """A node of com.microsoft with several outputs of these shapes, all of which are outputs of the model."""
    name = m.op(kind, inputs, len(shapes), "com.microsoft", **attributes)
    names = [name, *(f"{name}_{at}" for at in range(1, len(shapes)))]
    m.kinds |= dict(zip(names, shapes, strict=True))
    for each in names:
        m.output(each)
    return names


def gates(m: Qdq) -> None:
    x, y = tanh(m, *SHAPE), tanh(m, *SHAPE)
    for activation in ("silu", "sigmoid"):
        m.output(fused(m, "GatedRMSNorm", [x, normal(m, 8), y], SHAPE, activation=activation, epsilon=1e-3))
    m.output(m.quantize(fused(m, "GatedRMSNorm", [x, normal(m, 8), y], SHAPE)))
    for scale in ((4,), (8,), (2, 4)):
        m.output(fused(m, "BranchwiseRMSNorm", [x, normal(m, *scale)], SHAPE, num_branches=2))
    m.output(fused(m, "BranchwiseRMSNorm", [x], SHAPE, num_branches=4))
    m.output(fused(m, "ScaledSiLU", [x], SHAPE, alpha=1.7))
    m.output(fused(m, "ScaledSiLU", [x, m.constant("factor", np.float32(0.6))], SHAPE, alpha=1.7))
    m.output(fused(m, "GatedAdd", [x, y, tanh(m, 2, 3, 1)], SHAPE))
    several(m, "LinearAttentionGate", [x, normal(m, 8), normal(m, 8), y], SHAPE, SHAPE)


def rotations_of_sections(m: Qdq) -> None:
    """Positions of time, row and column; sections one after the other and in turn, halves and neighbours, a part of a head;
    heads apart."""
    flat, x = tanh(m, 2, 5, 24), tanh(m, 2, 3, 5, 8)
    places = m.constant("places", m.rng.integers(0, 9, (3, 2, 5)))
    for layout, between in ((0, 0), (0, 1), (1, 0), (1, 1)):
        more = {"mrope_layout": layout, "interleaved": between, "mrope_section": [2, 1, 1], "num_heads": 3}
        m.output(fused(m, "MRotaryEmbedding", [flat, places, *angles(m, 9, 4)], (2, 5, 24), **more))
    more = {"mrope_section": [1, 0, 1], "rotary_embedding_dim": 4, "num_heads": 3}
    m.output(fused(m, "MRotaryEmbedding", [flat, places, *angles(m, 9, 2)], (2, 5, 24), **more))
    m.output(fused(m, "MRotaryEmbedding", [x, places, *angles(m, 9, 4)], (2, 3, 5, 8), mrope_section=[1, 2, 1]))


def convolutions_with_a_past(m: Qdq) -> None:
    x, weight, past = tanh(m, 2, 6, 5), normal(m, 6, 1, 4), tanh(m, 2, 6, 3)
    for activation in ("silu", "none"):
        inputs = [x, weight, normal(m, 6), past]
        several(m, "CausalConvWithState", inputs, (2, 6, 5), (2, 6, 3), activation=activation)
    several(m, "CausalConvWithState", [x, weight], (2, 6, 5), (2, 6, 3))
    name = m.op("CausalConvWithState", [x, weight, "", past], 2, activation="swish")
    m.output(m.quantize(name))
    m.output(f"{name}_1")


def attentions_with_a_state(m: Qdq) -> None:
    """Each rule, decays of heads and of their elements, with and without a past, of both domains."""
    q, k, v, past = tanh(m, 2, 3, 8), tanh(m, 2, 3, 8), tanh(m, 2, 3, 12), tanh(m, 2, 2, 4, 6)
    whole, part = (m.op("Neg", [m.op("Abs", [tanh(m, 2, 3, size)])]) for size in (2, 8))
    beta, heads = m.op("Sigmoid", [tanh(m, 2, 3, 2)]), {"q_num_heads": 2, "kv_num_heads": 2}
    forms = {"linear": ["", ""], "gated": [part, ""], "delta": ["", beta], "gated_delta": [whole, beta]}
    for rule, more in forms.items():
        inputs = [q, k, v, past, *more]
        several(m, "LinearAttention", inputs, (2, 3, 12), (2, 2, 4, 6), update_rule=rule, scale=0.3, **heads)
    name = m.op("LinearAttention", [q, k, v, "", whole, beta], 2, **heads)
    m.output(m.quantize(name))
    m.output(f"{name}_1")


def running_products(m: Qdq) -> None:
    x = tanh(m, 3, 7, 2)
    for axis, exclusive, reverse in ((1, 0, 0), (1, 1, 0), (-1, 0, 1), (0, 1, 1)):
        at = m.constant(f"axis{axis}{exclusive}{reverse}", np.int64(axis))
        m.output(m.op("CumProd", [x, at], exclusive=exclusive, reverse=reverse))
    whole = m.op("Cast", [m.op("Mul", [x, m.constant("wide", np.float32(9))])], to=TensorProto.INT32)
    m.output(m.op("Cast", [m.op("CumProd", [whole, m.constant("last", np.int32(2))])], to=TensorProto.FLOAT))


def bits_of_integers(m: Qdq) -> None:
    scale, zeros = m.constant("s", np.float32(0.02)), {t: m.constant(t, np.array(0, t)) for t in ("int8", "uint8")}
    q = m.op("QuantizeLinear", [m.op("Relu", [tanh(m, 3, 5)]), scale, zeros["int8"]])
    unsigned = m.op("BitCast", [q], to=TensorProto.UINT8)
    m.output(m.op("Sqrt", [m.op("DequantizeLinear", [unsigned, scale, zeros["uint8"]])]))


def scatters(m: Qdq) -> None:
    """Both modes, other axes, places that are computed, a cache of int8."""
    cache, new = tanh(m, 2, 3, 8, 4), tanh(m, 2, 3, 3, 4)
    m.output(m.op("TensorScatter", [cache, new, m.constant("at", np.array([5, 0]))]))
    m.output(m.op("TensorScatter", [cache, new, m.constant("end", np.array([7, 2]))], mode="circular"))
    m.output(m.op("TensorScatter", [cache, new]))
    places = m.integers((2,), 5)
    wide = tanh(m, 2, 3, 8, 2)
    m.output(m.op("TensorScatter", [cache, wide, m.constant("none", np.array([1, 2]))], axis=3))
    m.output(m.quantize(m.op("TensorScatter", [cache, new, places])))


def attentions_of_caches(m: Qdq) -> None:
    """Numbers of keys, causal and not, masks, groups of heads, a soft cap; the products at each stage."""
    q, k, v = tanh(m, 2, 4, 3, 8), tanh(m, 2, 2, 7, 8), tanh(m, 2, 2, 7, 6)
    keys = m.constant("keys", np.array([5, 7]))
    m.output(m.op("Attention", [q, k, v, "", "", "", keys], is_causal=1))
    m.output(m.quantize(m.op("Attention", [q, k, v, "", "", "", keys], scale=0.3)))
    kept = m.constant("kept", m.rng.random((3, 7)) > 0.3)
    m.output(m.op("Attention", [q, k, v, kept, "", "", keys], is_causal=1, softcap=2.0))
    flat = [tanh(m, 2, 3, 32), tanh(m, 2, 7, 16), tanh(m, 2, 7, 16)]
    m.output(m.op("Attention", [*flat, normal(m, 3, 7), "", "", keys], q_num_heads=4, kv_num_heads=2))
    for mode in range(4):
        inputs = [q, k, v, kept] if mode != 2 else [q, k, v]  # of masked keys, mode 2 gives the lowest numbers
        name = m.op("Attention", inputs, 4, softcap=3.0, qk_matmul_output_mode=mode)
        m.output(name)
        m.output(f"{name}_3")
    past, more = tanh(m, 2, 4, 2, 8), tanh(m, 2, 4, 3, 8)
    name = m.op("Attention", [q, more, more, "", past, past], 4, is_causal=1, qk_matmul_output_mode=3)
    for at in ("", "_1", "_2", "_3"):
        m.output(name + at)


def experts(m: Qdq) -> None:
    """Each activation, shares of the chosen and of all, with bias and without."""
    x, scores = tanh(m, 5, 8), tanh(m, 5, 4)
    for kind, k, normalized in (("relu", 1, 0), ("gelu", 2, 1), ("silu", 3, 0), ("identity", 2, 0), ("swiglu", 2, 1)):
        wide, more = (12, {"swiglu_fusion": 1, "activation_alpha": 1.702}) if kind == "swiglu" else (6, {})
        bias = [normal(m, 4, wide), normal(m, 4, 8)] if k > 1 else ["", ""]
        inputs = [x, scores, normal(m, 4, wide, 8), bias[0], normal(m, 4, 8, 6), bias[1]]
        while not inputs[-1]:
            inputs.pop()
        m.output(
            fused(m, "MoE", inputs, (5, 8), k=k, activation_type=kind, normalize_routing_weights=normalized, **more)
        )


def quantized_experts(m: Qdq, forms: tuple[tuple[int, int, bool], ...] = FORMS_OF_WEIGHTS) -> None:
    """Weights of 4 and 8 bits, by row and by block, with zero points."""
    scores, size = tanh(m, 3, 4), 32
    for bits, block, zero in forms:
        x, blocks = tanh(m, 3, size), size // block if block else 1

        def table(*shape: int, kind: str = "uint8") -> str:
            value = m.rng.integers(0, 256, shape) if kind == "uint8" else m.rng.random(shape) * 0.02
            return m.constant(f"t{len(m.constants)}", value.astype(kind))

        inputs = [x, scores]
        for rows in (2 * size, size):
            scale = (4, rows, blocks) if block else (4, rows)
            inputs += [table(4, rows, size * bits // 8), table(*scale, kind="float32"), normal(m, 4, rows)]
        if zero:
            inputs += ["", "", "", *(table(4, rows, blocks * bits // 8) for rows in (2 * size, size))]
        more = {"block_size": block} if block else {}
        more |= {"expert_weight_bits": bits, "swiglu_fusion": 1, "activation_type": "swiglu", "k": 2}
        limits = {"swiglu_limit": 1.5, "activation_beta": 1.0, "normalize_routing_weights": 1}
        m.output(fused(m, "QMoE", inputs, (3, size), **more, **limits))


CASES: dict[str, tuple[Callable[[Qdq], None], int]] = {
    "gates": (gates, 23),
    "rotations of sections": (rotations_of_sections, 23),
    "convolutions with a past": (convolutions_with_a_past, 27),
    "attentions with a state": (attentions_with_a_state, 27),
    "running products": (running_products, 26),
    "bits of integers": (bits_of_integers, 26),
    "scatters": (scatters, 24),
    "attentions of caches": (attentions_of_caches, 24),
    "experts": (experts, 23),
    "quantized experts": (quantized_experts, 23),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_verified_node_by_node(name: str, tmp_path: Path) -> None:
    build, opset = CASES[name]
    m = Qdq(seed=sum(name.encode()), opset=opset)
    build(m)
    assert not verified(m.model(), tmp_path).islands


def test_a_cache_of_int8_has_the_scale_of_what_reads_it() -> None:
    """No node states the scale of the past but the DequantizeLinear behind the TensorScatter."""
    m = Qdq(opset=24)
    scale, zero = m.constant("s", np.float32(0.02)), m.constant("z", np.int8(0))
    m.inputs.append(helper.make_tensor_value_info("past", TensorProto.INT8, (1, 2, 6, 4)))
    new = m.op("QuantizeLinear", [tanh(m, 1, 2, 3, 4), scale, zero])
    present = m.op("TensorScatter", ["past", new, m.constant("at", np.array([2]))])
    m.output(m.op("Relu", [m.op("DequantizeLinear", [present, scale, zero])]))
    m.feed["past"] = m.rng.integers(-128, 128, (1, 2, 6, 4)).astype(np.int8)
    graph = compile_model(m.model().SerializeToString(), "cache.onnx").graph
    assert np.allclose(graph.spec("past").scale, 0.02) and graph.meta["check"]["units"] and not graph.islands


def heads_of_queries(m: Qdq) -> None:
    inputs = [tanh(m, 1, 3, 16), tanh(m, 1, 3, 8), tanh(m, 1, 3, 8)]
    more = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "linear"}
    several(m, "LinearAttention", inputs, (1, 3, 16), (1, 2, 4, 4), **more)


def sparse_mixer(m: Qdq) -> None:
    inputs = [tanh(m, 3, 8), tanh(m, 3, 2), normal(m, 2, 4, 8), "", normal(m, 2, 8, 4)]
    m.output(fused(m, "MoE", inputs, (3, 8), use_sparse_mixer=1, k=2))


def rounded_experts(m: Qdq) -> None:
    quantized_experts(m, ((8, 16, True),))


@pytest.mark.parametrize(
    ("build", "pattern"),
    [
        (rounded_experts, "rounds the activations to 8 bits"),
        (heads_of_queries, "as many heads of keys and values"),
        (sparse_mixer, "use_sparse_mixer"),
    ],
)
def test_another_form_is_refused_by_name(build: Callable[[Qdq], None], pattern: str) -> None:
    refused(build, pattern)


def test_a_write_index_that_the_run_gives_is_compared_at_both_ends() -> None:
    m = Qdq(opset=24)
    cache, new = tanh(m, 2, 8, 4), tanh(m, 2, 3, 4)
    m.output(m.op("TensorScatter", [cache, new, m.integers((2,), 5)]))
    done = decompose(load(m.model().SerializeToString(), "cache"), "cache", {})
    (replaced,) = done.rounds[0].replaced
    assert [next(iter(v.values())).tolist() for v in replaced.valid] == [[0, 0], [5, 5], [2, 2]]
    check_same_values(done)

"""Convolutions, matrix products and pools, with weights as the style stores them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.graphs.random_graph import MICROSOFT, RandomGraph, Unfit


def weight(g: RandomGraph, *shape: int, axis: int = 0) -> str:
    """A constant weight: a float one, integers of 8 bits with one scale or one for each channel, or small ones in blocks."""
    how = g.pick(*g.style.weights)
    spread = 1.2 / np.sqrt(np.prod(shape) / shape[axis])
    if how == "float":
        return g.reals(*shape, spread=spread)
    if how == "blocks":
        return _blocks(g, shape, spread)
    channels = shape[axis] if how == "channels" else 1
    dtype = g.pick("int8", "int8", "uint8") if how == "tensor" else "int8"
    zero = 128 if dtype == "uint8" else 0
    value = np.clip(g.rng.normal(zero, 45, shape), zero - 128 + (dtype == "int8"), zero + 127)
    scales = spread / 45 * g.rng.uniform(0.5, 1.5, channels)
    shaped = scales if how == "channels" else scales[0]
    names = [
        g.constant(value, dtype),
        g.constant(shaped, g.style.real),
        g.constant(np.full(np.shape(shaped), zero), dtype),
    ]
    more = {"axis": axis} if how == "channels" else {}
    return g.fixed("DequantizeLinear", names, **more)


def _blocks(g: RandomGraph, shape: tuple[int, ...], spread: float) -> str:
    size = g.pick(2, 4)
    dims = (-(-shape[0] // size), *shape[1:])
    dtype = g.pick("int8", "uint8")
    zeros = [g.constant(g.rng.integers(3, 12, dims), dtype)] if g.chance(0.5) else []
    value = g.constant(g.rng.integers(0, 16, shape) - (0 if dtype == "uint8" else 8), dtype)
    scale = g.constant(spread / 6 * g.rng.uniform(0.5, 1.5, dims), g.style.real)
    return g.fixed("DequantizeLinear", [value, scale, *zeros], axis=0, block_size=size)


def convolution(g: RandomGraph) -> None:
    x = g.tensor(rank=(3, 4, 4, 5))
    channels, dims = g.shape(x)[1], g.shape(x)[2:]
    group = g.pick(1, 1, channels, *[2] * (channels % 2 == 0))
    made = group * g.pick(1, 2, 3) if group > 1 else g.pick(1, 2, 5)
    kernel = [g.pick(1, 2, 3) for _ in dims]
    more: dict[str, Any] = {"group": group, "strides": [g.pick(1, 1, 2) for _ in dims]}
    how = g.pick("pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
    more |= {"pads": [g.pick(0, 0, 1) for _ in (*dims, *dims)]} if how == "pads" else {"auto_pad": how}
    if how == "pads":
        more["dilations"] = [g.pick(1, 1, 2) for _ in dims]
    names = [x, weight(g, made, channels // group, *kernel), *([g.reals(made, spread=0.3)] if g.chance(0.6) else [])]
    g.op("Conv", names, **more)


def convolution_transposed(g: RandomGraph) -> None:
    x = g.tensor(rank=(3, 4))
    channels, dims = g.shape(x)[1], g.shape(x)[2:]
    group = g.pick(1, 1, channels)
    kernel, strides = [g.pick(1, 2, 3) for _ in dims], [g.pick(1, 2) for _ in dims]
    more = {"group": group, "strides": strides, "dilations": [g.pick(1, 1, 2) for _ in dims]}
    more["output_padding"] = [g.pick(0, s - 1) for s in strides]
    made = g.pick(1, 2)
    names = [x, weight(g, channels, made, *kernel, axis=1 if group == 1 else 0)]
    g.op("ConvTranspose", [*names, *([g.reals(made * group)] if g.chance(0.5) else [])], **more)


def product(g: RandomGraph) -> None:
    x = g.tensor(rank=(2, 3, 4))
    g.op("MatMul", [x, weight(g, g.shape(x)[-1], g.pick(1, 3, 6), axis=1)])


def product_of_two(g: RandomGraph) -> None:
    x = g.tensor(rank=(2, 3, 4))
    other = g.add("Transpose", [x], perm=[*range(len(g.shape(x)) - 2), len(g.shape(x)) - 1, len(g.shape(x)) - 2])[0]
    g.op("MatMul", [x, other])


def product_with_bias(g: RandomGraph) -> None:
    x = g.tensor(rank=2)
    turned, made = g.pick(0, 1), g.pick(1, 4, 5)
    dims = (made, g.shape(x)[1]) if turned else (g.shape(x)[1], made)
    more = {"alpha": g.pick(1.0, 1.0, 0.5), "beta": g.pick(1.0, 1.0, 0.7), "transB": turned}
    g.op("Gemm", [x, weight(g, *dims, axis=1 - turned), *([g.reals(made)] if g.chance(0.6) else [])], **more)


def pool(g: RandomGraph) -> None:
    x = g.tensor(rank=(3, 4, 4, 5))
    dims, kind = g.shape(x)[2:], g.pick("MaxPool", "AveragePool", "AveragePool")
    more: dict[str, Any] = {"kernel_shape": [g.pick(1, 2, 3) for _ in dims], "strides": [g.pick(1, 2) for _ in dims]}
    how = g.pick("pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
    more |= {"pads": [g.pick(0, 0, 1) for _ in (*dims, *dims)]} if how == "pads" else {"auto_pad": how}
    if how == "pads":
        more |= {"dilations": [g.pick(1, 1, 2) for _ in dims], "ceil_mode": g.pick(0, 0, 1)}
    if kind == "AveragePool":
        more["count_include_pad"] = g.pick(0, 1)
    g.op(kind, [x], **more)


def pool_of_all(g: RandomGraph) -> None:
    g.op(g.pick("GlobalAveragePool", "GlobalMaxPool", "GlobalAveragePool"), [g.tensor(rank=(3, 4))])


def of_labels(g: RandomGraph) -> None:
    """Einsum of one or two tensors."""
    a = g.tensor(rank=(2, 3))
    labels = "abc"[: len(g.shape(a))]
    if g.chance(0.3):
        g.op("Einsum", [a], equation=f"{labels}->{''.join(g.rng.permutation(list(labels))[: g.pick(1, 2)])}")
        return
    g.op("Einsum", [a, weight(g, g.shape(a)[-1], 3, axis=1)], equation=f"{labels},{labels[-1]}z->{labels[:-1]}z")


def fused(g: RandomGraph) -> None:
    """Adds a fused operator as onnxruntime's optimizer writes it."""
    kind = g.pick("FusedConv", "FusedGemm", "FusedMatMul", "BiasGelu", "FastGelu", "Skip", "SkipSimplified", "Heads")
    if kind == "FusedConv":
        x = g.tensor(rank=4)
        act = g.pick(
            ("Relu", []), ("LeakyRelu", [0.2]), ("HardSigmoid", [0.3, 0.4]), ("Clip", [-0.3, 0.6]), ("Tanh", [])
        )
        more = {"activation_params": act[1]} if act[1] else {}
        g.op(kind, [x, weight(g, 2, g.shape(x)[1], 2, 1), g.reals(2)], MICROSOFT, activation=act[0], **more)
    elif kind == "FusedGemm":
        x = g.tensor(rank=2)
        g.op(
            kind, [x, weight(g, g.shape(x)[1], 3, axis=1), g.reals(3)], MICROSOFT, activation=g.pick("Relu", "Sigmoid")
        )
    elif kind == "FusedMatMul":
        x = g.tensor(rank=(2, 3))
        g.op(kind, [x, x], MICROSOFT, alpha=0.3, **g.pick({"transA": 1}, {"transB": 1}))
    elif kind in ("BiasGelu", "FastGelu"):
        x = g.tensor(rank=(2, 3))
        g.op(kind, [x, g.reals(g.shape(x)[-1])], MICROSOFT)
    elif kind == "Heads":
        x = g.tensor(rank=3)
        heads = [n for n in (1, 2, 3) if g.shape(x)[2] % n == 0][-1]
        g.op("MultiHeadAttention", [g.add("Tanh", [x])[0], x, x], MICROSOFT, num_heads=heads)
    else:
        x = g.tensor(rank=3)
        parts = [g.reals(g.shape(x)[-1], mean=1.0) for _ in range(2)]
        g.op(f"{kind}LayerNormalization", [x, g.add("Tanh", [x])[0], *parts], MICROSOFT, epsilon=1e-3)


def of_few_bits(g: RandomGraph) -> None:
    """MatMulNBits; its weights are in blocks of 16 along the inner dim."""
    x, bits, made = g.tensor(rank=(2, 3)), g.pick(4, 8), g.pick(2, 5)
    inner = g.shape(x)[-1]
    blocks = -(-inner // 16)
    stored = g.constant(g.rng.integers(0, 256, (made, blocks, 16 * bits // 8)), "uint8")
    scales = g.constant(g.rng.uniform(0.01, 0.05, (made * blocks,)) / (1 if bits == 4 else 16), g.style.real)
    zeros = [g.constant(g.rng.integers(0, 256, (made * -(-blocks * bits // 8),)), "uint8")] if g.chance(0.5) else []
    if g.style.real != "float32":
        raise Unfit
    more = {"K": inner, "N": made, "bits": bits, "block_size": 16, "accuracy_level": g.pick(0, 4)}
    g.op("MatMulNBits", [x, stored, scales, *zeros], MICROSOFT, **more)


KINDS = (
    convolution, convolution, convolution, convolution_transposed, product, product, product_of_two, product_with_bias,
    product_with_bias, pool, pool, pool_of_all, of_labels, fused, fused, of_few_bits,
)  # fmt: skip

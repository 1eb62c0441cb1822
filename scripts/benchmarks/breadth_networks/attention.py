"""Networks with attention: vision, text and mixed ones."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from .builder import Net


def block(net: Net, x: str, tokens: int, width: int, heads: int, bias: str | None = None) -> str:
    """A transformer block with the normalization in front."""
    x = net.op("Add", x, net.attention(net.layer_norm(x, width), tokens, width, heads, bias))
    y = net.gelu(net.linear(net.layer_norm(x, width), (width, 2 * width)))
    return net.op("Add", x, net.linear(y, (2 * width, width)))


def vit() -> onnx.ModelProto:
    """Patches, a class token, LayerNormalization, Softmax, GELU with Erf."""
    net = Net("vit", opset=17)
    x = net.conv(net.input("pixel_values", [1, 3, 32, 32]), (3, 32), 8, 8, pads=[0] * 4)
    x = net.transpose(net.reshape_like_batch(x, 32, 16), 0, 2, 1)
    x = net.op("Concat", net.normal(1, 1, 32, std=0.5), x, axis=1)
    x = net.op("Add", x, net.normal(1, 17, 32, std=0.5))
    for _ in range(2):
        x = block(net, x, 17, 32, 4)
    x = net.op("Gather", net.layer_norm(x, 32), net.const(0, np.int64), axis=1)
    return net.finish(logits=net.gemm(x, (32, 10)))


def hybrid() -> onnx.ModelProto:
    """MobileViT: convolutions, unfolded patches, attention with a decomposed normalization, folded back."""
    net = Net("hybrid", opset=17)
    x = net.swish(net.conv_bn(net.input("image", [1, 3, 32, 32]), (3, 16), 3, 2))
    x = local = net.swish(net.conv_bn(x, (16, 24), 3, 2))
    x = net.transpose(net.reshape(x, 1, 24, 64), 0, 2, 1)
    for _ in range(2):
        centred = net.op("Sub", x, net.op("ReduceMean", x, axes=[-1], keepdims=1))
        variance = net.op("ReduceMean", net.op("Pow", centred, net.const(2.0)), axes=[-1], keepdims=1)
        y = net.op("Div", centred, net.op("Sqrt", net.op("Add", variance, net.const(1e-5))))
        y = net.op("Add", net.op("Mul", y, net.normal(24, std=0.1, mean=1.0)), net.normal(24, std=0.1))
        x = net.op("Add", x, net.attention(y, 64, 24, 4))
        x = net.op("Add", x, net.linear(net.swish(net.linear(x, (24, 48))), (48, 24)))
    x = net.reshape(net.transpose(x, 0, 2, 1), 1, 24, 8, 8)
    x = net.swish(net.conv(net.op("Concat", local, x, axis=1), (48, 32)))
    return net.finish(logits=net.gemm(net.op("Flatten", net.op("GlobalAveragePool", x)), (32, 10)))


def swin() -> onnx.ModelProto:
    """Shifted windows: roll by Slice and Concat, partition by Reshape, a table of relative positions, patch merging."""
    net = Net("swin", opset=17)
    x = net.conv(net.input("image", [1, 3, 32, 32]), (3, 24), 4, 4, pads=[0] * 4)
    x = net.layer_norm(net.reshape(net.transpose(x, 0, 2, 3, 1), 1, 64, 24), 24)
    offsets = net.rng.integers(0, 49, (16, 16))
    for shifted in (False, True):
        grid = net.reshape(net.layer_norm(x, 24), 1, 8, 8, 24)
        for axis in (1, 2) if shifted else ():
            grid = net.op("Concat", net.slice(grid, 2, 2**31, axis), net.slice(grid, 0, 2, axis), axis=axis)
        windows = net.transpose(net.reshape(grid, 1, 2, 4, 2, 4, 24), 0, 1, 3, 2, 4, 5)
        qkv = net.linear(net.reshape(windows, 4, 16, 24), (24, 72))
        qkv = net.transpose(net.reshape(qkv, 4, 16, 3, 2, 12), 2, 0, 3, 1, 4)
        query, key, value = [net.op("Gather", qkv, net.const(i, np.int64), axis=0) for i in range(3)]
        query = net.op("Mul", query, net.const(12**-0.5))
        table = net.reshape(net.op("Gather", net.normal(49, 2, std=0.3), net.const(offsets, np.int64)), 1, 16, 16, 2)
        scores = net.op(
            "Add", net.op("MatMul", query, net.transpose(key, 0, 1, 3, 2)), net.transpose(table, 0, 3, 1, 2)
        )
        mixed = net.transpose(net.op("MatMul", net.op("Softmax", scores, axis=-1), value), 0, 2, 1, 3)
        mixed = net.linear(net.reshape(mixed, 1, 2, 2, 4, 4, 24), (24, 24))
        grid = net.reshape(net.transpose(mixed, 0, 1, 3, 2, 4, 5), 1, 8, 8, 24)
        for axis in (1, 2) if shifted else ():
            grid = net.op("Concat", net.slice(grid, 6, 2**31, axis), net.slice(grid, 0, 6, axis), axis=axis)
        x = net.op("Add", x, net.reshape(grid, 1, 64, 24))
        x = net.op("Add", x, net.linear(net.gelu(net.linear(net.layer_norm(x, 24), (24, 48))), (48, 24)))
    grid = net.reshape(x, 1, 8, 8, 24)
    parts = [net.slice(net.slice(grid, a, 2**31, 1, 2), b, 2**31, 2, 2) for b in (0, 1) for a in (0, 1)]
    x = net.linear(net.layer_norm(net.op("Concat", *parts, axis=-1), 96), (96, 32), bias=False)
    return net.finish(logits=net.gemm(net.op("ReduceMean", x, axes=[1, 2], keepdims=0), (32, 10)))


def text_encoder() -> onnx.ModelProto:
    """BERT: ids gathered at run time, an attention mask turned into large negative scores, a pooled Tanh."""
    net = Net("text_encoder", opset=17)
    ids = net.input("input_ids", [1, 16], TensorProto.INT64)
    mask = net.input("attention_mask", [1, 16], TensorProto.INT64)
    x = net.op("Gather", net.normal(200, 32, std=0.5), ids, axis=0)
    x = net.layer_norm(net.op("Add", x, net.normal(1, 16, 32, std=0.5)), 32)
    kept = net.op("Cast", net.op("Unsqueeze", mask, net.ints(1, 2)), to=TensorProto.FLOAT)
    bias = net.op("Mul", net.op("Sub", net.const(1.0), kept), net.const(-10000.0))
    for _ in range(2):
        x = net.layer_norm(net.op("Add", net.attention(x, 16, 32, 4, bias), x), 32)
        y = net.linear(net.gelu(net.linear(x, (32, 64))), (64, 32))
        x = net.layer_norm(net.op("Add", y, x), 32)
    pooled = net.op("Tanh", net.gemm(net.op("Gather", x, net.const(0, np.int64), axis=1), (32, 32)))
    return net.finish(last_hidden_state=x, pooler_output=pooled)


def text_decoder() -> onnx.ModelProto:
    """A language model's step: RMS normalization, rotary positions by Gather, a key-value cache, SwiGLU, TopK."""
    net = Net("text_decoder", opset=21)
    ids = net.input("input_ids", [1, 4], TensorProto.INT64)
    positions = net.input("position_ids", [1, 4], TensorProto.INT64)
    past_key, past_value = net.input("past_key", [1, 4, 12, 8]), net.input("past_value", [1, 4, 12, 8])
    x = net.op("Gather", net.normal(128, 32), ids, axis=0)
    angles = np.outer(np.arange(64), 100.0 ** (-np.arange(4) / 4))
    angles = np.concatenate([angles, angles], 1)
    cosine, sine = [net.op("Unsqueeze", net.op("Gather", net.const(f(angles)), positions), net.ints(1))
                    for f in (np.cos, np.sin)]  # fmt: skip

    def rms_norm(name: str) -> str:
        mean = net.op("ReduceMean", net.op("Mul", name, name), net.ints(-1), keepdims=1)
        root = net.op("Reciprocal", net.op("Sqrt", net.op("Add", mean, net.const(1e-6))))
        return net.op("Mul", net.op("Mul", name, root), net.normal(32, std=0.1, mean=1.0))

    def heads(name: str) -> str:
        return net.transpose(net.reshape(net.linear(name, (32, 32), bias=False), 1, 4, 4, 8), 0, 2, 1, 3)

    def rotate(name: str) -> str:
        low, high = net.slice(name, 0, 4, 3), net.slice(name, 4, 2**31, 3)
        turned = net.op("Concat", net.op("Neg", high), low, axis=-1)
        return net.op("Add", net.op("Mul", name, cosine), net.op("Mul", turned, sine))

    y = rms_norm(x)
    query, key, value = rotate(heads(y)), rotate(heads(y)), heads(y)
    key = net.op("Concat", past_key, key, axis=2)
    value = net.op("Concat", past_value, value, axis=2)
    scores = net.op("Mul", net.op("MatMul", query, net.transpose(key, 0, 1, 3, 2)), net.const(8**-0.5))
    steps = net.op("Unsqueeze", net.op("Range", *[net.const(v, np.int64) for v in (0, 16, 1)]), net.ints(0, 1))
    allowed = net.op("LessOrEqual", steps, net.op("Unsqueeze", positions, net.ints(2)))
    scores = net.op("Where", net.op("Unsqueeze", allowed, net.ints(1)), scores, net.const(-60.0))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
    x = net.op("Add", x, net.linear(net.reshape(net.transpose(mixed, 0, 2, 1, 3), 1, 4, 32), (32, 32), bias=False))
    y = rms_norm(x)
    gate = net.op("Mul", net.swish(net.linear(y, (32, 64), bias=False)), net.linear(y, (32, 64), bias=False))
    x = rms_norm(net.op("Add", x, net.linear(gate, (64, 32), bias=False)))
    logits = net.linear(x, (32, 128), bias=False)
    values, indices = net.ops("TopK", 2, logits, net.ints(5), axis=-1)
    return net.finish(logits=logits, top_values=values, top_ids=indices, present_key=key, present_value=value)


def mlp_mixer() -> onnx.ModelProto:
    """Dense layers across tokens and across channels, with Transposes between."""
    net = Net("mlp_mixer", opset=20)
    x = net.conv(net.input("image", [1, 3, 32, 32]), (3, 32), 8, 8, pads=[0] * 4)
    x = net.transpose(net.reshape(x, 1, 32, 16), 0, 2, 1)
    for _ in range(2):
        y = net.transpose(net.layer_norm(x, 32), 0, 2, 1)
        y = net.linear(net.op("Gelu", net.linear(y, (16, 24)), approximate="tanh"), (24, 16))
        x = net.op("Add", x, net.transpose(y, 0, 2, 1))
        y = net.linear(net.layer_norm(x, 32), (32, 64))
        x = net.op("Add", x, net.linear(net.op("Gelu", y, approximate="tanh"), (64, 32)))
    return net.finish(logits=net.gemm(net.op("ReduceMean", net.layer_norm(x, 32), net.ints(1), keepdims=0), (32, 10)))

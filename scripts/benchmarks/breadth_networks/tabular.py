"""Networks over tables, pairs and lists, and unusual heads."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from .builder import Net


def recommender() -> onnx.ModelProto:
    """Embeddings of ids, dense features, pairwise products, a Gemm tower, the probability of a click."""
    net = Net("recommender", opset=17)
    dense = net.input("dense", [4, 13])
    ids = net.input("ids", [4, 3], TensorProto.INT64)
    bottom = net.op("Relu", net.gemm(net.op("Relu", net.gemm(dense, (13, 32))), (32, 16)))
    rows = [net.op("Unsqueeze", bottom, net.ints(1))]
    for column in range(3):
        picked = net.op("Gather", ids, net.const([column], np.int64), axis=1)
        rows.append(net.op("Gather", net.normal(100, 16, std=0.7), picked, axis=0))
    stacked = net.op("Concat", *rows, axis=1)
    products = net.op("MatMul", stacked, net.transpose(stacked, 0, 2, 1))
    pairs = np.array([[i, j] for i in range(4) for j in range(i)])
    flat = net.reshape(products, 4, 16)
    chosen = net.op("Gather", flat, net.const(pairs[:, 0] * 4 + pairs[:, 1], np.int64), axis=1)
    x = net.op("Relu", net.gemm(net.op("Concat", bottom, chosen, axis=1), (22, 32)))
    return net.finish(click=net.op("Sigmoid", net.gemm(x, (32, 1))))


def siamese() -> onnx.ModelProto:
    """Two pictures through the same weights, descriptors of unit length, their similarity and the best match."""
    net = Net("siamese", opset=18)
    images = [net.input(name, [1, 1, 32, 32]) for name in ("left", "right")]
    both = net.op("Concat", *images, axis=0)
    x = net.op("Relu", net.conv_bn(both, (1, 12), 3, 2))
    x = net.op("Relu", net.conv_bn(x, (12, 24), 3, 2))
    x = net.conv(x, (24, 16), 3, 2)
    length = net.op("ReduceL2", x, net.ints(1), keepdims=1)
    floor = net.op("Max", length, net.const(1e-6))
    x = net.reshape(net.op("Div", x, floor), 2, 16, 16)
    left, right = [net.op("Squeeze", part, net.ints(0)) for part in net.ops("Split", 2, x, net.ints(1, 1), axis=0)]
    similarity = net.op("MatMul", net.transpose(left, 1, 0), right)
    scores = net.op("Exp", net.op("Mul", similarity, net.const(2.0)))
    shares = net.op("Div", scores, net.op("ReduceSum", scores, net.ints(1), keepdims=1))
    return net.finish(similarity=shares, match=net.op("ArgMax", similarity, axis=1, keepdims=0))


def odd_heads() -> onnx.ModelProto:
    """Einsum, ReduceMean, ReduceMax, TopK, ArgMax, OneHot, CumSum, GatherElements and Where as heads of one trunk."""
    net = Net("odd_heads", opset=17)
    x = net.op("Relu", net.conv_bn(net.input("image", [1, 3, 24, 24]), (3, 16), 3, 2))
    x = net.op("Relu", net.conv_bn(x, (16, 24), 3, 2))
    tokens = net.transpose(net.reshape(x, 1, 24, 36), 0, 2, 1)
    scores = net.op("Einsum", tokens, net.normal(5, 24, std=0.2), equation="btc,kc->bkt")
    mean = net.op("ReduceMean", scores, axes=[2], keepdims=0)
    peak = net.op("ReduceMax", scores, axes=[2], keepdims=0)
    values, places = net.ops("TopK", 2, mean, net.ints(3), axis=1)
    taken = net.op("GatherElements", peak, places, axis=1)
    winner = net.op("ArgMax", mean, axis=1, keepdims=0)
    marks = net.op("OneHot", winner, net.const(5, np.int64), net.const([0.0, 1.0]), axis=-1)
    running = net.op("CumSum", net.op("Softmax", mean, axis=1), net.const(1, np.int64))
    chosen = net.op("Where", net.op("Greater", mean, net.const(0.0)), running, marks)
    return net.finish(values=values, places=places, taken=taken, winner=winner, chosen=chosen)


def point_cloud() -> onnx.ModelProto:
    """PointNet: the same dense layers for each point, a transform from the points, the maximum over all points."""
    net = Net("point_cloud", opset=17)
    points = net.input("points", [1, 64, 3])
    x = net.op("Relu", net.linear(net.op("Relu", net.linear(points, (3, 16))), (16, 24)))
    pooled = net.op("ReduceMax", x, axes=[1], keepdims=0)
    matrix = net.op("Add", net.reshape(net.gemm(pooled, (24, 9)), 1, 3, 3), net.const(np.eye(3)))
    x = net.op("Relu", net.linear(net.op("MatMul", points, matrix), (3, 24)))
    x = net.op("Mul", net.op("Tanh", x), net.op("Sqrt", net.op("Abs", x)))
    spread = net.op("ReduceMax", net.linear(x, (24, 32)), axes=[1], keepdims=1)
    everywhere = net.op("Expand", spread, net.ints(1, 64, 32))
    return net.finish(parts=net.linear(net.op("Concat", x, everywhere, axis=2), (56, 6)))

"""Models of which a part is computed on the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.model_bin.graph import Graph

from tests.ops.qdq import Qdq

SHAPE, MICROSOFT = (1, 3, 6, 6), "com.microsoft"


def conv(m: Qdq, x: str, channels: int, made: int) -> str:
    w = m.weight((made, channels, 3, 3), axis=0)
    return m.quantize(m.op("Conv", [x, w, m.bias(x, w, made)], pads=[1, 1, 1, 1]))


def grid_sample(m: Qdq, x: str) -> str:
    value = np.random.default_rng(0).uniform(-1, 1, (1, 6, 6, 2)).astype(np.float32)
    return m.op("GridSample", [x, m.constant("grid", value)], align_corners=1, mode="cubic")


def between(m: Qdq) -> None:
    """Conv, an operator without a page, Conv."""
    m.output(conv(m, m.quantize(grid_sample(m, conv(m, m.input(SHAPE), 3, 3))), 3, 4))


def branches(m: Qdq) -> None:
    """An If whose graphs read a tensor of the board from outside; both of its branches are taken by other inputs."""
    x = conv(m, m.input(SHAPE), 3, 3)
    made = helper.make_tensor_value_info("one", TensorProto.FLOAT, SHAPE)
    graphs = [helper.make_graph([helper.make_node(k, [x], ["one"])], k, [], [made]) for k in ("Sigmoid", "Neg")]
    high = m.op("Greater", [m.op("ReduceSum", [x], keepdims=0), m.constant("zero", np.float32(0))])
    y = m.op("If", [high], then_branch=graphs[0], else_branch=graphs[1])
    m.output(conv(m, m.quantize(y), 3, 2))


def loop(m: Qdq) -> None:
    """A Loop whose number of steps depends on values. Behind it no shape is inferred; the Conv there is verified all the
    same."""
    x, info = conv(m, m.input(SHAPE), 3, 3), helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["v2"]), helper.make_node("Identity", ["c"], ["c2"])],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, SHAPE)],
        [info("c2", TensorProto.BOOL, []), info("v2", TensorProto.FLOAT, SHAPE)],
    )
    low = m.op("Less", [m.op("ReduceSum", [x], keepdims=0), m.constant("high", np.float32(1e9))])
    trips = m.op("Add", [m.op("Cast", [low], to=TensorProto.INT64), m.constant("two", np.array(2, np.int64))])
    ends = [trips, m.constant("on", np.array(True))]
    m.output(conv(m, m.quantize(m.op("Loop", [*ends, x], body=body)), 3, 2))


def sequence(m: Qdq) -> None:
    """A sequence of which values choose one element."""
    x = conv(m, m.input(SHAPE), 3, 4)
    parts = m.op("SplitToSequence", [x], axis=1)
    high = m.op("Greater", [m.op("ReduceSum", [x], keepdims=0), m.constant("zero", np.float32(0))])
    chosen = m.op("SequenceAt", [parts, m.op("Cast", [high], to=TensorProto.INT64)])
    m.output(conv(m, m.quantize(chosen), 1, 2))


def tail(m: Qdq) -> None:
    """The shape of the last output is known only when the model runs."""
    x = conv(m, m.input(SHAPE), 3, 4)
    m.output(conv(m, x, 4, 2))
    m.output(m.op("Cast", [m.op("NonZero", [x])], to=TensorProto.FLOAT))


def rounds(m: Qdq) -> None:
    """Host, board, host: the second island reads both."""
    first = grid_sample(m, conv(m, m.input(SHAPE), 3, 3))
    second = conv(m, m.quantize(first), 3, 3)
    m.output(
        conv(m, m.quantize(m.op("Inverse", [m.op("Add", [second, grid_sample(m, first)])], domain=MICROSOFT)), 3, 2)
    )


def crossed(m: Qdq) -> None:
    """An island that reads another one, of which the last node comes later; that one is listed behind it."""
    first = grid_sample(m, conv(m, m.input(SHAPE), 3, 3))
    grid = m.op("Transpose", [conv(m, m.quantize(first), 3, 2)], perm=[0, 2, 3, 1])
    m.output(conv(m, m.quantize(m.op("GridSample", [first, grid], align_corners=1, mode="cubic")), 3, 2))
    m.output(conv(m, m.quantize(grid_sample(m, first)), 3, 2))


def model(build: Callable[[Qdq], None]) -> onnx.ModelProto:
    m = Qdq(seed=5, opset=20)
    build(m)
    return m.model()


def compiled(build: Callable[[Qdq], None] = between) -> Graph:
    return compile_model(model(build).SerializeToString(), "q.onnx", CompilerOptions(host=True)).graph

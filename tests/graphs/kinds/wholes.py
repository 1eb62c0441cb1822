"""Whole numbers and logic: indices, arithmetic, comparisons, counts."""

from __future__ import annotations

from onnx import TensorProto

from tests.graphs.random_graph import INTEGERS, RandomGraph

CASTS = {t: getattr(TensorProto, t.upper()) for t in ("int64", "int32", "uint8", "int8", "bool")}


def index_of_extremes(g: RandomGraph) -> None:
    x = g.tensor(rank=(1, 2, 3, 4)) if g.chance(0.8) else g.tensor(*INTEGERS, rank=(1, 2, 3))
    more = {"axis": g.axis(x), "keepdims": g.pick(0, 1), "select_last_index": g.pick(0, 1)}
    g.add(g.pick("ArgMax", "ArgMin"), [x], **more)


def largest(g: RandomGraph) -> None:
    x = g.tensor(rank=(1, 2, 3))
    axis = g.axis(x)
    g.add("TopK", [x, g.whole(g.below(g.shape(x)[axis] + 1, 1))], 2, axis=axis, largest=g.pick(0, 1), sorted=1)


def from_floats(g: RandomGraph) -> None:
    """Whole numbers of a float tensor; within the range of the type, as what lies outside has no meaning."""
    x, dtype = g.tensor(), g.pick("int64", "int32", "uint8", "int8", "bool")
    near = g.add("Clip", [x, g.constant(0.0, g.style.real), g.constant(100.0, g.style.real)])[0]
    g.add("Cast", [g.add("Mul", [near, g.constant(g.pick(1.0, 1.25), g.style.real)])[0]], to=CASTS[dtype])


def to_floats(g: RandomGraph) -> None:
    name = g.tensor(*INTEGERS, "bool")
    made = g.add("Cast", [name], to=TensorProto.FLOAT if g.style.real == "float32" else TensorProto.FLOAT16)[0]
    g.quantize(made, g.style.activations)


def arithmetic(g: RandomGraph) -> None:
    x = g.tensor(*INTEGERS)
    dtype, dims = str(g.values[x].dtype), g.shape(x)
    other = g.pick(g.constant(g.rng.integers(1, 9, dims[-1:]), dtype), x)
    kind = g.pick("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Neg", "Abs", "Sign", "Clip")
    if kind in ("Neg", "Abs", "Sign"):
        g.add(kind, [x])
    elif kind == "Clip":
        g.add(kind, [x, g.constant(1, dtype), g.constant(7, dtype)])
    elif kind in ("Div", "Mod"):
        by = g.constant(g.rng.integers(2, 9, dims[-1:]) * g.pick(1, 1, -1), dtype) if dtype != "uint8" else ""
        if not by or g.chance(0.4):  # computed, and never 0
            by = g.add("Max", [g.tensor(dtype), g.constant(1, dtype)])[0]
        g.add(kind, [x, by])
    else:
        g.add(kind, [x, other])


def of_bits(g: RandomGraph) -> None:
    x = g.tensor(*INTEGERS)
    kind = g.pick("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
    more = [g.constant(g.rng.integers(0, 90, g.shape(x)[-1:]), str(g.values[x].dtype))]
    g.add(kind, [x, *more] if kind != "BitwiseNot" else [x])


def comparison(g: RandomGraph) -> None:
    x = g.tensor(g.style.real, "int64", "int32")
    dtype = str(g.values[x].dtype)
    other = g.constant(g.rng.integers(-2, 5, g.shape(x)[-1:]), dtype)
    g.add(g.pick("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"), [x, other])


def logic(g: RandomGraph) -> None:
    a, kind = g.tensor("bool"), g.pick("And", "Or", "Xor", "Not")
    g.add(kind, [a] if kind == "Not" else [a, g.pick(a, g.tensor("bool"))])


def classes(g: RandomGraph) -> None:
    g.add(g.pick("IsNaN", "IsInf"), [g.tensor()])


def sums(g: RandomGraph) -> None:
    x = g.tensor("int64", "int32") if g.chance(0.7) else g.tensor(rank=(1, 2, 3))
    kind = g.pick("CumSum", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
    if kind == "CumSum":
        more = {"exclusive": g.pick(0, 1), "reverse": g.pick(0, 1)}
        g.add(kind, [x, g.constant(g.axis(x) if g.shape(x) else 0, "int64")], **more)
    elif g.shape(x):
        g.add(kind, [x, g.whole(*g.axes(x))], keepdims=g.pick(0, 1))


def hot(g: RandomGraph) -> None:
    x = g.tensor("int64", "int32", rank=(1, 2))
    values = g.constant(g.pick([0, 1], [0.5, 2.0]), g.pick("int64", "float32"))
    g.add("OneHot", [x, g.constant(g.pick(3, 7), "int64"), values], axis=g.pick(-1, 0, 1))


def suppressed(g: RandomGraph) -> None:
    """Boxes of corners from a tensor's own values."""
    x = g.tensor(rank=(2, 3))
    if g.style.real != "float32":
        return
    boxes = g.add("Reshape", [g.add("Slice", [g.add("Flatten", [x], axis=0)[0], g.whole(0), g.whole(12), g.whole(1)])[0], g.whole(1, 3, 4)])[0]  # fmt: skip
    scores = g.add("ReduceMax", [boxes, g.whole(2)], keepdims=0)[0]
    scores = g.add("Unsqueeze", [scores, g.whole(1)])[0]
    ends = [g.whole(g.pick(1, 2)), g.constant([0.3], "float32"), g.constant([-0.5], "float32")]
    g.add("NonMaxSuppression", [boxes, scores, *ends[: g.pick(1, 2, 3)]], center_point_box=g.pick(0, 1))


KINDS = (
    index_of_extremes, largest, largest, from_floats, from_floats, to_floats, arithmetic, arithmetic, arithmetic, of_bits,
    comparison, comparison, logic, classes, sums, sums, hot, suppressed,
)  # fmt: skip

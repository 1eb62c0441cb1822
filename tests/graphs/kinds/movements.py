"""What copies, selects, repeats or places elements, and what resizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.graphs.random_graph import INTEGERS, RandomGraph


def anything(g: RandomGraph, *ranks: int) -> str:
    """A float tensor, at times another one."""
    return g.tensor(rank=ranks) if g.chance(0.75) else g.tensor("float32", *INTEGERS, "bool", rank=ranks)


def other_shape(g: RandomGraph) -> None:
    x = anything(g, 2, 3, 4)
    dims = g.shape(x)
    kind = g.pick("Reshape", "Flatten", "Unsqueeze", "Transpose", "Transpose")
    if kind == "Reshape":
        g.op(kind, [x, g.whole(*g.pick((dims[0], -1), (0, 0, -1), (-1,), (*dims[1:], dims[0]), (1, *dims)))])
    elif kind == "Flatten":
        g.op(kind, [x], axis=g.axis(x))
    elif kind == "Unsqueeze":
        g.op(kind, [x, g.whole(g.pick(0, -1, 1))])
    else:
        g.op(kind, [x], perm=g.rng.permutation(len(dims)).tolist())


def part(g: RandomGraph) -> None:
    x = anything(g, 1, 2, 3, 4)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    start, end, step = g.below(size), g.pick(size, -1, 1 << 40), g.pick(1, 1, 2)
    if g.chance(0.3):
        start, end, step = -1, -1 - size, -1
    g.op("Slice", [x, g.whole(start), g.whole(end), g.whole(axis), g.whole(step)])


def parts(g: RandomGraph) -> None:
    x = anything(g, 1, 2, 3, 4)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    first = g.below(size, 1)
    g.add("Split", [x, g.whole(first, size - first)], 2, axis=axis)


def together(g: RandomGraph) -> None:
    x = anything(g, 1, 2, 3, 4)
    other = g.op("Relu", [x]) if g.values[x].dtype == g.style.real and g.chance(0.5) else x
    g.op("Concat", [x, other, x][: g.pick(2, 3)], axis=g.axis(x))


def picked(g: RandomGraph) -> None:
    """Adds a Gather with constant or computed indices."""
    x = anything(g, 1, 2, 3)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    if g.chance(0.5):
        shape = g.pick((), (3,), (2, 2))
        names = [x, g.constant(g.rng.integers(-size, size, shape), g.pick("int64", "int32"))]
    else:
        names = [x, g.add("ArgMax", [x], axis=axis, keepdims=g.pick(0, 1))[0]]
    g.op("Gather", names, axis=axis)


def picked_one_by_one(g: RandomGraph) -> None:
    x = anything(g, 1, 2, 3)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    kind = g.pick("GatherElements", "GatherND", "ScatterElements", "ScatterND")
    if kind.endswith("ND"):
        shape = g.pick((3, 1), (2, 2, 1))
        names = [x, g.constant(g.rng.permutation(g.shape(x)[0])[: 1 << 20].reshape(-1, 1), "int64")]
        if kind == "GatherND":
            g.op(kind, [x, g.constant(g.rng.integers(0, g.shape(x)[0], shape), "int64")])
        else:
            g.op(kind, [*names, x], reduction=g.pick("none", "add", "mul", "max", "min"))
        return
    where = g.rng.permuted(np.broadcast_to(np.arange(size), (*g.rng.integers(1, 4, 1), size)), axis=1)
    shape = list(g.shape(x))
    at = axis % len(shape)
    index = np.moveaxis(np.broadcast_to(where[0], [*shape[:at], *shape[at + 1 :], size]), -1, at)
    names = [x, g.constant(index - size * (g.rng.random(index.shape) < 0.3), "int64")]
    if kind == "GatherElements":
        g.op(kind, names, axis=axis)
    else:
        g.op(kind, [*names, x], axis=axis, reduction=g.pick("none", "add", "mul", "max", "min"))


def padded(g: RandomGraph) -> None:
    x = anything(g, 1, 2, 3, 4)
    mode = g.pick("constant", "constant", "edge", "reflect")
    rank = len(g.shape(x))
    names = [x, g.whole(*[g.pick(0, 0, 1, 2) for _ in range(2 * rank)])]
    if mode == "constant" and g.chance(0.6):
        names.append(g.constant(g.pick(0, 1), str(g.values[x].dtype)))
    g.op("Pad", names, mode=mode)


def repeated(g: RandomGraph) -> None:
    x = anything(g, 1, 2, 3)
    dims = g.shape(x)
    if g.chance(0.5):
        g.op("Tile", [x, g.whole(*[g.pick(1, 1, 2) for _ in dims])])
    else:
        g.op("Expand", [x, g.whole(*g.pick((2, *dims), dims, [3 if d == 1 else d for d in dims]))])


def squares(g: RandomGraph) -> None:
    x = anything(g, 4)
    block = g.pick(1, 2)
    if g.chance(0.5):
        g.op("SpaceToDepth", [x], blocksize=block)
    else:
        g.op("DepthToSpace", [x], blocksize=block, mode=g.pick("DCR", "CRD"))


def triangle(g: RandomGraph) -> None:
    more = [g.constant(g.pick(-1, 0, 2), "int64")] if g.chance(0.6) else []
    g.op("Trilu", [anything(g, 2, 3), *more], upper=g.pick(0, 1))


def resized(g: RandomGraph) -> None:
    x = g.tensor(rank=(3, 4, 4, 5))
    dims = g.shape(x)
    mode = g.pick("nearest", "nearest", "linear", "linear", "cubic")
    how: dict[str, Any] = {"mode": mode}
    how["coordinate_transformation_mode"] = g.pick(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
    )
    if mode == "nearest":
        how["nearest_mode"] = g.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    else:
        how["antialias"] = g.pick(0, 0, 1)
    if mode == "cubic":
        how |= {"cubic_coeff_a": g.pick(-0.75, -0.5), "exclude_outside": g.pick(0, 1)}
    last = len(dims) - 2 if mode != "cubic" else 2
    if g.chance(0.5):
        sizes = [*dims[:-last], *(max(1, d + g.below(4, -2)) for d in dims[-last:])]
        names = [x, "", "", g.whole(*sizes)]
    else:
        scales = [1.0] * (len(dims) - last) + [g.pick(2.0, 1.5, 0.7, 1.0, 3.0) for _ in range(last)]
        names = [x, "", g.constant(scales, "float32")]
    g.op("Resize", names, **how)


def chosen(g: RandomGraph) -> None:
    """Where, by a comparison of its own operand."""
    x = g.tensor(rank=(1, 2, 3, 4))
    mask = g.add(g.pick("Less", "Greater", "GreaterOrEqual"), [x, g.reals(1)])[0]
    g.op("Where", [mask, x, g.reals(*g.shape(x)[-1:])])


KINDS = (
    other_shape, other_shape, part, parts, together, together, picked, picked, picked_one_by_one, picked_one_by_one, padded,
    padded, repeated, squares, triangle, resized, resized, chosen,
)  # fmt: skip

"""Rules by op: which dims of a unit's tensors have the same size, which are fixed, and which follow from others. They
are needed to run the same op in another shape."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from qverify import ops
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit
from qverify.triage.probe_axes_of_copies import COPIES
from qverify.triage.probe_axis_classes import Axes, Key, NoProbe, Sizes

POOLS = ("average_pool", "max_pool", "average_pool_float")
TRANSPOSED = ("conv_transpose", "conv_transpose_float")
WINDOWED = ("conv", "conv_float", "conv_integer", *TRANSPOSED, *POOLS)
PRODUCTS = ("fully_connected", "matmul", "matmul_float", "matmul_integer", "matmul_integer_scaled")
ROWS = ("softmax", "softmax_float", "log_softmax", "lp_norm")  # whose words are the sizes before, of and after a row
LAYER_NORMS = ("layer_norm", "rms_norm")
OPERANDS = {  # number of inputs with the output's dims, aligned at the last one
    "add": 2,
    "mul": 2,
    "mod": 2,
    "where": 3,
    "elementwise_float": 2,
    "quantize": 1,
    "dequantize": 1,
    "lookup": 1,
    "lrn": 1,
    "softmax": 1,
    "softmax_float": 1,
    "log_softmax": 1,
    "lp_norm": 1,
    "layer_norm": 1,
    "rms_norm": 1,
    "batch_norm": 1,
    "normalize": 1,
    "variadic_float": 64,
    "elementwise_integer": 2,
    "cast": 1,
    "half_float": 1,
    "cum_sum": 1,
    "trilu": 1,
}


def axes_of(graph: Graph, unit: Unit) -> Axes:
    """Returns the axes of a unit's tensors. Raises NoProbe for an op that has no rule here."""
    axes = Axes(graph)
    for node in unit.nodes:
        rule = RULES.get(node.op)
        if rule is None:
            raise NoProbe(f"{node.op} is not run in other shapes")
        rule(axes, node)
    for node in unit.nodes:
        for name in (*node.inputs, *node.outputs):
            spec = graph.tensors.get(name or "")
            if spec is not None and len(spec.scale) > 1 and spec.name not in graph.constants:
                axes.fixed.add((spec.name, spec.channel_axis))
    return axes


def _elementwise(axes: Axes, node: Node) -> None:
    y = node.outputs[0]
    shape = axes.shape(y)
    for name in node.inputs[: OPERANDS[node.op]]:
        if name is not None:
            operand = axes.shape(name)
            for back in range(1, len(operand) + 1):
                if operand[-back] == shape[-back]:
                    axes.join((name, len(operand) - back), (y, len(shape) - back))
    if node.op in ("batch_norm", "normalize"):
        axes.channels.add((y, 1))
        if node.op == "normalize":
            axes.fixed.add((y, 1))
        for name in node.inputs[1:]:
            if name is not None and axes.shape(name) == (shape[1],):
                axes.join((name, 0), (y, 1))
            else:
                axes.fixed.add((y, 1))
    if node.op in LAYER_NORMS:
        for name in node.inputs[1:]:
            parameter = axes.shape(name) if name is not None else ()
            for back in range(1, len(parameter) + 1):
                axes.join((name or "", len(parameter) - back), (y, len(shape) - back))
    if node.op == "lrn":
        axes.channels.add((y, 1))


def _window(axes: Axes, node: Node) -> None:
    x, y, words = node.inputs[0] or "", node.outputs[0], ops.words(node)
    rank = len(axes.shape(x))
    axes.join((x, 0), (y, 0))
    sides = (("h", "top", "bottom"), ("w", "left", "right"))[-(rank - 2) :]
    for axis, (side, before, after) in enumerate(sides, 2):
        span = (words[f"kernel_{side}"] - 1) * words.get(f"dilation_{side}", 1) + 1
        step, pads = words[f"stride_{side}"], words[f"pad_{before}"] + words[f"pad_{after}"]
        axes.spatial.add((x, axis))
        if node.op in TRANSPOSED:
            more = axes.shape(y)[axis] - ((axes.shape(x)[axis] - 1) * step + span - pads)
            axes.derive((y, axis), lambda s, k=(x, axis), m=span - pads + more, t=step: (s[k] - 1) * t + m)  # type: ignore[misc]
        else:
            more = axes.shape(y)[axis] - ((axes.shape(x)[axis] + pads - span) // step + 1)
            axes.derive((y, axis), lambda s, k=(x, axis), m=pads - span, t=step, e=more: (s[k] + m) // t + 1 + e)  # type: ignore[misc]
    if node.op in POOLS:
        axes.join((x, 1), (y, 1))
        axes.channels.add((x, 1))
        return
    _weights(axes, node, words["group"])


def _weights(axes: Axes, node: Node, group: int) -> None:
    x, y, w = node.inputs[0] or "", node.outputs[0], node.inputs[1] or ""
    shape, out = axes.shape(w), axes.shape(y)[1]
    axes.fixed |= {(w, i) for i in range(2, len(shape))}  # weights may be computed
    out_axis, in_axis = (1, 0) if node.op in TRANSPOSED else (0, 1)
    depthwise = node.op not in TRANSPOSED and group == shape[0] == axes.shape(x)[1] and shape[1] == 1
    if group == 1:
        axes.join((w, in_axis), (x, 1))
        axes.join((w, out_axis), (y, 1))
    elif depthwise:
        axes.join((w, 0), (x, 1))
        axes.join((w, 0), (y, 1))
    else:
        axes.fixed |= {(x, 1), (y, 1)}
        return
    axes.channels |= {(x, 1), (y, 1)}
    _per_channel(axes, node, (y, 1), out)


def _per_channel(axes: Axes, node: Node, channel: Key, size: int) -> None:
    """Joins the axes of bias and scales with that of the output's channels."""
    for name in node.inputs[2:]:
        parameter = axes.shape(name) if name is not None else ()
        if name is not None and parameter and parameter[-1] == size > 1:
            axes.join((name, len(parameter) - 1), channel)


def _fully_connected(axes: Axes, node: Node) -> None:
    x, w, y = node.inputs[0] or "", node.inputs[1] or "", node.outputs[0]
    axes.join((x, 0), (y, 0))
    axes.join((x, 1), (w, 1))
    axes.join((y, 1), (w, 0))
    axes.channels |= {(w, 0), (w, 1)}
    _per_channel(axes, node, (y, 1), axes.shape(y)[1])


def _matmul(axes: Axes, node: Node) -> None:
    a, b, y = node.inputs[0] or "", node.inputs[1] or "", node.outputs[0]
    ranks = [len(axes.shape(n)) for n in (a, b, y)]
    if min(ranks) < 2 or (node.op == "matmul_float" and any(node.words[:2])):
        raise NoProbe("a product with a vector, or with a transposed matrix")
    axes.join((a, ranks[0] - 1), (b, ranks[1] - 2))
    axes.join((a, ranks[0] - 2), (y, ranks[2] - 2))
    axes.join((b, ranks[1] - 1), (y, ranks[2] - 1))
    for name, rank in ((a, ranks[0]), (b, ranks[1])):
        for back in range(3, rank + 1):
            if axes.shape(name)[-back] == axes.shape(y)[-back]:
                axes.join((name, rank - back), (y, ranks[2] - back))
    axes.channels |= {(a, ranks[0] - 1), (b, ranks[1] - 1)}
    for scales in node.inputs[2:]:
        parameter = axes.shape(scales) if scales is not None else ()
        if len(parameter) == 2 and parameter[0] == axes.shape(y)[-2] > 1:
            axes.join((scales or "", 0), (y, ranks[2] - 2))
    _per_channel(axes, node, (y, ranks[2] - 1), axes.shape(y)[-1])


def _mean(axes: Axes, node: Node) -> None:
    x, y = node.inputs[0] or "", node.outputs[0]
    rank, out = len(axes.shape(x)), axes.shape(y)
    reduced = range(2, rank) if node.op == "global_average_pool" else []
    if node.op in ("reduce_mean", "reduce_float", "reduce_integer"):
        mask = node.words[0] if node.op == "reduce_mean" else node.words[-1]
        reduced = [i for i in range(rank) if mask >> i & 1]
    elif node.op in ("arg_max", "arg_min"):
        reduced = [node.words[0] % rank]
    kept = [i for i in range(rank) if i not in reduced]
    if len(out) == rank:
        pairs = [(i, i) for i in kept]
    elif len(out) == len(kept):
        pairs = [(i, at) for at, i in enumerate(kept)]
    else:
        raise NoProbe("the dims of the mean are not known")
    for i, at in pairs:
        axes.join((x, i), (y, at))
    axes.spatial |= {(x, i) for i in reduced}
    scales = node.inputs[1] if len(node.inputs) > 1 else None
    if scales is not None and axes.graph.constants[scales].dtype.kind != "f":
        axes.fixed |= {(x, i) for i in reduced}


RULES: dict[str, Callable[[Axes, Node], None]] = {
    **dict.fromkeys(OPERANDS, _elementwise),
    **dict.fromkeys(WINDOWED, _window),
    "fully_connected": _fully_connected,
    "matmul": _matmul,
    "matmul_float": _matmul,
    "matmul_integer": _matmul,
    "matmul_integer_scaled": _matmul,
    "reduce_float": _mean,
    "global_average_pool": _mean,
    "reduce_mean": _mean,
    "reduce_integer": _mean,
    "arg_max": _mean,
    "arg_min": _mean,
    **COPIES,
}


def words_for(node: Node, old: Graph, sizes: Sizes) -> tuple[int, ...]:
    """Returns the node's words in the new sizes."""
    words = ops.words(node)
    x = node.inputs[0] or ""
    before = old.spec(x).shape
    after = tuple(sizes[x, i] for i in range(len(before)))
    if node.op in ROWS:
        outer, depth = words["outer"], words["depth"]
        a, b = _row_axes(before, outer, depth)
        words |= {"outer": prod(after[:a]), "depth": prod(after[a:b]), "inner": prod(after[b:])}
    elif node.op in LAYER_NORMS:
        a, _ = _row_axes(before, prod(before) // words["depth"], words["depth"])
        words["depth"] = prod(after[a:])
    elif node.op in ("conv", "conv_float", "conv_integer") and words["group"] > 1 and words["group"] == before[1]:
        words["group"] = after[1]
    elif node.op == "slice":
        for i, n in enumerate(before):
            if words[f"step{i}"] < 0:
                words[f"start{i}"] += after[i] - n
    return tuple(words.values())


def _row_axes(shape: tuple[int, ...], outer: int, depth: int) -> tuple[int, int]:
    """Returns (a, b): the axes a to b - 1 are the row of a reduction. Raises NoProbe if they cannot be determined."""
    for a in range(len(shape) + 1):
        for b in range(a, len(shape) + 1):
            if prod(shape[:a]) == outer and prod(shape[a:b]) == depth and (depth > 1 or b > a):
                return a, b
    raise NoProbe("the axes of the rows are not known")


def scales_for(node: Node, old: Graph, sizes: Sizes) -> tuple[str, float]:
    """Returns the name of a mean's scale constant and the factor by which the new number of elements changes it; the
    name is "" if there is none."""
    x = node.inputs[0] or ""
    if node.op not in ("global_average_pool", "reduce_mean") or len(node.inputs) < 2 or node.inputs[1] is None:
        return "", 1.0
    shape = old.spec(x).shape
    reduced = [i for i in range(len(shape)) if (node.words[0] >> i & 1 if node.op == "reduce_mean" else i >= 2)]
    return node.inputs[1], float(np.prod([shape[i] / sizes[x, i] for i in reduced]))

"""Which dims of a unit's tensors are one size, which are fixed, and which follow from others, op by op: what is needed
to give the same op another shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from qverify import ops
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit

Key = tuple[str, int]  # a tensor and its axis
Sizes = dict[Key, int]
WINDOWED = ("conv", "conv_transpose", "average_pool", "max_pool")
OPERANDS = {  # how many inputs have the output's dims, from the right
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
    "layer_norm": 1,
    "batch_norm": 1,
    "normalize": 1,
}


class NoProbe(ValueError):
    """Raised for a unit of which no other shape is known."""


@dataclass(slots=True)
class Axes:
    """Axes in classes of one size. fixed: classes that keep theirs. grows: those that must not shrink. follow: how a
    derived axis follows from the new sizes of the node's inputs. spatial, channels: by what is counted along them."""

    graph: Graph
    parent: dict[Key, Key] = field(default_factory=dict)
    fixed: set[Key] = field(default_factory=set)
    grows: set[Key] = field(default_factory=set)
    follow: dict[Key, Callable[[Sizes], int]] = field(default_factory=dict)
    spatial: set[Key] = field(default_factory=set)
    channels: set[Key] = field(default_factory=set)

    def shape(self, name: str | None) -> tuple[int, ...]:
        return self.graph.spec(name or "").shape

    def root(self, key: Key) -> Key:
        """Returns the class of an axis."""
        while self.parent.get(key, key) != key:
            key = self.parent[key]
        return key

    def join(self, a: Key, b: Key) -> None:
        """Makes two axes one class. Raises NoProbe where their sizes differ."""
        if self.shape(a[0])[a[1]] != self.shape(b[0])[b[1]]:
            raise NoProbe(f"{a} and {b} differ")
        self.parent[self.root(a)] = self.root(b)

    def join_all(self, a: str, b: str) -> None:
        """Joins all axes of two tensors of one rank."""
        for i in range(len(self.shape(a))):
            self.join((a, i), (b, i))

    def derive(self, key: Key, how: Callable[[Sizes], int]) -> None:
        """Makes an output's axis follow from others."""
        self.follow[key] = how

    def fix(self, name: str | None) -> None:
        """Keeps all dims of a tensor."""
        if name is not None:
            self.fixed |= {(name, i) for i in range(len(self.shape(name)))}


def axes_of(graph: Graph, unit: Unit) -> Axes:
    """Returns what is known of the axes of a unit's tensors. Raises NoProbe for an op that has no rule here."""
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
            own = axes.shape(name)
            for back in range(1, len(own) + 1):
                if own[-back] == shape[-back]:
                    axes.join((name, len(own) - back), (y, len(shape) - back))
    if node.op in ("batch_norm", "normalize"):
        axes.channels.add((y, 1))
        if node.op == "normalize":
            axes.fixed.add((y, 1))
        for name in node.inputs[1:]:
            if name is not None and axes.shape(name) == (shape[1],):
                axes.join((name, 0), (y, 1))
            else:
                axes.fixed.add((y, 1))
    if node.op == "layer_norm":
        for name in node.inputs[1:]:
            own = axes.shape(name) if name is not None else ()
            for back in range(1, len(own) + 1):
                axes.join((name or "", len(own) - back), (y, len(shape) - back))
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
        if node.op == "conv_transpose":
            more = axes.shape(y)[axis] - ((axes.shape(x)[axis] - 1) * step + span - pads)
            axes.derive((y, axis), lambda s, k=(x, axis), m=span - pads + more, t=step: (s[k] - 1) * t + m)  # type: ignore[misc]
        else:
            more = axes.shape(y)[axis] - ((axes.shape(x)[axis] + pads - span) // step + 1)
            axes.derive((y, axis), lambda s, k=(x, axis), m=pads - span, t=step, e=more: (s[k] + m) // t + 1 + e)  # type: ignore[misc]
    if node.op in ("average_pool", "max_pool"):
        axes.join((x, 1), (y, 1))
        axes.channels.add((x, 1))
        return
    _weights(axes, node, words["group"])


def _weights(axes: Axes, node: Node, group: int) -> None:
    x, y, w = node.inputs[0] or "", node.outputs[0], node.inputs[1] or ""
    shape, out = axes.shape(w), axes.shape(y)[1]
    made, read = (1, 0) if node.op == "conv_transpose" else (0, 1)
    depthwise = node.op == "conv" and group == shape[0] == axes.shape(x)[1] and shape[1] == 1
    if group == 1:
        axes.join((w, read), (x, 1))
        axes.join((w, made), (y, 1))
    elif depthwise:
        axes.join((w, 0), (x, 1))
        axes.join((w, 0), (y, 1))
    else:
        axes.fixed |= {(x, 1), (y, 1)}
        return
    axes.channels |= {(x, 1), (y, 1)}
    _per_channel(axes, node, (y, 1), out)


def _per_channel(axes: Axes, node: Node, channel: Key, size: int) -> None:
    """Joins bias and scales with the axis of the output's channels."""
    for name in node.inputs[2:]:
        own = axes.shape(name) if name is not None else ()
        if name is not None and own and own[-1] == size > 1:
            axes.join((name, len(own) - 1), channel)


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
    if min(ranks) < 2:
        raise NoProbe("a product with a vector")
    axes.join((a, ranks[0] - 1), (b, ranks[1] - 2))
    axes.join((a, ranks[0] - 2), (y, ranks[2] - 2))
    axes.join((b, ranks[1] - 1), (y, ranks[2] - 1))
    for name, rank in ((a, ranks[0]), (b, ranks[1])):
        for back in range(3, rank + 1):
            if axes.shape(name)[-back] == axes.shape(y)[-back]:
                axes.join((name, rank - back), (y, ranks[2] - back))
    axes.channels |= {(a, ranks[0] - 1), (b, ranks[1] - 1)}
    _per_channel(axes, node, (y, ranks[2] - 1), axes.shape(y)[-1])


def _mean(axes: Axes, node: Node) -> None:
    x, y = node.inputs[0] or "", node.outputs[0]
    rank, out = len(axes.shape(x)), axes.shape(y)
    reduced = range(2, rank) if node.op == "global_average_pool" else []
    if node.op == "reduce_mean":
        reduced = [i for i in range(rank) if node.words[0] >> i & 1]
    elif node.op == "arg_max":
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


def _transpose(axes: Axes, node: Node) -> None:
    for at, i in enumerate(node.words):
        axes.join((node.outputs[0], at), (node.inputs[0] or "", i))


def _concat(axes: Axes, node: Node) -> None:
    y, along = node.outputs[0], node.words[0] % len(axes.shape(node.outputs[0]))
    parts = [n for n in node.inputs if n is not None]
    for name in parts:
        for i in range(len(axes.shape(y))):
            if i != along:
                axes.join((name, i), (y, i))
    axes.derive((y, along), lambda s: sum(s[n, along] for n in parts))


def _split(axes: Axes, node: Node) -> None:
    x, along = node.inputs[0] or "", node.words[0] % len(axes.shape(node.inputs[0]))
    axes.grows.add((x, along))
    whole = axes.shape(x)[along]
    for at, name in enumerate(node.outputs):
        for i in range(len(axes.shape(x))):
            if i != along:
                axes.join((name, i), (x, i))
        own = axes.shape(name)[along]
        first = at == 0
        axes.derive((name, along), lambda s, own=own, first=first: own + (s[x, along] - whole if first else 0))  # type: ignore[misc]


def _slice(axes: Axes, node: Node) -> None:
    x, y = node.inputs[0] or "", node.outputs[0]
    rank = len(axes.shape(x))
    for i, (n, out, start, step) in enumerate(
        zip(axes.shape(x), axes.shape(y), node.words[:rank], node.words[rank:], strict=True)
    ):
        if (n, start, step) == (out, 0, 1):
            axes.join((x, i), (y, i))
        else:
            axes.grows.add((x, i))
            axes.derive((y, i), lambda s, i=i, n=n, out=out, step=step: out + (s[x, i] - n) // abs(step))  # type: ignore[misc]


def _pad(axes: Axes, node: Node) -> None:
    x, y = node.inputs[0] or "", node.outputs[0]
    for i, (n, out) in enumerate(zip(axes.shape(x), axes.shape(y), strict=True)):
        if n == out:
            axes.join((x, i), (y, i))
        else:
            axes.grows.add((x, i))
            axes.derive((y, i), lambda s, i=i, more=out - n: s[x, i] + more)  # type: ignore[misc]


def _gather(axes: Axes, node: Node) -> None:
    x, index, y = node.inputs[0] or "", node.inputs[1] or "", node.outputs[0]
    rank, many = len(axes.shape(x)), len(axes.shape(index))
    along = node.words[0] % rank
    if len(axes.shape(y)) != rank - 1 + many:
        raise NoProbe("the dims of gather are not known")
    for i in range(rank):
        if i != along:
            axes.join((x, i), (y, i if i < along else i - 1 + many))
    for i in range(many):
        axes.join((index, i), (y, along + i))
    axes.grows.add((x, along))


def _reshape(axes: Axes, node: Node) -> None:
    """Splits the dims into blocks of as many elements; several dims that become one are what may change."""
    x, y = node.inputs[0] or "", node.outputs[0]
    before, after = axes.shape(x), axes.shape(y)
    i = j = 0
    while i < len(before) and j < len(after):
        first, own = i, j
        i, j = i + 1, j + 1
        while prod(before[first:i]) != prod(after[own:j]):
            if prod(before[first:i]) < prod(after[own:j]):
                i += 1
            else:
                j += 1
        if (i - first, j - own) == (1, 1):
            axes.join((x, first), (y, own))
        elif j - own == 1:
            axes.derive((y, own), lambda s, block=range(first, i): prod(s[x, k] for k in block))  # type: ignore[misc]
        else:
            axes.fixed |= {(x, k) for k in range(first, i)} | {(y, k) for k in range(own, j)}


def _depth_to_space(axes: Axes, node: Node) -> None:
    x, y = node.inputs[0] or "", node.outputs[0]
    axes.join((x, 0), (y, 0))
    axes.fixed |= {(x, 1), (y, 1)}
    for i in (2, 3):
        axes.derive((y, i), lambda s, i=i: s[x, i] * node.words[0])  # type: ignore[misc]


def _resize(axes: Axes, node: Node) -> None:
    """Keeps the dims that are resized: by which rule is not in the words."""
    x, y = node.inputs[0] or "", node.outputs[0]
    axes.fix(node.inputs[1])
    if node.op == "resize_linear":
        axes.fix(node.inputs[2])
    for i, (n, out) in enumerate(zip(axes.shape(x), axes.shape(y), strict=True)):
        plain = n == out and node.op == "resize_linear" and i < len(axes.shape(x)) - 2
        if plain:
            axes.join((x, i), (y, i))
        else:
            axes.fixed |= {(x, i), (y, i)}


RULES: dict[str, Callable[[Axes, Node], None]] = {
    **dict.fromkeys(OPERANDS, _elementwise),
    **dict.fromkeys(WINDOWED, _window),
    "fully_connected": _fully_connected,
    "matmul": _matmul,
    "global_average_pool": _mean,
    "reduce_mean": _mean,
    "arg_max": _mean,
    "transpose": _transpose,
    "concat": _concat,
    "reshape": _reshape,
    "split": _split,
    "slice": _slice,
    "pad": _pad,
    "gather": _gather,
    "depth_to_space": _depth_to_space,
    "resize_linear": _resize,
}


def words_for(node: Node, old: Graph, sizes: Sizes) -> tuple[int, ...]:
    """Returns the node's words in the new sizes."""
    words = ops.words(node)
    x = node.inputs[0] or ""
    before = old.spec(x).shape
    after = tuple(sizes[x, i] for i in range(len(before)))
    if node.op in ("softmax", "softmax_float"):
        outer, depth = words["outer"], words["depth"]
        a, b = _row(before, outer, depth)
        words |= {"outer": prod(after[:a]), "depth": prod(after[a:b]), "inner": prod(after[b:])}
    elif node.op == "layer_norm":
        a, _ = _row(before, prod(before) // words["depth"], words["depth"])
        words["depth"] = prod(after[a:])
    elif node.op == "conv" and words["group"] > 1 and words["group"] == before[1]:
        words["group"] = after[1]
    elif node.op == "slice":
        for i, n in enumerate(before):
            if words[f"step{i}"] < 0:
                words[f"start{i}"] += after[i] - n
    return tuple(words.values())


def _row(shape: tuple[int, ...], outer: int, depth: int) -> tuple[int, int]:
    """Returns the axes a..b that are the row of a reduction. Raises NoProbe where there are none."""
    for a in range(len(shape) + 1):
        for b in range(a, len(shape) + 1):
            if prod(shape[:a]) == outer and prod(shape[a:b]) == depth and (depth > 1 or b > a):
                return a, b
    raise NoProbe("the axes of the rows are not known")


def scales_for(node: Node, old: Graph, sizes: Sizes) -> tuple[str, float]:
    """Returns the constant of a mean and the factor by which another number of elements changes it; "" for none."""
    x = node.inputs[0] or ""
    if node.op not in ("global_average_pool", "reduce_mean") or len(node.inputs) < 2 or node.inputs[1] is None:
        return "", 1.0
    shape = old.spec(x).shape
    reduced = [i for i in range(len(shape)) if (node.words[0] >> i & 1 if node.op == "reduce_mean" else i >= 2)]
    return node.inputs[1], float(np.prod([shape[i] / sizes[x, i] for i in reduced]))

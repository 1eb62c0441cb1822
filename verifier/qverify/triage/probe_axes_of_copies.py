"""Rules for the axes of ops that move elements (see probe_axes.py)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from qverify.model_bin.graph import Node
from qverify.triage.probe_axis_classes import Axes, NoProbe


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
        size = axes.shape(name)[along]
        first = at == 0
        axes.derive((name, along), lambda s, size=size, first=first: size + (s[x, along] - whole if first else 0))  # type: ignore[misc]


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


def _tile(axes: Axes, node: Node) -> None:
    x, y = node.inputs[0] or "", node.outputs[0]
    for i, (n, out) in enumerate(zip(axes.shape(x), axes.shape(y), strict=True)):
        axes.derive((y, i), lambda s, i=i, times=out // n: s[x, i] * times)  # type: ignore[misc]


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
    """Splits the dims of both shapes into blocks with equal numbers of elements. A single dim, and one that combines
    several, may change."""
    x, y = node.inputs[0] or "", node.outputs[0]
    before, after = axes.shape(x), axes.shape(y)
    i = j = 0
    while i < len(before) and j < len(after):
        start_x, start_y = i, j
        i, j = i + 1, j + 1
        while prod(before[start_x:i]) != prod(after[start_y:j]):
            if prod(before[start_x:i]) < prod(after[start_y:j]):
                i += 1
            else:
                j += 1
        if (i - start_x, j - start_y) == (1, 1):
            axes.join((x, start_x), (y, start_y))
        elif j - start_y == 1:
            axes.derive((y, start_y), lambda s, block=range(start_x, i): prod(s[x, k] for k in block))  # type: ignore[misc]
        else:
            axes.fixed |= {(x, k) for k in range(start_x, i)} | {(y, k) for k in range(start_y, j)}


def _depth_to_space(axes: Axes, node: Node) -> None:
    x, y = node.inputs[0] or "", node.outputs[0]
    axes.join((x, 0), (y, 0))
    axes.fixed |= {(x, 1), (y, 1)}
    for i in (2, 3):
        axes.derive((y, i), lambda s, i=i: s[x, i] * node.words[0])  # type: ignore[misc]


def _resize(axes: Axes, node: Node) -> None:
    """Keeps the dims that are resized, because the node's words do not contain the rule."""
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


COPIES: dict[str, Callable[[Axes, Node], None]] = {
    "transpose": _transpose,
    "concat": _concat,
    "reshape": _reshape,
    "split": _split,
    "slice": _slice,
    "pad": _pad,
    "tile": _tile,
    "gather": _gather,
    "depth_to_space": _depth_to_space,
    "resize_linear": _resize,
}

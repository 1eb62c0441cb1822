"""Probe models: the blamed unit alone, as a small model in other shapes. Rules of places that are the same in its own
shape differ there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from qverify import ops
from qverify.errors import BadFileError
from qverify.model_bin.check import check_graph
from qverify.model_bin.cut_graph import cut
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec
from qverify.triage.altered_kernels.inner_node import BORDERS
from qverify.triage.case import Array, Case
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.probe_axes import POOLS, PRODUCTS, TRANSPOSED, WINDOWED, axes_of, scales_for, words_for
from qverify.triage.probe_axis_classes import Axes, Key, NoProbe, Sizes

PRIMES = [p for p in range(2, 520) if all(p % q for q in range(2, int(p**0.5) + 1))]
MAX_BYTES = 1 << 15  # of a probe's constants and tensors
MAX_SUMMANDS = 1 << 18  # products of all outputs, so that causes are computed quickly
MIN_SIZE = 2  # a smaller size of an axis is larger than this


@dataclass(frozen=True, slots=True)
class ProbeModel:
    """A model of one unit.

    Attributes:
        case: the unit in this model; its recorded output is the healthy one.
        shape: the shapes of its inputs and its kernel, in words.
        alike: whether it differs only in sizes along which the kernel repeats itself, so that the kernel takes the same
            path.
    """

    case: Case
    shape: str
    alike: bool

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes of the model, its inputs and its output."""
        return sum(spec.valid_bytes for spec in self.case.graph.tensors.values())


@dataclass(frozen=True, slots=True)
class _Plan:
    """The choice of the shape of a probe. chosen: returns whether a class of axes gets another size. turn: which size
    it gets. kernel: whether the probe has another kernel and padding."""

    alike: bool
    chosen: Callable[[Axes, Key, Key], bool]  # of all axes, a class of axes, and the class of the output's last axis
    turn: int
    kernel: bool = False


def _is_size(axes: Axes, key: Key, last: Key) -> bool:
    return key not in {axes.root(k) for k in axes.channels}


def _is_any(axes: Axes, key: Key, last: Key) -> bool:
    return True


def _is_outer(axes: Axes, key: Key, last: Key) -> bool:
    return key != last


def _is_last(axes: Axes, key: Key, last: Key) -> bool:
    return key == last


WINDOW_PLANS = (
    _Plan(True, _is_size, 0),
    _Plan(False, _is_size, 1, kernel=True),
    _Plan(False, _is_any, 0),
    _Plan(True, _is_size, 2),
    _Plan(False, _is_any, 1, kernel=True),
)
SUM_PLANS = (_Plan(True, _is_size, 0), _Plan(False, _is_any, 0), _Plan(False, _is_any, 1), _Plan(False, _is_any, 2))
OTHER_PLANS = (
    _Plan(True, _is_outer, 0),
    _Plan(False, _is_last, 0),
    _Plan(False, _is_any, 1),
    _Plan(False, _is_any, 2),
)


def probe_models(case: Case) -> Iterator[ProbeModel]:
    """Yields the probes of a case's unit, the most similar first; none if it cannot be run in other shapes."""
    op = _working_node(case.unit.nodes).op
    plans = WINDOW_PLANS if op in WINDOWED else SUM_PLANS if op in PRODUCTS else OTHER_PLANS
    shapes = {_describe_shape(case)}
    for plan in plans:
        try:
            probe = _make_probe(case, plan)
        except (*DOES_NOT_FIT, BadFileError, StopIteration):  # a shape that this op cannot have
            continue
        if probe.shape not in shapes:
            shapes.add(probe.shape)
            yield probe


def _working_node(nodes: tuple[Node, ...]) -> Node:
    """Returns the only node that is not quantize or dequantize, or the last node if there is not exactly one."""
    work = [node for node in nodes if node.op not in BORDERS]
    return work[0] if len(work) == 1 else nodes[-1]


def _make_probe(case: Case, plan: _Plan) -> ProbeModel:
    graph = cut(case.graph, set(case.inputs), case.unit.outputs)
    unit = next(u for u in units(graph) if u.name == case.unit.name)
    if plan.kernel:
        graph = _with_other_kernel(graph, unit.nodes)
        unit = next(u for u in units(graph) if u.name == case.unit.name)
    axes = axes_of(graph, unit)
    sizes = _choose_sizes(axes, unit.nodes, case.output, plan)
    graph = _resize(graph, sizes)
    index = _other_indices(graph, unit.nodes[-1], case, plan.turn)
    graph = replace(graph, constants={**graph.constants, **{n: v for n, v in index.items() if n in graph.constants}})
    check_graph(graph)
    unit = next(u for u in units(graph) if u.name == case.unit.name)
    inputs = {n: index[n] if n in index else _tile(case.inputs[n], graph.spec(n).shape) for n in unit.inputs}
    probe_case = replace(case, graph=graph, unit=unit, inputs=inputs, cache={}, states={}, raw=None)
    probe_case = probe_case.on_inputs(inputs)
    probe_case = replace(probe_case, recorded=probe_case.healthy, cache={})
    if probe_case.recorded.shape != probe_case.spec.shape:
        raise NoProbe("the output has another shape than its record")
    return ProbeModel(probe_case, _describe_shape(probe_case), plan.alike)


def _describe_shape(case: Case) -> str:
    shapes = ["x".join(map(str, case.graph.spec(n).shape)) for n in case.unit.inputs]
    last = _working_node(case.unit.nodes)
    words = ops.words(last)
    text = " and ".join(filter(None, shapes))
    if "kernel_h" in words:
        return f"{text}, kernel {words['kernel_h']}x{words['kernel_w']}"
    weights = [n for n in last.inputs if n in case.graph.constants and len(case.graph.spec(n).shape) > 1]
    return f"{text} and {'x'.join(map(str, case.graph.spec(weights[0]).shape))}" if weights else text


def _choose_sizes(axes: Axes, nodes: tuple[Node, ...], output: str, plan: _Plan) -> Sizes:
    """Returns the new size of every axis. Raises NoProbe if none changes."""
    keys = [(name, i) for name, spec in axes.graph.tensors.items() for i in range(len(spec.shape))]
    known: Sizes = {}
    fixed = {axes.root(k) for k in axes.fixed} | {axes.root(k) for k in axes.follow}
    fixed |= {axes.root((n, i)) for n in axes.graph.constants for i in range(len(axes.shape(n)))} - _classes_of_values(
        axes, keys
    )
    last = axes.root((output, len(axes.shape(output)) - 1))
    free = [k for k in dict.fromkeys(map(axes.root, keys)) if k not in fixed and axes.shape(k[0])[k[1]] > 1]
    chosen = [k for k in free if plan.chosen(axes, k, last)]
    if not chosen:
        raise NoProbe("no axis can have another size")
    grows = {axes.root(k) for k in axes.grows}
    picked = {k: _pick_size(axes.shape(k[0])[k[1]], k in grows, plan.turn + at) for at, k in enumerate(chosen)}
    while True:
        known = _derive_sizes(axes, keys, nodes, picked)
        shrinks = [k for k in free if k not in grows and picked.get(k, axes.shape(k[0])[k[1]]) > 7]
        if not _is_too_large(axes, known, nodes) or not shrinks:
            return known
        most = max(shrinks, key=lambda k: picked.get(k, axes.shape(k[0])[k[1]]))
        picked[most] = max(p for p in PRIMES if p <= picked.get(most, axes.shape(most[0])[most[1]]) * 2 // 3)


def _classes_of_values(axes: Axes, keys: list[Key]) -> set[Key]:
    """Returns the classes that contain an axis of a tensor that is not constant. Axes of constants alone keep their
    size."""
    return {axes.root(k) for k in keys if k[0] not in axes.graph.constants}


def _pick_size(old: int, grows: bool, turn: int) -> int:
    """Returns another size, a prime that is larger or smaller by turns."""
    larger = [p for p in PRIMES if p > old] or [old + 1]
    smaller = [p for p in reversed(PRIMES) if MIN_SIZE < p < old]
    if turn % 3 == 1 and smaller and not grows:
        return smaller[min(turn // 3, len(smaller) - 1)]
    return larger[min(turn // 2 + turn % 2, len(larger) - 1)]


def _derive_sizes(axes: Axes, keys: list[Key], nodes: tuple[Node, ...], picked: Mapping[Key, int]) -> Sizes:
    derived = {axes.root(k) for k in axes.follow}
    sizes = {k: picked.get(axes.root(k), axes.shape(k[0])[k[1]]) for k in keys}
    for node in nodes:
        for name in node.outputs:
            for i in range(len(axes.shape(name))):
                compute = axes.follow.get((name, i))
                if compute is None:
                    continue
                size = compute(sizes)
                if size < 1:
                    raise NoProbe(f"{name} would be empty")
                sizes |= {k: size for k in keys if axes.root(k) == axes.root((name, i)) in derived}
    return sizes


def _is_too_large(axes: Axes, sizes: Sizes, nodes: tuple[Node, ...]) -> bool:
    def count(name: str) -> int:
        return prod(sizes[name, i] for i in range(len(axes.shape(name))))

    size = sum(count(n) * spec.numpy_dtype.itemsize for n, spec in axes.graph.tensors.items())
    return size > MAX_BYTES or any(count(n.outputs[0]) * _depth(axes, n, sizes) > MAX_SUMMANDS for n in nodes)


def _depth(axes: Axes, node: Node, sizes: Sizes) -> int:
    if node.op == "fully_connected" or (node.op in WINDOWED and node.op not in POOLS):
        return prod(sizes[node.inputs[1] or "", i] for i in range(1, len(axes.shape(node.inputs[1]))))
    if node.op in POOLS:
        return node.words[0] * node.words[1]
    return sizes[node.inputs[0] or "", len(axes.shape(node.inputs[0])) - 1] if node.op in PRODUCTS else 1


def _resize(graph: Graph, sizes: Sizes) -> Graph:
    tensors = {
        n: _resize_spec(spec, tuple(sizes[n, i] for i in range(len(spec.shape)))) for n, spec in graph.tensors.items()
    }
    constants = {n: _tile(v, tensors[n].shape) for n, v in graph.constants.items()}
    nodes = []
    for node in graph.nodes:
        name, factor = scales_for(node, graph, sizes)
        if name and factor != 1.0:
            constants[name] = (constants[name] * factor).astype(constants[name].dtype)
        nodes.append(replace(node, words=words_for(node, graph, sizes)))
    return replace(graph, nodes=nodes, tensors=tensors, constants=constants)


def _resize_spec(spec: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    scale, zero = spec.scale, spec.zero_point
    if len(scale) > 1:
        places = [i % len(scale) for i in range(shape[spec.channel_axis])]
        scale, zero = tuple(scale[i] for i in places), tuple(zero[i] for i in places)
    aligned = tuple(
        _align(n, *old) for n, old in zip(shape, zip(spec.shape, spec.aligned_shape, strict=True), strict=True)
    )
    return replace(spec, shape=shape, aligned_shape=aligned, scale=scale, zero_point=zero)


def _align(size: int, old: int, aligned: int) -> int:
    """Returns the stored size for a new size, rounded up as `aligned` is for `old`."""
    step = next((a for a in (1, 2, 4, 8, 16, 32, 64, 128, 256) if -(-old // a) * a == aligned), 1)
    return -(-size // step) * step


def _tile(values: Array, shape: tuple[int, ...]) -> Array:
    """Returns the elements in this shape, cut off or repeated along each axis."""
    for axis, (old, new) in enumerate(zip(values.shape, shape, strict=True)):
        if old != new:
            values = values.take(np.arange(new) % old, axis)
    return np.ascontiguousarray(values).reshape(values.shape)  # ascontiguousarray gives an array without dims one dim


def _count_outputs(size: int, words: dict[str, int], changed: dict[str, int], axis: int, out: int) -> int:
    """Returns the number of outputs along an axis with the changed window, rounded up if the old number is."""

    def count(of: dict[str, int]) -> int:
        side, before, after = (("h", "top", "bottom"), ("w", "left", "right"))[axis]
        span = (of[f"kernel_{side}"] - 1) * of.get(f"dilation_{side}", 1) + 1
        return (size + of[f"pad_{before}"] + of[f"pad_{after}"] - span) // of[f"stride_{side}"] + 1

    return count(changed) + out - count(words)


def _other_indices(graph: Graph, node: Node, case: Case, turn: int) -> dict[str, Array]:
    """Returns a gather's indices moved by some places, because the same indices would read the same elements in every
    shape; {} for another op."""
    if node.op != "gather":
        return {}
    source, name = graph.spec(node.inputs[0] or "").shape, node.inputs[1] or ""
    size = source[node.words[0] % len(source)]
    values = _tile(graph.constants[name] if name in graph.constants else case.inputs[name], graph.spec(name).shape)
    moved = (values + 1 + turn) % size
    return {name: np.where(values < 0, moved - size, moved).astype(values.dtype)}


def _with_other_kernel(graph: Graph, nodes: tuple[Node, ...]) -> Graph:
    """Returns the graph with a larger kernel along the sides where the kernel has more than one element, and with more
    padding if it has any. Raises NoProbe if the unit has no such kernel."""
    node = _working_node(nodes)
    if node.op not in WINDOWED:
        raise NoProbe("it has no kernel")
    words = ops.words(node)
    if node.op == "average_pool" and graph.constants[node.inputs[1] or ""].dtype.kind != "f":
        raise NoProbe("its scales are those of its kernel")
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    sides = (("h", "top", "bottom", 2), ("w", "left", "right", 1))[-(len(x.shape) - 2) :]
    changed, shape = dict(words), list(y.shape)
    padded = any(words[f"pad_{side}"] for side in ("top", "left", "bottom", "right"))
    for axis, (side, before, after, more) in enumerate(sides, 2):
        if words[f"kernel_{side}"] > 1:
            changed[f"kernel_{side}"] += more
            changed[f"pad_{before}"] += padded
            changed[f"pad_{after}"] += padded
            # How much the kernel grows more than the padding.
            wider = more * words.get(f"dilation_{side}", 1) - 2 * padded
            shape[axis] = (
                shape[axis] + wider
                if node.op in TRANSPOSED
                else _count_outputs(x.shape[axis], words, changed, "hw".index(side), shape[axis])
            )
    if changed == words:
        raise NoProbe("its kernel has one element")
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    if node.op not in POOLS:
        w = graph.spec(node.inputs[1] or "")
        kernel = (*w.shape[:2], changed["kernel_h"], changed["kernel_w"])
        constants[w.name] = _tile(constants[w.name], kernel)
        tensors[w.name] = replace(w, shape=kernel, aligned_shape=kernel)
    tensors[y.name] = replace(y, shape=tuple(shape), aligned_shape=tuple(shape))
    for reader in graph.nodes:  # quantize and dequantize nodes after the output have its shape
        if (
            reader.op in BORDERS
            and tensors[reader.inputs[0] or ""].shape == tuple(shape) != graph.spec(reader.outputs[0]).shape
        ):
            through = tensors[reader.outputs[0]]
            if graph.spec(reader.inputs[0] or "").shape == y.shape and through.shape == y.shape:
                tensors[through.name] = replace(through, shape=tuple(shape), aligned_shape=tuple(shape))
    changed_nodes = [replace(n, words=tuple(changed.values())) if n is node else n for n in graph.nodes]
    return replace(graph, nodes=changed_nodes, tensors=tensors, constants=constants)

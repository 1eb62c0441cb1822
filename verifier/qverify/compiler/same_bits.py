"""Checks on random values that a rewritten model computes the same bits.

Nodes that both models have compute the same from the same inputs, so only the others are run, from random values of the
tensors that they read: the cost depends on what was rewritten, not on the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from qverify.compiler.step_over_movements import MOVEMENTS
from qverify.errors import BadFileError, InternalError, OwnInputsError
from qverify.onnx_model.complete_shapes import numpy_type
from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.node_order import reads
from qverify.onnx_model.open_exposed import open_exposed
from qverify.onnx_model.own_inputs import run_on_own_inputs

Array = npt.NDArray[Any]
MAGNITUDES = 12  # floats are drawn with exponents of up to this, so that some fall into the range of any scale


def check_same_bits(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Raises InternalError if a tensor that both models have, but compute by different nodes, differs on random values.

    before, after: nodes in running order; their value_info is complete where shapes are static. The whole models are run
    if the part that differs cannot be run by itself."""
    try:
        compared = _run_differing(before, after)
    except (BadFileError, OwnInputsError):
        compared = None
    for name, (theirs, mine) in (compared or _run_whole(before, after)).items():
        if theirs.dtype != mine.dtype or theirs.tobytes() != mine.tobytes():
            raise InternalError(f"{name}: stepping over movements changed it; this is a bug of qverify")


def _run_differing(before: onnx.ModelProto, after: onnx.ModelProto) -> dict[str, tuple[Array, Array]] | None:
    """Returns both values of every tensor that nodes of one model alone compute and both models have. None if the type of
    a tensor that these nodes read is unknown."""
    nodes = [
        _with_sources(m, differing)
        for m, differing in zip((before, after), _differing_nodes(before, after), strict=True)
    ]
    infos = {v.name: v for m in (before, after) for v in [*m.graph.value_info, *m.graph.input, *m.graph.output]}
    constants = {i.name: i for i in after.graph.initializer}
    made = {o for n in nodes[1] for o in n.output if o}
    names = [o for n in nodes[0] for o in n.output if o in made]
    folded = [o for n in nodes[0] for o in n.output if o in constants]
    fed = _fed(nodes, [before, after])
    if any(not _is_static(infos.get(n)) for n in fed):
        return None
    parts = [_part(m, n, [infos[i] for i in fed], infos) for m, n in zip((before, after), nodes, strict=True)]
    random = np.random.Generator(np.random.PCG64(0))
    drawn = {n: _draw(random, infos[n], _is_index(n, nodes)) for n in fed}
    feed, theirs = run_on_own_inputs(open_exposed(parts[0], [*names, *folded]), drawn, [*names, *folded])
    mine = open_exposed(parts[1], names).run(feed, names)
    mine |= {n: value_of(constants[n]) for n in folded}
    return {n: (theirs[n], mine[n]) for n in (*names, *folded)}


def _differing_nodes(before: onnx.ModelProto, after: onnx.ModelProto) -> list[list[Any]]:
    """Returns the nodes of each model that the other does not have, or that read a constant of another value there."""
    models, known = (before, after), {i.name: i for i in after.graph.initializer}
    altered = {i.name for i in before.graph.initializer if i.name in known and i != known[i.name]}
    texts = [{n.SerializeToString(deterministic=True) for n in m.graph.node} for m in models]
    return [
        [
            n
            for n in m.graph.node
            if n.SerializeToString(deterministic=True) not in others or not altered.isdisjoint(reads(n))
        ]
        for m, others in zip(models, reversed(texts), strict=True)
    ]


def _with_sources(model: onnx.ModelProto, nodes: Sequence[Any]) -> list[Any]:
    """Returns the nodes, and those before them that dequantize or move what they read, in running order: behind a rewritten
    movement it may be read before it is dequantized."""
    differing = {o for n in nodes for o in n.output}
    wanted, kept = set(differing), list[Any]()
    for node in reversed(model.graph.node):
        is_source = node.op_type == "DequantizeLinear" or node.op_type in MOVEMENTS
        if not wanted.isdisjoint(node.output) and (is_source or not differing.isdisjoint(node.output)):
            kept.append(node)
            wanted.update(reads(node))
    return kept[::-1]


def _run_whole(before: onnx.ModelProto, after: onnx.ModelProto) -> dict[str, tuple[Array, Array]]:
    """Returns both values of every output of the models, and of the tensors that they compute by different operators."""
    makers = {o: node.op_type for node in after.graph.node for o in node.output}
    common = [(o, node.op_type) for node in before.graph.node for o in node.output if o in makers]
    finals = {o.name for o in before.graph.output}
    names = [name for name, kind in common if kind != makers[name] or name in finals]
    random = np.random.Generator(np.random.PCG64(0))
    drawn = {i.name: _draw(random, i, True) for i in before.graph.input}
    feed, theirs = run_on_own_inputs(open_exposed(before, names), drawn, names)
    mine = open_exposed(after, names).run(feed, names)
    return {n: (theirs[n], mine[n]) for n in names}


def _fed(nodes: Sequence[Sequence[Any]], models: Sequence[onnx.ModelProto]) -> list[str]:
    """Returns the tensors that the nodes of either model read and neither they compute nor the models have as
    constants."""
    fed = dict[str, None]()
    for part, model in zip(nodes, models, strict=True):
        known = {i.name for i in model.graph.initializer} | {o for n in part for o in n.output}
        fed |= dict.fromkeys(i for n in part for i in reads(n) if i and i not in known)
    return list(fed)


def _is_index(name: str, nodes: Sequence[Sequence[Any]]) -> bool:
    """Returns whether a node reads the tensor otherwise than as its first input, as indices and lengths are."""
    return any(name in n.input[1:] for part in nodes for n in part)


def _is_static(value: onnx.ValueInfoProto | None) -> bool:
    kind = None if value is None else value.type.tensor_type
    return kind is not None and bool(kind.elem_type) and all(d.dim_value > 0 for d in kind.shape.dim)


def _part(
    model: onnx.ModelProto, nodes: Sequence[Any], fed: list[Any], infos: Mapping[str, onnx.ValueInfoProto]
) -> onnx.ModelProto:
    """Returns the nodes as a model of their own; their results become outputs where they are exposed."""
    used = {i for n in nodes for i in reads(n)}
    inside = [infos[o] for n in nodes for o in n.output if o in infos]
    constants = [i for i in model.graph.initializer if i.name in used]
    read = [v for v in fed if v.name in used]
    graph = helper.make_graph(list(nodes), "differing", read, [], constants, value_info=inside)
    return helper.make_model(
        graph, opset_imports=list(model.opset_import), functions=model.functions, ir_version=model.ir_version
    )


def _draw(random: np.random.Generator, value: onnx.ValueInfoProto, may_be_index: bool) -> Array:
    """Returns random values for a tensor: floats of many magnitudes around 0, and integers of the whole range, but 0 or 1
    for those of 32 and 64 bits that may be indices of tables."""
    shape, kind = [d.dim_value for d in value.type.tensor_type.shape.dim], numpy_type(value)
    if kind.kind == "f":
        scale = 2.0 ** random.integers(-MAGNITUDES, MAGNITUDES, shape, endpoint=True)
        return np.asarray(random.normal(size=shape) * scale).astype(kind)
    if kind.kind in "iu" and not (kind.itemsize > 2 and may_be_index):
        limits = np.iinfo(kind)
        return np.asarray(random.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True))
    return np.asarray(random.integers(0, 2, shape)).astype(kind)

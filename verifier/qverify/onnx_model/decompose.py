"""Writes out the operators that have a page in `decompositions`, and checks each against the node it stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx

from qverify.errors import InternalError, UnsupportedError
from qverify.onnx_model.complete_shapes import complete_shapes, numpy_type
from qverify.onnx_model.engine import Array
from qverify.onnx_model.node_order import sort_nodes
from qverify.onnx_model.open_exposed import open_exposed
from qverify.onnx_model.rewriter import Rewriter
from qverify.onnx_model.widen_float16 import check_ends, has_float16, widen, widen_constants_of_float16
from qverify.pages import load_pages

FOLDER = "qverify.onnx_model.decompositions"
Write = Callable[[Rewriter, onnx.NodeProto], bool | None]
MOST_ROUNDS = 4  # an operator may be written out as others that are written out themselves


@dataclass(slots=True)
class ReplacedNode:
    """One node, with the activation behind it if that is part of it, and what stands in their place."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: list[onnx.NodeProto]


@dataclass(slots=True)
class DecompositionRound:
    """The operators that were written out at once, in the models before and after."""

    before: onnx.ModelProto
    after: onnx.ModelProto
    replaced: list[ReplacedNode]


@dataclass(slots=True)
class DecomposedModel:
    """model: with static shapes. refused: nodes of a form that has no decomposition, with the reason."""

    model: onnx.ModelProto
    rounds: list[DecompositionRound]
    refused: list[tuple[onnx.NodeProto, UnsupportedError]]


@cache
def _writers() -> dict[tuple[str, str], Write]:
    found: dict[tuple[str, str], Write] = {}
    for page in load_pages(FOLDER, ("REPLACED",)):
        found |= page.REPLACED
    return found


def decompose(model: onnx.ModelProto, name: str, shapes: dict[str, tuple[int, ...]]) -> DecomposedModel:
    """Returns the model with these operators written out; the model itself where it has none. model: as `load` returns
    it. shapes: dims of dynamic inputs."""
    done = DecomposedModel(model, [], [])
    if has_float16(model):
        check_ends(model, name)
        _rewrite(done, name, shapes, widen)
    for _ in range(MOST_ROUNDS):
        if not _decompose_once(done, name, shapes):
            break
    return done


def _decompose_once(done: DecomposedModel, name: str, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Writes out the nodes that the model has now; whether there was one."""
    writers = _writers()
    if not any(_key(node) in writers for node in done.model.graph.node):
        return False

    def write(rewriter: Rewriter, node: onnx.NodeProto) -> bool | None:
        return writers[_key(node)](rewriter, node) if _key(node) in writers else False

    return _rewrite(done, name, shapes, write)


def _rewrite(done: DecomposedModel, name: str, shapes: dict[str, tuple[int, ...]], write: Write) -> bool:
    """Puts what `write` writes in the place of the nodes for which it does not return False; whether there was one."""
    rewriter, after, made = Rewriter(done.model), list[onnx.NodeProto](), list[onnx.TensorProto]()
    replaced, absorbed = (
        list[ReplacedNode](),
        set[str](),
    )  # outputs of activations that are written with the node before
    done.refused = []
    for node in done.model.graph.node:
        if node.output[0] in absorbed:
            continue
        rewriter.begin(node)
        nodes: list[onnx.NodeProto] = [node]
        try:
            if write(rewriter, node) is not False:
                nodes = rewriter.nodes
                made += rewriter.constants
                replaced.append(_replaced(node, rewriter))
                absorbed.update(act.output[0] for act in rewriter.absorbed)
        except UnsupportedError as error:
            done.refused.append((node, error))
        after += nodes
    if replaced:
        model = onnx.ModelProto()
        model.CopyFrom(done.model)
        del model.graph.node[:]
        model.graph.node.extend(after)
        model.graph.initializer.extend(made)
        if write is widen:
            widen_constants_of_float16(model)
        sort_nodes(model.graph, name)
        complete_shapes(model, name, shapes)
        done.rounds.append(DecompositionRound(done.model, model, replaced))
        done.model = model
    return bool(replaced)


def _replaced(node: onnx.NodeProto, rewriter: Rewriter) -> ReplacedNode:
    behind = rewriter.absorbed
    inputs = [*node.input, *(i for act in behind for i in act.input[1:])]
    outputs = behind[-1].output if behind else node.output
    return ReplacedNode(node.op_type, tuple(filter(None, inputs)), tuple(filter(None, outputs)), rewriter.nodes)


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    return ("" if node.domain == "ai.onnx" else node.domain, node.op_type)


CLOSE_FLOAT16 = 2.0**-9
CLOSE = 2.0**-12  # of the largest magnitude: floats in another order; what is written out wrongly is far off


def check_same_values(done: DecomposedModel) -> None:
    """Raises InternalError where nodes give another result than the one in whose place they stand, on what that reads in
    a run on random inputs."""
    for each in done.rounds:
        _check_round(each)


def _check_round(each: DecompositionRound) -> None:
    constants = {i.name for i in each.before.graph.initializer}
    names = {n for r in each.replaced for n in (*r.inputs, *r.outputs)} - constants
    names -= {i.name for i in each.before.graph.input}
    random = np.random.Generator(np.random.PCG64(0))
    feed = {i.name: _random(random, i) for i in each.before.graph.input if i.name not in constants}
    values = feed | open_exposed(each.before, sorted(names)).run(feed, sorted(names))
    for replaced in each.replaced:
        fragment, outputs = _fragment(each, replaced)
        given = {i.name: values[i.name].astype(numpy_type(i)) for i in fragment.graph.input}
        mine = open_exposed(fragment, []).run(given, outputs)
        wrong = [name for name in outputs if not is_close(mine[name], values[name])]
        alone = _computed_alone(each, replaced, values) if wrong else {}
        for name in wrong:
            if not is_close(mine[name], alone[name]):
                raise InternalError(f"{name}: writing {replaced.kind} out changed it; this is a bug of qverify")


def _computed_alone(each: DecompositionRound, replaced: ReplacedNode, values: dict[str, Array]) -> dict[str, Array]:
    """Returns what the replaced node itself makes of these values: between nodes of float16 onnxruntime leaves out casts
    of its own, so that in the whole model a node may read what is not rounded."""
    nodes, needed = list[onnx.NodeProto](), {*replaced.outputs}
    for node in reversed(each.before.graph.node):
        if needed.difference(replaced.inputs).intersection(node.output):
            nodes.insert(0, node)
            needed.update(node.input)
    before = DecompositionRound(each.before, each.before, [])
    fragment, outputs = _fragment(before, ReplacedNode(replaced.kind, replaced.inputs, replaced.outputs, nodes))
    given = {i.name: values[i.name].astype(numpy_type(i)) for i in fragment.graph.input}
    return open_exposed(fragment, []).run(given, outputs)


def _random(random: np.random.Generator, value: onnx.ValueInfoProto) -> Array:
    shape, kind = [d.dim_value for d in value.type.tensor_type.shape.dim], numpy_type(value)
    return (random.normal(size=shape) * 2 if kind.kind == "f" else random.integers(0, 2, shape)).astype(kind)


def is_close(mine: Array, theirs: Array) -> bool:
    """Returns whether what was written out gives the fused node's values: floats within CLOSE of the largest, integers of
    8 and 16 bits within 1, all others equal; of the same shape and dtype, but for float16 written out in float32."""
    close, narrow = CLOSE, theirs.dtype == np.float16 and mine.dtype == np.float32
    if narrow:
        theirs, close = theirs.astype(np.float32), CLOSE_FLOAT16
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False
    if mine.dtype.kind != "f":
        most = mine.dtype.kind in "iu" and mine.dtype.itemsize < 4
        return bool((np.abs(mine.astype(np.int64) - theirs.astype(np.int64)) <= most).all())
    finite = np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)
    return bool(np.allclose(mine, theirs, rtol=0.0, atol=close * finite, equal_nan=True))


def _fragment(each: DecompositionRound, replaced: ReplacedNode) -> tuple[onnx.ModelProto, list[str]]:
    """Returns the nodes in the place of one as a model, and its outputs that they make."""
    graph, nodes = each.before.graph, replaced.nodes
    known = {i.name: i for i in [*graph.initializer, *each.after.graph.initializer]}
    graphs = (graph, each.after.graph)  # the later one says in which type a tensor is read
    infos = {v.name: v for g in graphs for v in [*g.value_info, *g.input, *g.output]}
    made, read = {o for n in nodes for o in n.output}, {i for n in nodes for i in n.input if i}
    outputs = [o for o in replaced.outputs if o in made]
    fragment = onnx.helper.make_graph(
        nodes,
        "written out",
        [infos[n] for n in sorted(read - made - known.keys())],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [known[n] for n in sorted((read - made) & known.keys())],
    )
    version = max(each.before.ir_version, 4)
    model = onnx.helper.make_model(fragment, opset_imports=list(each.before.opset_import), ir_version=version)
    return model, outputs

"""Replaces operators that have a page in `decompositions` by simpler ones, and checks the results against the
originals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
import onnx
from onnx import helper

from qverify.errors import InternalError, UnsupportedError
from qverify.onnx_model.complete_shapes import complete_shapes, numpy_type
from qverify.onnx_model.engine import Array
from qverify.onnx_model.float16_ends import FLOAT, check_ends, float16_ends, restore_ends, set_ends
from qverify.onnx_model.fold_constants import FLOAT8
from qverify.onnx_model.node_order import outer_reads, sort_nodes
from qverify.onnx_model.open_exposed import open_exposed
from qverify.onnx_model.own_inputs import run_on_own_inputs
from qverify.onnx_model.rewriter import Rewriter, attribute
from qverify.onnx_model.widen_constants import PER_BYTE
from qverify.onnx_model.widen_float16 import NARROW, has_float16, widen, widen_constants_of_float16
from qverify.onnx_model.written_loops import LoopWriter, finish_steps, write_loops_out
from qverify.pages import load_page, load_pages, page_sources

BFLOAT16 = onnx.TensorProto.BFLOAT16
FOLDER = "qverify.onnx_model.decompositions"
Write = Callable[[Rewriter, onnx.NodeProto], bool | None]
MAX_ROUNDS = 4  # a replacement may contain operators that are replaced in turn


@dataclass(slots=True)
class ReplacedNode:
    """One node that was replaced, together with the activation after it if that was absorbed.

    nodes: the nodes that replace them. any_order: whether ONNX leaves the order of the outputs open. valid: values of
    inputs, each for a comparison of its own; none for one with the values of the run."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: list[onnx.NodeProto]
    any_order: bool = False
    valid: list[dict[str, Array]] = field(default_factory=list)


@dataclass(slots=True)
class DecompositionRound:
    """One pass over the model: the nodes it replaced, and the model before and after."""

    before: onnx.ModelProto
    after: onnx.ModelProto
    replaced: list[ReplacedNode]


@dataclass(slots=True)
class DecomposedModel:
    """A model after decomposition.

    model: the result, with static shapes. refused: nodes whose form has no decomposition, each with the reason."""

    model: onnx.ModelProto
    rounds: list[DecompositionRound]
    refused: list[tuple[onnx.NodeProto, UnsupportedError]]


@cache
def _writers() -> dict[tuple[str, str], Write]:
    """Returns the functions of all pages, by domain and type of the operator they replace."""
    writers: dict[tuple[str, str], Write] = {}
    for page in load_pages(FOLDER, ("REPLACED",)):
        if twice := writers.keys() & page.REPLACED.keys():
            raise ImportError(f"{page.__name__}: another page replaces {sorted(twice)[0][1]}, too; wanted one")
        writers |= page.REPLACED
    return writers


@cache
def _loaded(page: str) -> dict[tuple[str, str], Write]:
    replaced: dict[tuple[str, str], Write] = load_page(FOLDER, page, ("REPLACED",)).REPLACED
    return replaced


@cache
def _stated_keys() -> dict[str, str]:
    """Returns the part of each page's source that contains the types of the operators that it replaces, in double quotes: what
    follows REPLACED, or all of it if these are computed, or nothing is known of it."""
    texts = {}
    for page, source in page_sources(FOLDER).items():
        stated = source.partition("\nREPLACED")[2]
        texts[page] = source if not stated or " for " in stated or "**" in stated else stated
    return texts


def _writers_of(graph: onnx.GraphProto) -> dict[tuple[str, str], Write]:
    """Returns the functions of the pages that replace an operator of the graph, and maybe others: importing all takes longer
    than a small model."""
    kinds = {f'"{node.op_type}"' for node in graph.node}
    pages = [page for page, text in _stated_keys().items() if not text or any(kind in text for kind in kinds)]
    return {key: write for page in pages for key, write in _loaded(page).items()}


class _Known:
    """The operators that a kernel serves or that a page replaces."""

    def __init__(self, served: Collection[str]):
        self._served = served

    def __contains__(self, kind: object) -> bool:
        return kind in self._served or any(kind == replaced for _, replaced in _writers())


def decompose(
    model: onnx.ModelProto, name: str, shapes: dict[str, tuple[int, ...]], served: Collection[str] | None = None
) -> DecomposedModel:
    """Returns the model with these operators replaced, or the model itself if it has none of them.

    model: a model returned by `load`. shapes: dims of dynamic inputs. served: the operators that a kernel serves: a loop
    in which too many others are stays; None if that does not matter. Raises UnsupportedError for an input or output of
    bfloat16."""
    done = DecomposedModel(model, [], [])
    check_ends(model, name)
    known = None if served is None else _Known(served)
    write_loops_out(done, partial(_rewrite, done, name, shapes), known)
    refused, done.refused = done.refused, []
    model = done.model
    if has_float16(model):
        if _rewrite(done, name, shapes, widen) and (ends := float16_ends(model)):
            done.model = restore_ends(done.model, ends)
        refused, done.refused = [*refused, *done.refused], []
    for _ in range(MAX_ROUNDS):
        if not _decompose_once(done, name, shapes):
            break
    done.refused += refused
    return done


def _decompose_once(done: DecomposedModel, name: str, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Replaces the nodes that the model contains now, but not those added by it. Returns whether there were any."""
    writers = _writers_of(done.model.graph)
    if not any(_key(node) in writers for node in done.model.graph.node):
        return False

    def write(rewriter: Rewriter, node: onnx.NodeProto) -> bool | None:
        return writers[_key(node)](rewriter, node) if _key(node) in writers else False

    return _rewrite(done, name, shapes, write)


def _rewrite(done: DecomposedModel, name: str, shapes: dict[str, tuple[int, ...]], write: Write) -> bool:
    """Calls `write` for every node and replaces each node for which it does not return False by the nodes it wrote.
    Returns whether any node was replaced."""
    rewriter, after, new_constants = Rewriter(done.model), list[onnx.NodeProto](), list[onnx.TensorProto]()
    # absorbed: outputs of activations replaced together with the node before them
    replaced, absorbed = list[ReplacedNode](), set[str]()
    done.refused = []
    for node in done.model.graph.node:
        if node.output[0] in absorbed:
            continue
        rewriter.begin(node)
        nodes: list[onnx.NodeProto] = [node]
        try:
            if write(rewriter, node) is not False:
                nodes = rewriter.nodes
                new_constants += rewriter.constants
                replaced.append(_replaced_node(node, rewriter))
                absorbed.update(act.output[0] for act in rewriter.absorbed)
        except UnsupportedError as error:
            done.refused.append((node, error))
        after += nodes
    if replaced:
        model = onnx.ModelProto()
        model.CopyFrom(done.model)
        del model.graph.node[:]
        model.graph.node.extend(after)
        model.graph.initializer.extend(new_constants)
        if write is widen:
            widen_constants_of_float16(model)
            set_ends(model, float16_ends(model), FLOAT)
        if isinstance(write, LoopWriter):
            finish_steps(model, name)
        sort_nodes(model.graph, name)
        complete_shapes(model, name, shapes)
        done.rounds.append(DecompositionRound(done.model, model, replaced))
        done.model = model
    return bool(replaced)


def _replaced_node(node: onnx.NodeProto, rewriter: Rewriter) -> ReplacedNode:
    activations = rewriter.absorbed
    inputs = [*sorted(outer_reads(node)), *(i for act in activations for i in act.input[1:])]
    outputs = [*(activations[-1].output if activations else node.output)]
    any_order = node.op_type == "TopK" and not attribute(node, "sorted", 1)
    inputs, outputs = [*filter(None, inputs)], [*filter(None, outputs)]
    return ReplacedNode(node.op_type, tuple(inputs), tuple(outputs), rewriter.nodes, any_order, rewriter.valid)


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    return ("" if node.domain == "ai.onnx" else node.domain, node.op_type)


# tolerances relative to the largest magnitude: room for another order of float operations, not for a wrong result
CLOSE_FLOAT16 = 2.0**-9
CLOSE = 2.0**-12
# onnxruntime's float32 kernels of these are off by about length * 2^-21 where the length is not a power of two
IN_FLOAT64 = ("DFT", "STFT")
NO_ARRAYS = (*FLOAT8, *PER_BYTE, BFLOAT16)  # types of which onnxruntime takes no arrays


def check_same_values(done: DecomposedModel) -> None:
    """Runs the models on random inputs and raises InternalError if replacing nodes compute other results than the nodes
    they replace."""
    for each in done.rounds:
        _check_round(each)


def _check_round(each: DecompositionRound) -> None:
    constants = {i.name for i in each.before.graph.initializer}
    names = {n for r in each.replaced for n in (*r.inputs, *r.outputs)} - constants
    names -= {i.name for i in each.before.graph.input}
    random = np.random.Generator(np.random.PCG64(0))
    feed = {i.name: _random(random, i) for i in each.before.graph.input if i.name not in constants}
    values = _run(each.before, names, feed)
    for replaced in each.replaced:
        fragment, outputs = _fragment(each, replaced, values)
        if any(i.type.tensor_type.elem_type in NO_ARRAYS for i in fragment.graph.input):
            continue  # such a node is left to the host
        for valid in replaced.valid or [{}]:
            _check_replaced(each, replaced, fragment, outputs, values | valid, bool(valid))


def _check_replaced(
    each: DecompositionRound,
    replaced: ReplacedNode,
    fragment: onnx.ModelProto,
    outputs: list[str],
    values: dict[str, Array],
    alone: bool,
) -> None:
    """Raises InternalError if the fragment computes others than these values. alone: compare with what the replaced node
    computes by itself."""
    inputs = {i.name: values[i.name].astype(numpy_type(i)) for i in fragment.graph.input}
    mine = open_exposed(fragment, []).run(inputs, outputs)
    theirs = _computed_alone(each, replaced, values) if alone else values
    if replaced.any_order:
        mine, theirs = _sorted(replaced, mine), _sorted(replaced, theirs)
    wrong = [name for name in outputs if not is_close(mine[name], theirs[name])]
    by_itself = _computed_alone(each, replaced, values) if wrong and not alone else theirs
    for name in wrong:
        if not is_close(mine[name], by_itself[name]):
            raise InternalError(f"{name}: writing {replaced.kind} out changed it; this is a bug of qverify")


def _run(model: onnx.ModelProto, names: set[str], feed: dict[str, Array]) -> dict[str, Array]:
    """Returns the inputs and these tensors of a run; those of bfloat16, of which onnxruntime returns no arrays, as
    float32."""
    infos = [*model.graph.value_info, *model.graph.output]
    narrow = {v.name for v in infos if v.name in names and v.type.tensor_type.elem_type == BFLOAT16}
    wide = {name: f"{name}/as float32" for name in narrow}
    if narrow:
        casts = [helper.make_node("Cast", [name], [wide[name]], to=FLOAT) for name in sorted(narrow)]
        source, model = model, onnx.ModelProto()
        model.CopyFrom(source)
        model.graph.node.extend(casts)
    fetched = {wide.get(name, name): name for name in sorted(names)}
    feed, results = run_on_own_inputs(open_exposed(model, list(fetched)), feed, list(fetched))
    return feed | {fetched[name]: value for name, value in results.items()}


def _sorted(replaced: ReplacedNode, values: dict[str, Array]) -> dict[str, Array]:
    """Returns the outputs of a TopK whose order ONNX leaves open, each line sorted."""
    axis = attribute(replaced.nodes[-1], "axis", -1)
    return {name: np.sort(values[name], axis) for name in replaced.outputs if name in values}


def _computed_alone(each: DecompositionRound, replaced: ReplacedNode, values: dict[str, Array]) -> dict[str, Array]:
    """Returns the outputs of the replaced node run alone on these values. In the whole model it may compute others:
    between float16 nodes onnxruntime leaves out its own casts, so that a node reads values that were not rounded. A node
    whose float32 kernel is not accurate runs in float64."""
    nodes, needed = list[onnx.NodeProto](), {*replaced.outputs}
    for node in reversed(each.before.graph.node):
        if needed.difference(replaced.inputs).intersection(node.output):
            nodes.insert(0, node)
            needed.update(outer_reads(node))
    before = DecompositionRound(each.before, each.before, [])
    alone = ReplacedNode(replaced.kind, replaced.inputs, replaced.outputs, nodes)
    fragment, outputs = _fragment(before, alone, values)
    if replaced.kind in IN_FLOAT64:
        _compute_in_float64(fragment.graph)
    inputs = {i.name: values[i.name].astype(numpy_type(i)) for i in fragment.graph.input}
    return open_exposed(fragment, []).run(inputs, outputs)


def _compute_in_float64(graph: onnx.GraphProto) -> None:
    """Makes the graph's nodes read what is float32 as float64, and rounds their outputs to float32, in place."""
    floats = [v.name for v in graph.input if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT]
    floats += [i.name for i in graph.initializer if i.data_type == onnx.TensorProto.FLOAT]
    wide = {name: f"{name}/float64" for name in [*floats, *(o.name for o in graph.output)]}
    for node in graph.node:
        node.input[:] = [wide.get(name, name) for name in node.input]
        node.output[:] = [wide.get(name, name) for name in node.output]
    before = [helper.make_node("Cast", [n], [wide[n]], to=onnx.TensorProto.DOUBLE) for n in floats]
    after = [helper.make_node("Cast", [wide[o.name]], [o.name], to=onnx.TensorProto.FLOAT) for o in graph.output]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)


def _random(random: np.random.Generator, value: onnx.ValueInfoProto) -> Array:
    shape, kind = [d.dim_value for d in value.type.tensor_type.shape.dim], numpy_type(value)
    return (random.normal(size=shape) * 2 if kind.kind == "f" else random.integers(0, 2, shape)).astype(kind)


def is_close(mine: Array, theirs: Array) -> bool:
    """Returns whether the replacement's values `mine` match the original node's values `theirs`: floats within CLOSE of
    the largest magnitude, integers of 8 and 16 bits within 1, all others equal. Shape and dtype must be the same,
    except that float16 may be replaced by float32."""
    close = CLOSE
    if theirs.dtype == np.float16 and mine.dtype in (np.float16, np.float32):
        theirs, mine, close = theirs.astype(np.float32), mine.astype(np.float32), CLOSE_FLOAT16
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False
    if mine.dtype.kind != "f":
        tolerance = int(mine.dtype.kind in "iu" and mine.dtype.itemsize < 4)
        return bool((np.abs(mine.astype(np.int64) - theirs.astype(np.int64)) <= tolerance).all())
    largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)
    return bool(np.allclose(mine, theirs, rtol=0.0, atol=close * largest, equal_nan=True))


def _widened(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """Returns the declaration of a float16 or bfloat16 tensor as float32, any other as it is."""
    if value.type.tensor_type.elem_type not in NARROW:
        return value
    wide = onnx.ValueInfoProto.FromString(value.SerializeToString())
    wide.type.tensor_type.elem_type = FLOAT
    return wide


def _fragment(
    each: DecompositionRound, replaced: ReplacedNode, values: Mapping[str, Array]
) -> tuple[onnx.ModelProto, list[str]]:
    """Returns the replacing nodes as a model of their own, and the outputs of the replaced node that they compute.

    values: of tensors, some of which neither model declares: what a loop makes of constants is folded afterwards."""
    graph, nodes = each.before.graph, replaced.nodes
    constants = {i.name: i for i in [*graph.initializer, *each.after.graph.initializer]}
    later = {v.name for v in [*each.after.graph.value_info, *each.after.graph.input, *each.after.graph.output]}
    graphs = (graph, each.after.graph)  # where both declare a tensor, the type in the later one counts
    infos = {v.name: v for g in graphs for v in [*g.value_info, *g.input, *g.output]}
    if each.before is not each.after:  # a constant that widening folded away is declared before it only
        infos = {n: infos[n] if n in later else _widened(infos[n]) for n in infos}
    computed, read = {o for n in nodes for o in n.output}, {i for n in nodes for i in outer_reads(n)}
    for n in read - computed - constants.keys() - infos.keys():
        infos[n] = helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(values[n].dtype), values[n].shape)
    outputs = [o for o in replaced.outputs if o in computed]
    fragment = helper.make_graph(
        nodes,
        "written out",
        [infos[n] for n in sorted(read - computed - constants.keys())],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [constants[n] for n in sorted((read - computed) & constants.keys())],
    )
    version = max(each.before.ir_version, 4)
    model = helper.make_model(fragment, opset_imports=list(each.before.opset_import), ir_version=version)
    return model, outputs

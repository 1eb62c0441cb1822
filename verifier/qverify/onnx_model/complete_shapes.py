"""Finds the shape of every tensor of a model, by inference or, where that fails, by running the model on zeros."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import onnx

from qverify.errors import BadFileError
from qverify.onnx_model.bound_suppression import bound_suppression
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.fold_constants import fold_constants
from qverify.onnx_model.infer_types import Types
from qverify.onnx_model.open_exposed import open_exposed
from qverify.onnx_model.plain_casts import casts_to_identity
from qverify.onnx_model.value_shaped import find_value_shaped, input_that_shapes

Shapes = dict[str, tuple[int, ...]]
MAX_ROUNDS = 8
WINDOWED = ("AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "QLinearConv")


def complete_shapes(model: onnx.ModelProto, name: str, shapes: Shapes) -> None:
    """Folds constants and adds the type and shape of every tensor as value_info, in place.

    What the file states about inner tensors is ignored. Tensors whose shape depends on the values of the inputs get no
    value_info. shapes: the dims the user passed for dynamic inputs. If there are any, the model is always run once, to
    find conflicts that inference misses, such as a Reshape to constant dims. Raises BadFileError if onnxruntime refuses
    the model."""
    graph = model.graph
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    types_from_runs: Types = {}
    for round_number in range(MAX_ROUNDS):
        types = fold_constants(model, types_from_runs)
        if bound_suppression(model, types):
            types = fold_constants(model, types_from_runs)
        _check_windows(graph, types, name)
        unknown = [o for node in graph.node for o in node.output if o and o not in types]
        if not unknown and not (shapes and round_number == 0):
            break
        varying = find_value_shaped(graph, types)
        new_types = {n: t for n, t in _find_types_by_run(model, name, unknown, shapes).items() if n not in varying}
        types |= new_types
        if not new_types:
            break
        types_from_runs |= new_types
    casts_to_identity(graph, types)
    _set_types(graph, types)


def _check_windows(graph: onnx.GraphProto, types: Types, name: str) -> None:
    """Raises BadFileError if a window is larger than its padded input, for which inference gives a negative dim."""
    for node in graph.node:
        dims = types[node.output[0]][1] if node.op_type in WINDOWED and node.output[0] in types else ()
        if min(dims, default=0) < 0:
            raise BadFileError(
                f"{name}: {node.output[0]!r} has dims {list(dims)}, so no elements: the window of {node.op_type} is larger "
                "than its padded input"
            )


def _find_types_by_run(
    model: onnx.ModelProto, name: str, unknown: list[str], shapes: Shapes, feed: Mapping[str, np.ndarray] | None = None
) -> Types:
    """Runs the model and returns the types of the unknown tensors; sequences are left out. feed: None for zeros."""
    names = unknown or [o.name for o in model.graph.output]
    try:
        engine = open_exposed(model, unknown)
        fetched = [n for n in names if n in engine.tensors]
        values = _run_on_zeros(engine, _zeros(model), fetched) if feed is None else engine.run(feed, fetched)
    except BadFileError as error:
        if shaped := _describe_shaping_input(model, unknown):
            raise BadFileError(f"{name}: {shaped}. With zeros, {error}") from error
        if not shapes:
            raise
        options = " ".join(f"--shape {n}={','.join(map(str, dims))}" for n, dims in shapes.items())
        raise BadFileError(f"{name} does not run with {options}: {error}") from error
    return {n: (onnx.helper.np_dtype_to_tensor_dtype(v.dtype), tuple(v.shape)) for n, v in values.items()}


def _run_on_zeros(engine: Engine, zeros: dict[str, np.ndarray], names: list[str]) -> dict[str, np.ndarray]:
    """Returns the named outputs for these inputs, or, if onnxruntime rejects them, for inputs whose integers are 1, as
    lengths and divisors may have to be, or also for random floats, in which a detector may find something."""
    try:
        return engine.run(zeros, names)
    except BadFileError:
        ones = {n: np.ones_like(v) if v.dtype.kind in "iu" else v for n, v in zeros.items()}
        rng = np.random.default_rng(0)
        drawn = {n: rng.random(v.shape).astype(v.dtype) if v.dtype.kind == "f" else v for n, v in ones.items()}
        for feed in (ones, drawn):
            with suppress(BadFileError):
                return engine.run(feed, names)
        raise


def _describe_shaping_input(model: onnx.ModelProto, unknown: list[str]) -> str:
    """Returns which of the unknown shapes depends on the values of which input, "" if none does."""
    constants = {i.name for i in model.graph.initializer}
    inputs = [i.name for i in model.graph.input if i.name not in constants]
    for tensor in unknown:
        if shaping := input_that_shapes(model.graph.node, tensor, inputs):
            return f"the shape of {tensor!r} depends on the values of input {shaping!r}; make that input a constant"
    return ""


def pin_shapes(model: onnx.ModelProto, name: str) -> None:
    """Sets the shapes of tensors computed by nodes with subgraphs (If, Loop, Scan), in place, as far as a run on zeros
    and a run on random values agree on them. Other values may give other shapes, so callers must check them in each
    run."""
    graph = model.graph
    types: Types = {i.name: (i.data_type, tuple(i.dims)) for i in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        kind = value.type.tensor_type
        if kind.elem_type and kind.HasField("shape"):
            types[value.name] = (kind.elem_type, tuple(d.dim_value for d in kind.shape.dim))
    varying = find_value_shaped(graph, types, graphs=False)
    unknown = [o for node in graph.node for o in node.output if o and o not in types and o not in varying]
    if unknown:
        generator = np.random.default_rng(0)
        random_feed = {n: generator.uniform(-1, 1, v.shape).astype(v.dtype) for n, v in _zeros(model).items()}
        first = _find_types_by_run(model, name, unknown, {})
        second = _find_types_by_run(model, name, unknown, {}, random_feed)
        _set_types(graph, types | {n: t for n, t in first.items() if second[n] == t and 0 not in t[1]})


def _set_types(graph: onnx.GraphProto, types: Types) -> None:
    """Writes the types of tensors that nodes compute to the graph's outputs and value_info."""
    finals = {o.name: o for o in graph.output}
    for name in dict.fromkeys(o for node in graph.node for o in node.output if o in types):
        info = onnx.helper.make_tensor_value_info(name, *types[name])
        if name in finals:
            finals[name].CopyFrom(info)
        else:
            graph.value_info.append(info)


def _zeros(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Returns an array of zeros for every input that is not an initializer, by name."""
    constants = {i.name for i in model.graph.initializer}
    return {
        i.name: np.zeros([d.dim_value for d in i.type.tensor_type.shape.dim], numpy_type(i))
        for i in model.graph.input
        if i.name not in constants
    }


def numpy_type(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    """Returns the dtype of a graph input. Raises BadFileError if it is not a tensor of a known element type."""
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    except KeyError:
        raise BadFileError(f"input {value.name!r} is no tensor of a known element type") from None

"""The shape of every tensor of a model: by inference, and where that does not reach, by a run on zeros."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from qverify.errors import BadFileError
from qverify.onnx_model.bound_suppression import bound_suppression
from qverify.onnx_model.fold_constants import fold_constants
from qverify.onnx_model.infer_types import Types
from qverify.onnx_model.open_exposed import open_exposed
from qverify.onnx_model.plain_casts import casts_to_identity
from qverify.onnx_model.value_shaped import value_shaped

Shapes = dict[str, tuple[int, ...]]
MOST_ROUNDS = 8


def complete_shapes(model: onnx.ModelProto, name: str, shapes: Shapes) -> None:
    """Folds constants and gives every tensor its type and shape as value_info, in place; what the file says of inner
    tensors is not used. Tensors whose shape depends on the values of the inputs get none. shapes: those given for
    dynamic inputs; with them the model is run in any case, to find what inference does not see, such as a Reshape to
    constant dims. Raises BadFileError where onnxruntime refuses the model."""
    graph = model.graph
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    ran: Types = {}
    for at in range(MOST_ROUNDS):
        types = fold_constants(model, ran)
        if bound_suppression(model, types):
            types = fold_constants(model, ran)
        unknown = [o for node in graph.node for o in node.output if o and o not in types]
        if not unknown and not (shapes and at == 0):
            break
        varying = value_shaped(graph, types)
        new = {n: t for n, t in _run(model, name, unknown, shapes).items() if n not in varying}
        types |= new
        if not new:
            break
        ran |= new
    casts_to_identity(graph, types)
    _set_types(graph, types)


def _run(
    model: onnx.ModelProto, name: str, unknown: list[str], shapes: Shapes, feed: Mapping[str, np.ndarray] | None = None
) -> Types:
    """Returns the types of the unknown tensors in one run; sequences have none."""
    wanted = unknown or [o.name for o in model.graph.output]
    try:
        engine = open_exposed(model, unknown)
        values = engine.run(_zeros(model) if feed is None else feed, [n for n in wanted if n in engine.tensors])
    except BadFileError as error:
        if not shapes:
            raise
        options = " ".join(f"--shape {n}={','.join(map(str, dims))}" for n, dims in shapes.items())
        raise BadFileError(f"{name} does not run with {options}: {error}") from error
    return {n: (onnx.helper.np_dtype_to_tensor_dtype(v.dtype), tuple(v.shape)) for n, v in values.items()}


def pin_shapes(model: onnx.ModelProto, name: str) -> None:
    """Gives the tensors behind nodes with graphs of their own (If, Loop, Scan) the shapes that a run on zeros and one on
    random values agree on, in place. Whoever uses them has to check them in each run."""
    graph = model.graph
    types: Types = {i.name: (i.data_type, tuple(i.dims)) for i in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        kind = value.type.tensor_type
        if kind.elem_type and kind.HasField("shape"):
            types[value.name] = (kind.elem_type, tuple(d.dim_value for d in kind.shape.dim))
    varying = value_shaped(graph, types, graphs=False)
    unknown = [o for node in graph.node for o in node.output if o and o not in types and o not in varying]
    if unknown:
        generator = np.random.default_rng(0)
        other = {n: generator.uniform(-1, 1, v.shape).astype(v.dtype) for n, v in _zeros(model).items()}
        first, second = _run(model, name, unknown, {}), _run(model, name, unknown, {}, other)
        _set_types(graph, types | {n: t for n, t in first.items() if second[n] == t and 0 not in t[1]})


def _set_types(graph: onnx.GraphProto, types: Types) -> None:
    finals = {o.name: o for o in graph.output}
    for name in dict.fromkeys(o for node in graph.node for o in node.output if o in types):
        info = onnx.helper.make_tensor_value_info(name, *types[name])
        if name in finals:
            finals[name].CopyFrom(info)
        else:
            graph.value_info.append(info)


def _zeros(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Returns zeros for every input that is not an initializer."""
    constants = {i.name for i in model.graph.initializer}
    return {
        i.name: np.zeros([d.dim_value for d in i.type.tensor_type.shape.dim], numpy_type(i))
        for i in model.graph.input
        if i.name not in constants
    }


def numpy_type(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    except KeyError:
        raise BadFileError(f"input {value.name!r} is no tensor of a known element type") from None

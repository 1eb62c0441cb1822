"""A region of float nodes that maps one quantized tensor element by element -> lookup, with a table computed by
onnxruntime itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.compiler.attributes import ANY
from qverify.compiler.builder import Builder
from qverify.compiler.lowerings import elementwise_float, reshape
from qverify.compiler.qoperator import quantized_input, quantized_output
from qverify.compiler.unit import Array, LoweredUnit, microsoft, missing_domain, operand, qlinear_operands
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.graph_view import ELEMENT, GraphView, QuantizedTensor, attributes
from qverify.onnx_model.opsets import quantizer_domain
from qverify.tensors.spec import TensorSpec

ONNX_TYPES: dict[str, dict[str, frozenset[Any] | None]] = {
    **elementwise_float.ONNX_TYPES,
    **reshape.ONNX_TYPES,
}
OPERATORS: dict[str, Any] = {"QLinearSigmoid": {}, "QLinearLeakyRelu": {"alpha": ANY}}
SHAPE_ONLY = tuple(reshape.ONNX_TYPES)
OPERAND = "/operand"  # what the function of a QLinear operator reads
RealTable = Callable[[], Array]


def region(view: GraphView, output: str) -> tuple[QuantizedTensor, list[Any]] | None:
    """Returns the one activation with a single scale that a float tensor depends on element by element, and the nodes
    in between, in order; None if there is no such activation."""
    members: dict[str, Any] = {}
    todo, leaf = [output], ""
    while todo:
        name = todo.pop()
        if view.float_constant(name) is not None:
            continue
        node = view.producer.get(name)
        if node is None:
            return None
        if node.op_type == "DequantizeLinear":
            if leaf and leaf != name:
                return None
            leaf = name
        elif node.op_type not in ONNX_TYPES:
            return None
        elif node.name not in members:
            members[node.name] = node
            for i, source in enumerate(node.input):
                constant = view.float_constant(source) if source else None
                if constant is not None and not (node.op_type in SHAPE_ONLY and i > 0) and constant.size != 1:
                    return None
            todo += [n for n in (node.input[:1] if node.op_type in SHAPE_ONLY else node.input) if n]
    x = view.dequantized(leaf) if leaf else None
    if x is None or x.value is not None or len(x.scale) > 1 or not (x.eight_bit or x.sixteen_bit):
        return None
    size = int(np.prod(view.shape(x.name)))
    if any(int(np.prod(view.shape(n.output[0]))) != size for n in members.values()):
        return None
    return x, sorted(members.values(), key=lambda n: view.order[n.name])


def match_region(view: GraphView, output: str, y: QuantizedTensor) -> LoweredUnit | None:
    """Returns the unit of a QuantizeLinear whose float input depends element by element on one quantized tensor, or
    None."""
    matched = region(view, output)
    if matched is None or len(y.scale) > 1:
        return None
    x, nodes = matched
    # computed once, although a unit is lowered several times
    table = cache(lambda: harvest(view, x, y, output, nodes, unit))
    real = cache(lambda: make_real_table(view, x, y, output, nodes))
    unit = LoweredUnit(y.name, lambda b: lower(b, view, x, y, table(), real()), covers=tuple(n.name for n in nodes))
    if len(nodes) == 1 and nodes[0].op_type in ("Sigmoid", "LeakyRelu") and x.eight_bit and x.dtype == y.dtype:
        attrs = attributes(nodes[0])
        unit.onnx = [
            microsoft(
                f"QLinear{nodes[0].op_type}", [*qlinear_operands(x), y.scale_name, y.zero_name], [y.name], **attrs
            )
        ]
    return unit


def from_operator(view: GraphView, node: Any) -> LoweredUnit:
    x, y = quantized_input(view, node, 0), quantized_output(view, node, 0, 3)
    table = cache(lambda: harvest(view, x, y, "", [], unit))
    function = helper.make_node(
        node.op_type.removeprefix("QLinear"), [OPERAND], [f"{y.name}/real"], f"{y.name}/real", **attributes(node)
    )
    real = cache(lambda: make_real_table(view, x, y, function.output[0], [function]))
    unit = LoweredUnit(y.name, lambda b: lower(b, view, x, y, table(), real()), [node])
    return unit


def harvest(
    view: GraphView, x: QuantizedTensor, y: QuantizedTensor, output: str, nodes: list[Any], unit: LoweredUnit
) -> Array:
    """Returns y for every value of x, computed by onnxruntime with the unit's own operators."""
    every, source, result = _every_value(x), view.fresh("every"), view.fresh("result")
    initializers = {y.scale_name: y.scale.reshape(()), y.zero_name: y.zero_point.reshape(())}
    if unit.onnx:
        kernel = onnx.NodeProto()
        kernel.CopyFrom(unit.onnx[0])
        kernel.input[0], kernel.output[0] = source, result
        body = [kernel]
        initializers |= {x.scale_name: x.scale.reshape(()), x.zero_name: x.zero_point.reshape(())}
    else:
        body, last = _copy_function(view, x, source, output, nodes, initializers)
        y_names = [y.scale_name, y.zero_name]
        body.append(
            helper.make_node(
                "QuantizeLinear", [last, *y_names], [result], domain=quantizer_domain(view.opset, y.sixteen_bit)
            )
        )
    model = _make_model(view, body, (source, every), (result, ELEMENT[y.dtype]), initializers)
    return Engine(model, threads=1).run({source: every})[result]


def make_real_table(
    view: GraphView, x: QuantizedTensor, y: QuantizedTensor, output: str, nodes: list[Any]
) -> RealTable | None:
    """Returns a function that computes the values of y, in LSB without its zero point, before they are rounded: float64,
    for every value of x. Returns None if the nodes only change the quantization."""
    if not nodes:
        return None
    every, source = _every_value(x), view.fresh("every")
    initializers: dict[str, Array] = {}
    body, last = _copy_function(view, x, source, output, nodes, initializers)
    model = _make_model(view, body, (source, every), (last, onnx.TensorProto.FLOAT), initializers)
    return cache(partial(_compute_real_table, model, source, every, last, float(y.scale.reshape(-1)[0])))


def _compute_real_table(model: bytes, source: str, every: Array, result: str, scale: float) -> Array:
    return Engine(model, threads=1).run({source: every})[result].astype(np.float64) / scale


def _every_value(x: QuantizedTensor) -> Array:
    limits = np.iinfo(x.dtype)
    return np.arange(limits.min, limits.max + 1).astype(x.dtype)


def _copy_function(
    view: GraphView, x: QuantizedTensor, source: str, output: str, nodes: list[Any], initializers: dict[str, Array]
) -> tuple[list[onnx.NodeProto], str]:
    """Returns copies of the nodes behind a DequantizeLinear of `source`, and the name of their result. Adds the
    constants that they read to `initializers`."""
    dequantized = view.fresh("every_real")
    initializers |= {x.scale_name: x.scale.reshape(()), x.zero_name: x.zero_point.reshape(())}
    x_names = [source, x.scale_name, x.zero_name]
    body = [
        helper.make_node("DequantizeLinear", x_names, [dequantized], domain=quantizer_domain(view.opset, x.sixteen_bit))
    ]
    leaf = {n.output[0] for n in view.consumers[x.name] if n.op_type == "DequantizeLinear" and n.input[0] == x.name}
    leaf.add(OPERAND)
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        if node.op_type in SHAPE_ONLY:
            copy = helper.make_node("Identity", [node.input[0]], list(node.output))
        for i, name in enumerate(copy.input):
            value = view.float_constant(name) if name else None
            if name in leaf:
                copy.input[i] = dequantized
            elif value is not None:
                initializers[name] = value.reshape(())
        body.append(copy)
    return body, dequantized if output in leaf else output


def _make_model(
    view: GraphView,
    body: list[onnx.NodeProto],
    source: tuple[str, Array],
    result: tuple[str, int],
    initializers: dict[str, Array],
) -> bytes:
    """Returns a serialized model with one input and one output. source: its name and all its values. result: name and
    element type."""
    name, every = source
    graph = helper.make_graph(
        body,
        "table",
        [helper.make_tensor_value_info(name, ELEMENT[str(every.dtype)], every.shape)],
        [helper.make_tensor_value_info(*result, every.shape)],
        [numpy_helper.from_array(np.ascontiguousarray(v), n) for n, v in initializers.items() if n],
    )
    model = helper.make_model(graph, opset_imports=[*view.model.opset_import, *missing_domain(view)])
    model.ir_version = view.model.ir_version
    return bytes(model.SerializeToString())


def lower(
    builder: Builder,
    view: GraphView,
    x: QuantizedTensor,
    y: QuantizedTensor,
    table: Array,
    real_table: RealTable | None = None,
) -> None:
    """Appends the lookup. real_table: as make_real_table() returns it."""
    name = builder.new_constant(f"{y.name}/table", table, TensorSpec(f"{y.name}/table", y.dtype, table.shape))
    builder.tensor(y.spec(y.name, view.shape(y.name)))
    builder.node("lookup", [operand(builder, x, view.shape(x.name)), name], [y.name])
    if real_table is not None:
        builder.real_tables[y.name] = real_table

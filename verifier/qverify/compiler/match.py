"""Matches the nodes of quant.onnx into units: for each, its nodes in the integer ONNX and how to write it to
model.bin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from qverify.compiler.blockers import Blockers
from qverify.compiler.builder import Builder
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.integer_kernels import EIGHT_BIT_FROM, with_known_kernels
from qverify.compiler.integer_model import IntegerModel
from qverify.compiler.lowerings import lowerings
from qverify.compiler.unit import Activation, LoweredUnit, missing_domain, quantized_limits, standard, whole_range
from qverify.errors import InternalError, UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes

Watch = Callable[[str, int, int], None]  # arguments: name of the step, amount done, total amount


@dataclass(slots=True)
class MatchedModel:
    """A matched model.

    Attributes:
        view: the graph that was matched.
        integer: the integer ONNX, None if a node is refused.
        steps: units, and original nodes that belong to none, in running order.
        covers: output tensor of a unit to the names of the ONNX nodes that it stands for.
    """

    view: GraphView
    integer: IntegerModel | None
    steps: list[LoweredUnit | Any]
    covers: dict[str, tuple[str, ...]] = field(default_factory=dict)


def match(view: GraphView, blockers: Blockers, watch: Watch | None = None) -> MatchedModel:
    """Matches all nodes that are not refused, and adds those whose unit cannot be lowered to the blockers."""
    operators, floats = lowerings().operators, lowerings().match_float
    matched: dict[str, LoweredUnit] = {}
    covers: dict[str, tuple[str, ...]] = {}
    for done, node in enumerate(view.nodes, 1):
        unit = None
        if watch is not None:
            watch("matching", done, len(view.nodes))
        with blockers.at(node):
            if node.op_type == "QuantizeLinear":
                unit = _match_unit(view, node, blockers)
            elif node.op_type in operators and node.name not in blockers.nodes:
                unit = operators[node.op_type].from_operator(view, node)
            elif node.op_type in floats and node.name not in blockers.nodes:
                unit = floats[node.op_type].match_float(view, node)
        if unit is not None:
            matched[node.name] = unit
            covers[unit.output] = unit.covers or (node.name,)
    steps, kept = _select_needed(view, matched, blockers, watch)
    return MatchedModel(view, None if blockers else _integer_model(view, kept), steps, covers)


def _match_unit(view: GraphView, quantize: Any, blockers: Blockers) -> LoweredUnit | None:
    """Returns the unit that ends in this QuantizeLinear, or None if it stays a node of its own."""
    y = view.parameters(quantize, quantize.output[0])
    producer = view.producer.get(quantize.input[0])
    if producer is None or blockers.nodes & {producer.name, quantize.name}:
        return None
    pages, act = lowerings(), whole_range(y.dtype)
    core, names = producer, tuple([producer.name])
    if _has_constant_limits(view, producer) and producer.input[0] in view.producer:
        before = view.producer[producer.input[0]]
        if before.op_type in pages.match and view.sole_consumer(producer.input[0]) is not None and len(y.scale) == 1:
            core, names, act = before, (before.name, producer.name), _activation(view, producer, y)
    if core.name in blockers.nodes:
        return None
    page = pages.match.get(core.op_type)
    unit: LoweredUnit | None = page.match(view, core, y, act) if page is not None else None
    if unit is None:
        unit = _match_movement(view, producer, y)
    for match_region in pages.regions if unit is None else ():
        unit = unit or match_region(view, quantize.input[0], y)
    if unit is not None and not unit.covers:
        unit.covers = names
    return unit


def lower_node(stream: FloatStream, node: Any) -> None:
    """Writes a node that belongs to no unit. Raises UnsupportedError if no page lowers it."""
    pages = lowerings()
    if node.name in stream.covered:
        return
    if pages.moves(node):
        source = stream.source(node.input[0])
        outputs = stream.declare(node, like=source)
        pages.move[node.op_type].move(stream.builder, stream.view, node, source, outputs)
    elif node.op_type in pages.lower_float:
        pages.lower_float[node.op_type].lower_float(stream, node)
    else:
        raise stream.no_kernel(node)


def _has_constant_limits(view: GraphView, node: Any) -> bool:
    """Returns whether the node is a Relu, or a Clip whose limits are constants."""
    limits = [name for name in node.input[1:] if name]
    return node.op_type == "Relu" or (
        node.op_type == "Clip" and all(view.float_constant(name) is not None for name in limits)
    )


def _activation(view: GraphView, node: Any, y: QuantizedTensor) -> Activation:
    """Returns the limits of a Relu or Clip in units of y."""
    low, high = 0.0, np.inf
    if node.op_type == "Clip":
        attrs = attributes(node)
        bounds = [view.float_constant(n) if n else None for n in [*node.input[1:], "", ""][:2]]
        low = float(bounds[0].reshape(())) if bounds[0] is not None else float(attrs.get("min", -np.inf))
        high = float(bounds[1].reshape(())) if bounds[1] is not None else float(attrs.get("max", np.inf))
    first, last = quantized_limits(y, min(low, high), high)  # if the limits cross, Clip returns the maximum
    return Activation(first, last, (node.name,), node.input[0])


def _match_movement(view: GraphView, node: Any, y: QuantizedTensor) -> LoweredUnit | None:
    """Returns the unit of DQ -> movement -> Q with equal parameters, which moves integers, or None for any other
    form."""
    if not lowerings().moves(node) or (len(node.output) > 1 and any(node.output[1:])):
        return None
    page = lowerings().move[node.op_type]
    x = view.dequantized(node.input[0])
    if x is None or x.value is not None or len(x.scale) > 1 or not x.same_parameters(y):
        return None

    def lower(builder: Builder) -> None:
        source = builder.tensor(x.spec(x.name, view.shape(x.name)))
        builder.tensor(y.spec(y.name, view.shape(y.name)))
        page.move(builder, view, node, source, [y.name])

    unit = LoweredUnit(y.name, lower)
    kernels = getattr(page, "EIGHT_BIT_KERNELS", ())
    has_kernel = node.op_type in kernels and view.opset >= EIGHT_BIT_FROM.get(node.op_type, 0)
    if x.eight_bit and has_kernel:
        copy = standard(node.op_type, [x.name, *node.input[1:]], [y.name])
        copy.attribute.extend(node.attribute)
        unit.onnx = [copy]
    return unit


def _select_needed(
    view: GraphView, matched: dict[str, LoweredUnit], blockers: Blockers, watch: Watch | None
) -> tuple[list[Any], list[Any]]:
    """Returns the steps for model.bin, without refused ones, and the nodes of the integer ONNX; both without those that
    no output needs. Units that cannot be lowered are added to the blockers."""
    needed_bin, needed_onnx = set(view.outputs), set(view.outputs)
    steps: list[Any] = []
    kept: list[Any] = []
    for done, node in enumerate(reversed(view.nodes), 1):
        if watch is not None:
            watch("lowering", done, len(view.nodes))
        unit = matched.get(node.name)
        if unit is not None and unit.output in needed_bin:
            probe = Builder("ref-exact")
            with blockers.at(node):
                unit.lower(probe)  # shows which tensors the unit reads
                steps.append((node, unit))
            if node.name in blockers.nodes:
                needed_bin |= _outer_inputs(view, unit)
            needed_bin |= {
                n for lowered in probe.nodes for n in lowered.inputs if n is not None and n not in probe.constants
            }
        elif unit is None and needed_bin & set(node.output):
            if node.name not in blockers.nodes:
                steps.append((node, None))
            needed_bin |= set(node.input)
        if unit is not None and unit.onnx and unit.output in needed_onnx:
            kept.append((node, unit))
            needed_onnx |= {n for lowered in unit.onnx for n in lowered.input}
        elif not (unit is not None and unit.onnx) and needed_onnx & set(node.output):
            kept.append((node, None))
            needed_onnx |= set(node.input)
    return [unit or node for node, unit in reversed(steps)], list(reversed(kept))


def _outer_inputs(view: GraphView, unit: LoweredUnit) -> set[str]:
    """Returns the float tensors that the unit's ONNX nodes read from outside it."""
    inside = [view.nodes[view.order[n]] for n in unit.covers if n in view.order]
    return {i for node in inside for i in node.input} - {o for node in inside for o in node.output}


def _integer_model(view: GraphView, kept: list[Any]) -> IntegerModel:
    """Builds the integer ONNX. kept: pairs of a node and its unit, or None. Raises UnsupportedError for a name
    clash."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Any] = {}
    for node, unit in kept:
        if unit is None:
            nodes.append(node)
            continue
        runnable = with_known_kernels(unit, view.opset)
        nodes += runnable.onnx
        for name, value in runnable.constants.items():
            if name in constants and not np.array_equal(constants[name], value):
                raise InternalError(f"{view.file}: two values of {name!r}; this is a bug of qverify")
            constants[name] = value
    clash = (constants.keys() | {o for node in nodes for o in node.output} - set(view.producer)) & view.tensors
    if clash:
        raise UnsupportedError(
            f"{view.file}: the tensor name {min(clash)!r} is one the compiler makes; rename that tensor"
        )
    used = {n for node in nodes for n in node.input}
    constants |= {n: v for n, v in view.constants.items() if n in used}
    source = view.model.graph
    return IntegerModel(
        onnx.ModelProto(ir_version=view.model.ir_version, producer_name="qverify"),
        onnx.GraphProto(node=nodes, name="integer"),
        {n: constants[n] for n in sorted(constants) if n in used},
        onnx.GraphProto(input=[i for i in source.input if i.name in view.inputs], output=source.output),
        onnx.ModelProto(opset_import=[*view.model.opset_import, *missing_domain(view)], functions=view.model.functions),
    )

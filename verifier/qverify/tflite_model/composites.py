"""Writes the operators of a composite (STABLEHLO_COMPOSITE) in its place: the subgraph that it names, which LiteRT runs for it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from qverify.tflite_model.interpreter import open_object, pack_object
from qverify.tflite_model.read_tflite import DAMAGE_ERRORS, MAX_COUNT, TfliteModel, schema

COMPOSITE = "STABLEHLO_COMPOSITE"


def inline_composites(data: bytes, model: TfliteModel) -> tuple[bytes, list[str]]:
    """Returns the file with the operators of each composite of its first subgraph in its place, and a line on it; the file itself
    and no line if there is none, or none can be written so. model: the file's contents."""
    if not any(o.kind == COMPOSITE for o in model.operators):
        return data, []
    module = schema()
    try:
        source = open_object(module, data)
        names = _inline(module, source)
        if not names:
            return data, []
        return pack_object(source), [f"composites are run as the operators of their subgraphs: {', '.join(names)}"]
    except DAMAGE_ERRORS:
        return data, []


def _inline(module: Any, source: Any) -> list[str]:
    """Replaces the composites of the first subgraph, in place. Returns the names of those that were replaced."""
    graph, names = source.subgraphs[0], dict[str, None]()
    todo, done = [*reversed(graph.operators)], list[Any]()
    while todo:
        operator = todo.pop()
        code = source.operatorCodes[operator.opcodeIndex]
        body = None
        if code.builtinCode == module.BuiltinOperator.STABLEHLO_COMPOSITE:
            body = _body(module, source, graph, operator)
        if body is None:
            done.append(operator)
        else:
            name = operator.builtinOptions2.name or b""
            names[name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)] = None
            todo += reversed(body)
        if len(done) + len(todo) > MAX_COUNT or len(graph.tensors) > MAX_COUNT:
            raise ValueError("too many operators")
    graph.operators = done
    return [*names]


def _body(module: Any, source: Any, graph: Any, operator: Any) -> list[Any] | None:
    """Returns the operators of a composite's subgraph with the numbers of tensors of `graph`, to which its tensors are added; None
    if they would not compute the same."""
    options = operator.builtinOptions2
    number = int(options.decompositionSubgraphIndex) if options is not None else 0
    if not 0 < number < len(source.subgraphs):
        return None
    body = source.subgraphs[number]
    ends = [(body.inputs, operator.inputs), (body.outputs, operator.outputs)]
    if any(len(inner) != len(outer) for inner, outer in ends) or {*body.inputs} & {*body.outputs}:
        return None
    index = {int(a): int(b) for inner, outer in ends for a, b in zip(inner, outer, strict=True)}
    if len(index) < len(body.inputs) + len(body.outputs) or min(index.values(), default=0) < 0:
        return None
    return placed(graph, body, index)


def placed(graph: Any, body: Any, index: dict[int, int]) -> list[Any] | None:
    """Returns the operators of a subgraph with the numbers of tensors of `graph`, to which its other tensors are added; None if they
    would not compute the same. index: tensors of the subgraph that are tensors of `graph`; receives all others."""
    if any(not alike(body.tensors[a], graph.tensors[b]) for a, b in index.items()):
        return None
    made = {int(i) for o in body.operators for i in o.outputs}
    if any(t.isVariable for t in body.tensors) or not {*map(int, body.outputs)} <= made | {*map(int, body.inputs)}:
        return None
    for inner, tensor in enumerate(body.tensors):
        if inner not in index:
            index[inner] = len(graph.tensors)
            graph.tensors.append(copy(tensor))
    return [_renumbered(o, index) for o in body.operators]


def _renumbered(operator: Any, index: Mapping[int, int]) -> Any:
    """Returns a copy of the operator with other numbers of its tensors."""
    moved = copy(operator)
    for field in ("inputs", "outputs", "intermediates"):
        numbers = getattr(operator, field)
        setattr(moved, field, None if numbers is None else [index.get(int(i), -1) for i in numbers])
    return moved


def alike(a: Any, b: Any) -> bool:
    """Returns whether two tensors have the same type, dims and quantization."""
    return a.type == b.type and [*_listed(a.shape)] == [*_listed(b.shape)] and _quantized(a) == _quantized(b)


def _quantized(tensor: Any) -> tuple[list[float], list[int], bool]:
    about = tensor.quantization
    if about is None:
        return [], [], False
    return [*map(float, _listed(about.scale))], [*map(int, _listed(about.zeroPoint))], about.details is not None


def _listed(values: Any) -> Any:
    return [] if values is None else values

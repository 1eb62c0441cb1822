"""--strip-io-quant: removes QuantizeLinear at inputs and DequantizeLinear at outputs, so that these are integers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx

from qverify.errors import UnsupportedError

Ends = dict[str, dict[str, str]]


def strip_quantization(
    model: onnx.ModelProto, name: str, only: Collection[str] | None = None
) -> tuple[onnx.ModelProto, Ends]:
    """Returns the stripped model, and {"inputs": {integer name: float name}, "outputs": {...}} for what was stripped.

    only: strip these inputs and no output; None for all that can be stripped.

    An input is stripped if one per-tensor QuantizeLinear alone reads it, an output if a DequantizeLinear computes it.
    Raises UnsupportedError if there is nothing to strip."""
    stripped = onnx.ModelProto()
    stripped.CopyFrom(model)
    graph = stripped.graph
    constants = {i.name for i in graph.initializer}
    readers, makers = _readers(graph), {o: n for n in graph.node for o in n.output}
    kinds = {v.name: v for v in [*graph.value_info, *graph.output, *graph.input]}
    removed: set[str] = set()  # first outputs of the removed nodes
    inputs: dict[str, str] = {}
    outputs: dict[str, str] = {}
    for value in list(graph.input):
        if only is not None and value.name not in only:
            continue
        users = readers.get(value.name, [])
        if value.name in constants or len(users) != 1 or users[0].op_type != "QuantizeLinear":
            continue
        inputs[users[0].output[0]] = value.name
        value.CopyFrom(kinds[users[0].output[0]])
        removed.add(users[0].output[0])
    taken = {o.name for o in graph.output} | {i.name for i in graph.input} | constants
    for value in list(graph.output) if only is None else []:
        maker = makers.get(value.name)
        if maker is None or maker.op_type != "DequantizeLinear" or maker.input[0] in taken:
            continue
        taken.add(maker.input[0])
        outputs[maker.input[0]] = value.name
        value.CopyFrom(kinds[maker.input[0]])
    if only is not None:
        _check_all_stripped(only, inputs, name)
    elif not inputs and not outputs:
        raise UnsupportedError(
            f"{name}: --strip-io-quant finds no QuantizeLinear at an input and no DequantizeLinear at an output; leave the option out"
        )
    _drop_nodes(graph, removed)
    return stripped, {"inputs": inputs, "outputs": outputs}


def _check_all_stripped(only: Collection[str], inputs: dict[str, str], file: str) -> None:
    """Raises UnsupportedError if one of these inputs could not be stripped."""
    for name in only:
        if name not in inputs.values():
            raise UnsupportedError(
                f"{file}: --input {name}=featuremap is quantized on the host, which needs one QuantizeLinear that alone reads {name}"
            )


def _readers(graph: Any) -> dict[str, list[Any]]:
    """Returns the nodes that read each tensor, each node once."""
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in dict.fromkeys(node.input):
            readers.setdefault(name, []).append(node)
    return readers


def _drop_nodes(graph: Any, removed: set[str]) -> None:
    """Removes the nodes with these outputs, and DequantizeLinear nodes that nothing reads any more, in place."""
    kept = [n for n in graph.node if not removed.intersection(n.output)]
    read = {n for node in kept for n in node.input} | {o.name for o in graph.output}
    kept = [n for n in kept if n.op_type != "DequantizeLinear" or n.output[0] in read]
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in kept]  # the originals vanish with the list
    del graph.node[:]
    graph.node.extend(copies)

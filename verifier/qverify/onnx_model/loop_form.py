"""Reads a Loop or a Scan: its body, the tensors that it hands from step to step, slices and stacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute

FIRST_SCAN = 9  # the opset from which on Scan has no batch dim


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that each step hands to the next.

    start: its name before the first step. inside, result: its names in the body, before and after a step. final: the
    node's output, "" if it is not read."""

    start: str
    inside: str
    result: str
    final: str


@dataclass(frozen=True, slots=True)
class Sliced:
    """An input of a Scan of which each step reads one slice. source: its name. inside: the slice's name in the body."""

    source: str
    inside: str
    axis: int
    backward: bool


@dataclass(frozen=True, slots=True)
class Stacked:
    """An output to which each step adds a slice. result: the slice's name in the body. final: the node's output."""

    result: str
    final: str
    axis: int
    backward: bool


@dataclass(frozen=True, slots=True)
class LoopForm:
    """A Loop or a Scan. counters: of a Loop, the body's names of the step's number and of the condition."""

    body: onnx.GraphProto
    states: list[State]
    sliced: list[Sliced]
    stacked: list[Stacked]
    counters: list[onnx.ValueInfoProto]


def is_loop(node: onnx.NodeProto) -> bool:
    """Returns whether the node is a Loop or a Scan."""
    return node.op_type in ("Loop", "Scan") and node.domain in ("", "ai.onnx")


def name_of(node: onnx.NodeProto) -> str:
    """Returns the node's name or, without one, that of its first output."""
    return str(node.name or first_output(node))


def first_output(node: onnx.NodeProto) -> str:
    """Returns the node's first output that has a name."""
    return next(str(o) for o in node.output if o)


def read_form(r: Rewriter, node: onnx.NodeProto) -> LoopForm:
    """Returns the form of a Loop or a Scan; its body is a copy. Raises UnsupportedError for forms that stay."""
    if node.op_type == "Scan" and r.opset < FIRST_SCAN:
        raise r.refusal(f"Scan of opset {r.opset} has a batch dim. Export the model with opset {FIRST_SCAN} or later")
    body = onnx.GraphProto()
    body.CopyFrom(attribute(node, "body", None))
    others = ("sequence_type", "map_type", "optional_type", "sparse_tensor_type")
    if body.sparse_initializer or any(v.type.HasField(k) for k in others for v in (*body.input, *body.output)):
        raise r.refusal("its body has a constant, an input or an output that is no plain tensor")
    results, inside = _names(body.output), _names(body.input)
    wrong = next((n for at, n in enumerate(results) if n in inside or n in results[:at]), "")
    if node.op_type == "Scan" and wrong:  # measured on onnxruntime 1.32.0
        raise r.refusal(
            f"its body returns {wrong!r} twice or from its inputs, which onnxruntime computes wrongly. Return an Identity of it"
        )
    try:
        return _loop(node, body) if node.op_type == "Loop" else _scan(node, body)
    except ValueError:
        raise r.refusal("its inputs and outputs are not as many as those of its body") from None


def _loop(node: onnx.NodeProto, body: onnx.GraphProto) -> LoopForm:
    """Returns the form of a Loop: its inputs are the number of steps, the condition and the states; the body's are the
    step's number, the condition and the states, its outputs the condition, the states and the slices to stack."""
    starts, inside, results = list(node.input[2:]), _names(body.input)[2:], _names(body.output)[1:]
    ends = _padded(node, len(results))
    stacked = [Stacked(n, end, 0, False) for n, end in zip(results[len(starts) :], ends[len(starts) :], strict=True)]
    states = _states(starts, inside, results[: len(starts)], ends[: len(starts)])
    return LoopForm(body, states, [], stacked, list(body.input[:2]))


def _scan(node: onnx.NodeProto, body: onnx.GraphProto) -> LoopForm:
    """Returns the form of a Scan: inputs are the states and what is sliced, outputs the states and what is stacked."""
    sliced = attribute(node, "num_scan_inputs", 0)
    count = len(node.input) - sliced
    inside, results = _names(body.input), _names(body.output)
    ends, stacked = _padded(node, len(results)), len(results) - count
    axes, backward = _each(node, "scan_input", sliced)
    inputs = zip(node.input[count:], inside[count:], axes, backward, strict=True)
    axes, backward = _each(node, "scan_output", stacked)
    outputs = zip(results[count:], ends[count:], axes, backward, strict=True)
    states = _states(list(node.input[:count]), inside[:count], results[:count], ends[:count])
    return LoopForm(body, states, [Sliced(*i) for i in inputs], [Stacked(*o) for o in outputs], [])


def _each(node: onnx.NodeProto, kind: str, count: int) -> tuple[list[int], list[bool]]:
    """Returns the axes of a Scan's inputs or outputs, and whether their slices are in backward order."""
    axes, directions = (attribute(node, f"{kind}_{what}", [0] * count) for what in ("axes", "directions"))
    return list(axes), [bool(d) for d in directions]


def _states(starts: list[str], inside: list[str], results: list[str], ends: list[str]) -> list[State]:
    return [State(*names) for names in zip(starts, inside, results, ends, strict=True)]


def _names(values: Iterable[onnx.ValueInfoProto]) -> list[str]:
    return [v.name for v in values]


def _padded(node: onnx.NodeProto, count: int) -> list[str]:
    """Returns the node's outputs, with "" for those that it omits at the end."""
    return [*node.output, *[""] * count][:count]

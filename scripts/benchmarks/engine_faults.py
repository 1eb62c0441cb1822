"""Faults for real engines: in the model that an engine gets, and in what it is given or gives back (faulty_engine.py)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
SUMS = ("Conv", "Gemm", "MatMul", "ConvTranspose")
INPUTS = ("bgr", "half", "layout", "other")  # what an application does to an input
NAMED = {"bgr": ("red and blue",)}  # words of a report that name it
TENSORS = ("exchange", "element", "channel", "late")


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        kind: in words.
        places: tensors of the network at which it is located, by the report's names.
        model: bytes of the model with it, or b"" if the model is the right one.
        given: what faulty_engine.py is told, or {} if the engine is started as it is.
        words: words of a line of the report of which one locates it, too.
        every: words that must all be in one line, together with "exchange".
    """

    kind: str
    places: tuple[str, ...]
    model: bytes = b""
    given: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    every: tuple[str, ...] = ()


def draw_dump_fault(rows: list[dict[str, Any]], first: tuple[str, ...], image: bool, chance: random.Random) -> Fault:
    """Draws a fault in what an engine is given or gives back. rows: the tensors of the healthy run. first: what the
    network computes from its inputs. image: whether they are pictures of three channels."""
    kinds = [*TENSORS, *TENSORS, *(kind for kind in INPUTS if image or kind in ("half", "other"))]
    kind = chance.choice(kinds)
    if kind in INPUTS:
        return Fault(f"input: {kind}", first, given={"input": kind}, words=NAMED.get(kind, ()))
    rows = [row for row in rows if row["elements"] and max(row["shape"], default=1) > 1]
    row = chance.choice(rows)
    if kind == "exchange":
        twins = [r for r in rows if r is not row and (r["shape"], r["dtype"]) == (row["shape"], row["dtype"])]
        if twins:
            names = [row["name"], chance.choice(twins)["name"]]
            return Fault("output: exchange", tuple(names), given={"tensors": kind, "names": names}, every=tuple(names))
        kind = "late"
    given = {"tensors": kind, "names": [row["name"]], "place": chance.random()}
    return Fault(f"output: {kind}", (row["name"],), given=given)


class OnnxFaults:
    """Draws faults in a quantized ONNX, each at a convolution or product."""

    def __init__(self, path: Path):
        self.path = path
        self._read()

    def _read(self) -> None:
        self.model = onnx.load(self.path)
        self.constants = {t.name: t for t in self.model.graph.initializer}
        self.makers = {o: n for n in self.model.graph.node for o in n.output}
        self.sums = [n for n in self.model.graph.node if n.op_type in SUMS and self.constant(n.input[1]) is not None]

    def draw(self, chance: random.Random) -> Fault | None:
        """Returns a fault; None if the one that was drawn does not apply."""
        self._read()
        kind = chance.choice([*MODEL_KINDS])
        node = chance.choice(self.sums)
        nodes = MODEL_KINDS[kind](self, node, chance)
        if not nodes:
            return None
        places = tuple(dict.fromkeys(name for n in nodes for name in behind(n, self.model)))
        return Fault(f"model: {kind}", places, self.model.SerializeToString())

    def constant(self, name: str) -> Any:
        """Returns the constant behind a DequantizeLinear, or of this name."""
        while name in self.makers and self.makers[name].op_type == "DequantizeLinear":
            name = self.makers[name].input[0]
        return self.constants.get(name)

    def values(self, node: Any, place: int) -> Array | None:
        """Returns a copy of a constant of a node."""
        tensor = self.constant(node.input[place]) if len(node.input) > place else None
        return None if tensor is None else numpy_helper.to_array(tensor).copy()

    def put(self, node: Any, place: int, values: Array) -> list[Any]:
        """Gives a node another constant. Returns the nodes that it changes."""
        tensor = self.constant(node.input[place])
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), tensor.name))
        return [n for n in self.sums if any(self.constant(i) is tensor for i in n.input[1:])]


def _axis(node: Any) -> int:
    """Returns the axis of the output channels of a node's weights."""
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    return 0 if node.op_type == "Conv" or transposed else 1


def _reordered(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    return faults.put(node, 1, np.flip(_known(faults, node), _axis(node)))


def _channel_of_zeros(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    weights = np.moveaxis(_known(faults, node), _axis(node), 0)
    weights[chance.randrange(len(weights))] = 0
    return faults.put(node, 1, np.moveaxis(weights, 0, _axis(node)))


def _one_weight(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    weights = _known(faults, node)
    flat = weights.reshape(-1)
    place = chance.randrange(flat.size)
    flat[place] = 100 if flat[place] < 0 else -100
    return faults.put(node, 1, weights)


def _negated(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    weights = _known(faults, node)
    return faults.put(node, 1, np.negative(np.maximum(weights, -127))) if weights.dtype == np.int8 else []


def _one_bias(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    bias = faults.values(node, 2)
    if bias is None:
        return []
    bias.reshape(-1)[chance.randrange(bias.size)] += chance.choice((-1, 1)) * max(int(np.abs(bias).max()) // 2, 200)
    return faults.put(node, 2, bias)


def _no_bias(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    bias = faults.values(node, 2)
    return [] if bias is None else faults.put(node, 2, np.zeros_like(bias))


def _late_channel(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    return faults.put(node, 1, np.roll(_known(faults, node), 1, _axis(node)))


def _weights_of_another(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    mine = _known(faults, node)
    twins = [n for n in faults.sums if n is not node and _known(faults, n).shape == mine.shape]
    if not twins:
        return []
    other = chance.choice(twins)
    theirs = _known(faults, other)
    return [*faults.put(node, 1, theirs), *faults.put(other, 1, mine)]


def _another_training(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    rng = np.random.default_rng(chance.randrange(1 << 30))
    for one in faults.sums:
        weights = _known(faults, one)
        faults.put(one, 1, np.clip(weights + rng.integers(-12, 13, weights.shape), -127, 127).astype(weights.dtype))
    return [*faults.sums]


def _pads(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    for attribute in node.attribute:
        if attribute.name == "pads" and len(attribute.ints) == 4 and any(attribute.ints):
            top, left, bottom, right = attribute.ints
            moved = [bottom, right, top, left] if (top, left) != (bottom, right) else [top + bottom, left + right, 0, 0]
            attribute.ints[:] = moved
            return [node]
    return []


def _weight_scale(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    maker = faults.makers.get(node.input[1])
    scale = faults.constants.get(maker.input[1]) if maker is not None else None
    if scale is None:
        return []
    values = numpy_helper.to_array(scale).copy()
    values.reshape(-1)[chance.randrange(values.size)] *= chance.choice((0.5, 2, 1.25))
    scale.CopyFrom(numpy_helper.from_array(values, scale.name))
    return [n for n in faults.sums if any(scale.name in faults.makers[i].input for i in n.input if i in faults.makers)]


def _zero_point(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    """Gives the QuantizeLinear of the result another zero point than those that read it have."""
    names = {*behind(node, faults.model)}
    last = next((n for n in faults.model.graph.node if n.op_type == "QuantizeLinear" and n.output[0] in names), None)
    stated = faults.constants.get(last.input[2]) if last is not None and len(last.input) > 2 else None
    if last is None or stated is None:
        return []
    value = int(numpy_helper.to_array(stated))
    limits = np.iinfo(numpy_helper.to_array(stated).dtype)
    other = value + 4 if value + 4 <= limits.max else value - 4
    name = f"{stated.name}_other"
    faults.model.graph.initializer.append(numpy_helper.from_array(np.array(other, limits.dtype), name))
    last.input[2] = name
    return [node]


def _lost_activation(faults: OnnxFaults, node: Any, chance: random.Random) -> list[Any]:
    """Lets the negative values of a result pass: its Relu becomes an Identity."""
    reader = next((n for n in faults.model.graph.node if node.output[0] in n.input), None)
    if reader is None or reader.op_type not in ("Relu", "Clip"):
        return []
    plain = helper.make_node("Identity", [reader.input[0]], [*reader.output], name=reader.name)
    reader.CopyFrom(plain)
    return [node]


def _known(faults: OnnxFaults, node: Any) -> Array:
    values = faults.values(node, 1)
    assert values is not None  # sums have constant weights
    return values


MODEL_KINDS: dict[str, Callable[[OnnxFaults, Any, random.Random], list[Any]]] = {
    "weights in another order": _reordered,
    "a channel of weights is 0": _channel_of_zeros,
    "one weight": _one_weight,
    "weights with the other sign": _negated,
    "one bias": _one_bias,
    "no bias": _no_bias,
    "weights one channel late": _late_channel,
    "weights of another layer": _weights_of_another,
    "another training": _another_training,
    "pads on the other side": _pads,
    "scale of a weight": _weight_scale,
    "zero point of a result": _zero_point,
    "a lost activation": _lost_activation,
}


class TfliteFaults:
    """Draws faults in a .tflite: weights and biases of its convolutions and products."""

    OPS = (3, 4, 9)  # CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED

    def __init__(self, path: Path):
        self.path = path

    def draw(self, chance: random.Random) -> Fault | None:
        """Returns a fault; None if the one that was drawn does not apply."""
        import flatbuffers
        from ai_edge_litert import schema_py_generated as schema

        model = schema.ModelT.InitFromPackedBuf(bytearray(self.path.read_bytes()), 0)
        graph = model.subgraphs[0]
        codes = [max(c.builtinCode, c.deprecatedBuiltinCode) for c in model.operatorCodes]
        sums = [o for o in graph.operators if codes[o.opcodeIndex] in self.OPS]
        kind = chance.choice([*TFLITE_KINDS])
        one = chance.choice(sums)
        chosen = sums if kind == "another training" else [one]
        for operator in chosen:
            place, dtype = (2, "<i4") if "bias" in kind else (1, "<i1")
            if len(operator.inputs) <= place or operator.inputs[place] < 0:
                return None
            buffer = model.buffers[graph.tensors[operator.inputs[place]].buffer]
            values = np.frombuffer(np.asarray(buffer.data, np.uint8).tobytes(), dtype).copy()
            shape = graph.tensors[operator.inputs[place]].shape
            depthwise = codes[operator.opcodeIndex] == 4
            changed = TFLITE_KINDS[kind](values.reshape(shape), -1 if depthwise else 0, chance)
            buffer.data = np.frombuffer(np.ascontiguousarray(changed, dtype).tobytes(), np.uint8)
        builder = flatbuffers.Builder(0)
        builder.Finish(model.Pack(builder), b"TFL3")
        names = tuple(graph.tensors[o].name.decode().split(";")[0] for operator in chosen for o in operator.outputs)
        return Fault(f"model: {kind}", names, bytes(builder.Output()))


def _flat_change(values: Array, chance: random.Random, to: Callable[[int], int]) -> Array:
    place = chance.randrange(values.size)
    values.reshape(-1)[place] = to(int(values.reshape(-1)[place]))
    return values


def _without(values: Array, axis: int, chance: random.Random) -> Array:
    values = np.moveaxis(values, axis, 0)
    values[chance.randrange(len(values))] = 0
    return np.moveaxis(values, 0, axis)


def _trained(values: Array, axis: int, chance: random.Random) -> Array:
    rng = np.random.default_rng(chance.randrange(1 << 30))
    return np.clip(values + rng.integers(-12, 13, values.shape), -127, 127)


TFLITE_KINDS: dict[str, Callable[[Array, int, random.Random], Array]] = {
    "weights in another order": lambda v, axis, chance: np.flip(v, axis),
    "weights one channel late": lambda v, axis, chance: np.roll(v, 1, axis),
    "a channel of weights is 0": _without,
    "weights with the other sign": lambda v, axis, chance: np.negative(np.maximum(v, -127)),
    "one weight": lambda v, axis, chance: _flat_change(v, chance, lambda old: 100 if old < 0 else -100),
    "another training": _trained,
    "one bias": lambda v, axis, chance: _flat_change(v, chance, lambda old: old + max(int(np.abs(v).max()) // 2, 200)),
    "no bias": lambda v, axis, chance: np.zeros_like(v),
}


def behind(node: Any, model: Any) -> list[str]:
    """Returns the outputs of the node and of the nodes after it, up to and with the next QuantizeLinear."""
    names, todo = [], [*node.output]
    while todo:
        name = todo.pop()
        names.append(name)
        for reader in (n for n in model.graph.node if name in n.input):
            if reader.op_type == "QuantizeLinear":
                names += reader.output
            elif reader.op_type not in ("DequantizeLinear", *SUMS):
                todo += reader.output
    return names


def blames(report: dict[str, Any]) -> dict[str, str]:
    """Returns the nodes at which the board is blamed, in order, each with the reason."""
    return {b["node"]: b.get("why") or "" for b in report.get("blamed", []) if b["side"] == "board"}


def is_located(report: dict[str, Any], fault: Fault, right: dict[str, str]) -> bool:
    """Returns whether the first of the board's blamed nodes, those that are blamed for the same without a fault (right)
    left out, is one of the fault's places or a region with one, or whether a line of the report names the mistake."""
    for blame in report.get("blamed", []):
        if blame["side"] != "board" or right.get(blame["node"]) == (blame.get("why") or ""):
            continue
        nodes = [blame["node"], *((blame.get("region") or {}).get("nodes") or [])]
        if any(node in fault.places or node.startswith(fault.places) for node in nodes):
            return True
        break
    lines = list(_lines(report))
    if fault.every and any("exchange" in line and all(name in line for name in fault.every) for line in lines):
        return True
    if not fault.given.get("input"):
        return False
    causes = {pair.get("cause") for pair in report["pairs"]}
    return bool(causes & {"input", "input_or_first_node"}) or any(
        word in line for word in fault.words for line in lines
    )


def _lines(report: dict[str, Any]) -> list[str]:
    """Returns the sentences of a report in which a mistake may be named."""
    texts = [*report["notes"], *map(json.dumps, report.get("findings") or ())]
    for pair in report["pairs"]:
        texts += [pair.get("why") or "", *map(str, pair.get("notes") or ()), json.dumps(pair.get("others"))]
        texts += [t.get("why") or "" for t in pair["tensors"]]
    return [text for text in texts if text]

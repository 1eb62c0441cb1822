"""Small quantized networks with a state: a recurrent cell, a filter with a ring, decoders with a cache in place and one that
grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STEPS, HEADS, LENGTH, DEPTH, WORDS, WIDTH = 6, 2, 8, 4, 12, 8


class Network:
    """An ONNX graph that is built node by node. random: of the weights."""

    def __init__(self, seed: int = 1):
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.Generator(np.random.PCG64(seed))

    def constant(self, name: str, values: object) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def quantized(self, name: str, scale: float, zero: int = 0) -> str:
        """Quantizes a tensor to int8 and back, and returns the float."""
        ends = [self.constant(f"{name}_s", np.float32(scale)), self.constant(f"{name}_z", np.int8(zero))]
        self.add("QuantizeLinear", [name, *ends], f"{name}_q")
        return self.add("DequantizeLinear", [f"{name}_q", *ends], f"{name}_f")

    def weights(self, name: str, *shape: int) -> str:
        values = self.random.normal(size=shape).astype(np.float32) * 0.3
        scale = np.abs(values).max() / 127
        whole = np.clip(np.rint(values / scale), -127, 127).astype(np.int8)
        ends = [self.constant(f"{name}_s", np.float32(scale)), self.constant(f"{name}_z", np.int8(0))]
        return self.add("DequantizeLinear", [self.constant(name, whole), *ends], f"{name}_f")

    def save(self, path: Path, inputs: dict[str, list[object]], outputs: dict[str, list[object]]) -> Path:
        """Writes the network. inputs, outputs: shapes by name; int64 where the first element is "int64"."""
        ends = [[_end(name, shape) for name, shape in table.items()] for table in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, "network", *ends, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return path


def _end(name: str, shape: list[object]) -> onnx.ValueInfoProto:
    whole = bool(shape) and shape[0] == "int64"
    kind = TensorProto.INT64 if whole else TensorProto.FLOAT
    return helper.make_tensor_value_info(name, kind, shape[1:] if whole else shape)


def recurrent(path: Path, state: tuple[str, str] = ("h", "hn"), width: int = 16, size: int = 8) -> Path:
    """A gated cell: h' = h + z (t - h), y = V h'."""
    net, (old, new) = Network(), state
    held = net.quantized(old, 1 / 127)
    both = net.add("Concat", [net.quantized("x", 1 / 127), held], "xh", axis=1)
    joined = net.quantized(both, 1 / 127)
    net.add("MatMul", [joined, net.weights("W", size + width, width)], "a")
    t = net.quantized(net.add("Tanh", [net.quantized("a", 4 / 127)], "t"), 1 / 127)
    net.add("MatMul", [joined, net.weights("Z", size + width, width)], "b")
    z = net.quantized(net.add("Sigmoid", [net.quantized("b", 4 / 127)], "z"), 1 / 255, -128)
    apart = net.quantized(net.add("Sub", [t, held], "d"), 2 / 127)
    step = net.quantized(net.add("Mul", [z, apart], "zd"), 2 / 127)
    moved = net.quantized(net.add("Add", [held, step], "sum"), 1 / 127)
    net.add("Identity", [moved], new)
    net.add("MatMul", [moved, net.weights("V", width, size)], "v")
    net.add("Identity", [net.quantized("v", 4 / 127)], "y")
    return net.save(path, {"x": [1, size], old: [1, width]}, {"y": [1, size], new: [1, width]})


def ring_filter(path: Path, late: bool = False) -> Path:
    """A filter over the last LENGTH samples of 4 channels, which the state holds, the newest last. late: the oldest sample is
    kept and the newest dropped, a fault."""
    net = Network(2)
    new, old = net.quantized("samples", 1 / 127), net.quantized("ring_in", 1 / 127)
    first, last = net.constant("from_1", [1]), net.constant("to_end", [LENGTH])
    axes = net.constant("axis_1", [1])
    kept = net.add("Slice", [old, first, last, axes], "kept")
    moved = net.add("Concat", [kept, new], "moved", axis=1)
    if late:
        start, end = net.constant("from_0", [0]), net.constant("to_7", [LENGTH - 1])
        moved = net.add("Concat", [new, net.add("Slice", [old, start, end, axes], "kept_0")], "moved_late", axis=1)
    net.add("Identity", [net.quantized(moved, 1 / 127)], "ring_out")
    flat = net.add("Reshape", [f"{moved}_f", net.constant("flat", np.array([1, LENGTH * 4]))], "flat_moved")
    net.add("MatMul", [flat, net.weights("F", LENGTH * 4, 4)], "f")
    net.add("Identity", [net.quantized("f", 4 / 127)], "filtered")
    return net.save(
        path, {"samples": [1, 1, 4], "ring_in": [1, LENGTH, 4]}, {"filtered": [1, 4], "ring_out": [1, LENGTH, 4]}
    )


def decoder(path: Path, fault: str = "", layers: int = 2) -> Path:
    """A decoder whose caches are written in place at `position`. fault: of the keys of layer 1: unwritten, shifted, wrapped
    (at position + 3), other_head."""
    net = Network(3)
    hidden = net.add("Gather", [net.weights("E", WORDS, WIDTH), "input_ids"], "embedded")
    hidden = net.add("Reshape", [hidden, net.constant("row", np.array([1, WIDTH]))], "hidden_0")
    hidden = net.quantized(hidden, 1 / 127)
    index = net.constant("index", np.arange(LENGTH, dtype=np.int64))
    here = net.add("Equal", [index, "position"], "here")
    place = net.constant("place", np.array([1, 1, LENGTH, 1]))
    mask = net.add("Reshape", [here, place], "mask")
    future = net.add("Greater", [index, "position"], "future")
    hide = net.add("Reshape", [future, net.constant("row_of_scores", np.array([1, 1, 1, LENGTH]))], "hide")
    heads = net.constant("heads", np.array([1, HEADS, 1, DEPTH]))
    inputs: dict[str, list[object]] = {"input_ids": ["int64", 1, 1], "position": ["int64", 1]}
    outputs: dict[str, list[object]] = {"logits": [1, WORDS]}
    for layer in range(layers):
        caches = {}
        for part in ("key", "value"):
            name = f"{part}_{layer}"
            net.add("MatMul", [hidden, net.weights(f"W_{name}", WIDTH, HEADS * DEPTH)], f"new_{name}")
            made = net.add("Reshape", [net.quantized(f"new_{name}", 2 / 127), heads], f"heads_{name}")
            old = net.quantized(f"past_key_values.{layer}.{part}", 2 / 127)
            written = _write(net, name, mask, made, old, fault if name == "key_1" else "")
            caches[part] = net.quantized(written, 2 / 127)
            net.add("Identity", [caches[part]], f"present.{layer}.{part}")
            inputs[f"past_key_values.{layer}.{part}"] = [1, HEADS, LENGTH, DEPTH]
            outputs[f"present.{layer}.{part}"] = [1, HEADS, LENGTH, DEPTH]
        hidden = _attend(net, layer, hidden, caches, hide, heads)
    net.add("MatMul", [hidden, net.weights("L", WIDTH, WORDS)], "l")
    net.add("Identity", [net.quantized("l", 4 / 127)], "logits")
    return net.save(path, inputs, outputs)


def _write(net: Network, name: str, mask: str, made: str, old: str, fault: str) -> str:
    """Writes the new heads into a cache at the position, or as a fault does."""
    if fault == "unwritten":
        return net.add("Mul", [old, net.constant("one", np.float32(1))], f"kept_{name}")
    if fault in ("shifted", "wrapped"):
        moved = net.constant("moved", np.roll(np.arange(LENGTH, dtype=np.int64), 1 if fault == "shifted" else 3))
        there = net.add("Equal", [moved, "position"], "there")
        mask = net.add("Reshape", [there, "place"], "other_mask")
    if fault == "other_head":
        made = net.add("Gather", [made, net.constant("first_head", np.array([0, 0]))], "one_head", axis=1)
    return net.add("Where", [mask, made, old], f"written_{name}")


def _attend(net: Network, layer: int, hidden: str, caches: dict[str, str], hide: str, heads: str) -> str:
    name = f"q_{layer}"
    net.add("MatMul", [hidden, net.weights(f"W_{name}", WIDTH, HEADS * DEPTH)], f"new_{name}")
    query = net.add("Reshape", [net.quantized(f"new_{name}", 2 / 127), heads], f"heads_{name}")
    keys = net.add("Transpose", [caches["key"]], f"keys_{layer}", perm=[0, 1, 3, 2])
    net.add("MatMul", [query, keys], f"scores_{layer}")
    scores = net.quantized(f"scores_{layer}", 4 / 127)
    low = net.constant(f"low_{layer}", np.float32(-4))
    shown = net.quantized(net.add("Where", [hide, low, scores], f"shown_{layer}"), 4 / 127)
    weights = net.quantized(net.add("Softmax", [shown], f"weights_{layer}", axis=-1), 1 / 255, -128)
    net.add("MatMul", [weights, caches["value"]], f"mixed_{layer}")
    flat = net.add(
        "Reshape",
        [net.quantized(f"mixed_{layer}", 2 / 127), net.constant(f"row_{layer}", np.array([1, WIDTH]))],
        f"rows_{layer}",
    )
    return net.quantized(net.add("Add", [hidden, flat], f"hidden_{layer + 1}"), 2 / 127)


def growing(path: Path) -> Path:
    """One layer whose cache grows by one place in each step."""
    net = Network(4)
    new = net.quantized("x", 1 / 127)
    old = net.quantized("past.0.key", 1 / 127)
    cache = net.add("Concat", [old, new], "joined", axis=1)
    net.add("Identity", [net.quantized(cache, 1 / 127)], "present.0.key")
    net.add("MatMul", ["joined_f", net.add("Transpose", [new], "turned", perm=[0, 2, 1])], "scores")
    weights = net.quantized(net.add("Softmax", [net.quantized("scores", 4 / 127)], "soft", axis=1), 1 / 255, -128)
    net.add("MatMul", [net.add("Transpose", [weights], "back", perm=[0, 2, 1]), "joined_f"], "mixed")
    net.add("Identity", [net.quantized("mixed", 2 / 127)], "y")
    return net.save(
        path,
        {"x": [1, 1, 4], "past.0.key": [1, "past", 4]},
        {"y": [1, 1, 4], "present.0.key": [1, "total", 4]},
    )

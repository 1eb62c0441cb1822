"""Sophgo: NAME_CHIP_MODE_tpu.mlir of model_deploy, with the integers of its _weights.npz.

The text states scale and zero point of every tensor in 17 digits, and the multipliers and shifts with which the chip
computes. Where the weights are not at hand, they are quantized as the toolkit does: halves to even of w / (max / 127) for
each channel, biases in steps of the sum.

Tried on tpu-mlir 1.30.2 (bm1684x, cv181x)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from qverify.arithmetic.stated_multipliers import MULTIPLIERS
from qverify.errors import BadFileError
from qverify.onnx_model.load import parse
from qverify.plural import count
from qverify.vendor_files.tpu_mlir import INPUT, MAX_HEAD, Quantization, TpuModule, TpuOp, is_module, read_module
from qverify.vendor_files.tpu_mlir_names import QUANTIZED, onnx_names
from qverify.vendor_files.tpu_mlir_weights import as_in_the_onnx, read_weights, to_bf16
from qverify.vendor_quantization import Quantized

FILES = "NAME_tpu.mlir of model_deploy, and its NAME_tpu_weights.npz"
FLOATS = ("f32", "f16", "bf16")
ARITHMETICS = {"bm1684x": "sophgo-bm1684x", "cv181x": "sophgo-cv181x"}
LINEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")
HIGH = 31  # bits by which gemmlowp's high product is shifted
REQUANTIZED = "tpu.RequantIntAxis"  # of sums of 32 bits
HALF = ("bf16", "f16")  # a cast to them changes values
CASTS = ("tpu.Cast", "tpu.GenericCpu")
TYPES = {"i8": (-128, 127), "u8": (0, 255), "i16": (-(2**15), 2**15 - 1), "u16": (0, 2**16 - 1)}
MIN_OPSET = 13  # the first opset with scales per channel
Array = npt.NDArray[Any]


def recognised(name: str, data: bytes) -> bool:
    """Returns whether a file is the text of a network that tpu-mlir has quantized."""
    return is_module(data[:MAX_HEAD]) and b'"tpu.' in data


def write_quantized(float_onnx: bytes, files: Mapping[str, bytes]) -> Quantized:
    """Returns the QDQ ONNX of what tpu-mlir made of the float ONNX. files: contents by file name; the text is found by its
    content. Raises BadFileError if there is none, or if it is of another network."""
    texts = {name: data for name, data in files.items() if recognised(name, data)}
    if len(texts) != 1:
        raise BadFileError(f"{count(len(texts), 'file')} of tpu-mlir ({', '.join(files) or 'none'}); wanted {FILES}")
    name, text = next(iter(texts.items()))
    module = read_module(text, name)
    archives = {k: data for k, data in files.items() if k.endswith(".npz")}
    wanted = module.facts.get("weight_file", "")
    stored = archives.get(wanted) or (next(iter(archives.values())) if len(archives) == 1 else None)
    return _Writer(parse(float_onnx, "float ONNX"), module, name, read_weights(stored, wanted)).write()


@dataclass(slots=True)
class _Writer:
    """Writes the QDQ ONNX. place: name of the text. weights: its integers, by name."""

    model: ModelProto
    module: TpuModule
    place: str
    weights: dict[str, Array]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    multipliers: dict[str, list[list[int]]] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    made: dict[str, tuple[TpuOp, Quantization]] = field(default_factory=dict)
    floats: dict[str, Array] = field(default_factory=dict)
    halves: set[str] = field(default_factory=set)

    @property
    def in_bf16(self) -> bool:
        """Whether the chip computes in BF16 what is not integer, and converts integers by way of it."""
        return self.module.facts.get("chip", "").startswith("cv18")

    def write(self) -> Quantized:
        graph = self.model.graph
        self._check_opset()
        self.floats = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.floats |= {
            n.output[0]: numpy_helper.to_array(n.attribute[0].t)
            for n in graph.node
            if n.op_type == "Constant" and n.attribute and n.attribute[0].name == "value"
        }
        inputs = [i.name for i in graph.input if i.name not in self.floats]
        operators = {**dict.fromkeys(inputs, ""), **{o: n.op_type for n in graph.node for o in n.output if o}}
        named = [op.tensor for op in self.module.computed]
        names = onnx_names(named, operators)
        self._find_quantized(names, inputs)
        outputs = {o.name for o in graph.output}
        for name in inputs:
            self._quantize(name, name, outputs)
        for node in graph.node:
            self._write_node(node, outputs)
        self._describe(names, operators)
        narrow = {op.tensor for op in self.module.computed if op.name in CASTS and op.element in HALF}
        pairs = {name: self._paired(name, source) for name, source in names.items() if name not in narrow}
        arithmetic = ARITHMETICS.get(self.module.facts.get("chip", ""), "")
        return Quantized(self._serialized(), self.changes, arithmetic, pairs)

    def _check_opset(self) -> None:
        opset = next((o for o in self.model.opset_import if o.domain in ("", "ai.onnx")), None)
        if opset is None or opset.version < MIN_OPSET:
            version = "none" if opset is None else opset.version
            raise BadFileError(f"the float ONNX has opset {version}; wanted {MIN_OPSET} or later")

    def _find_quantized(self, names: Mapping[str, str], inputs: list[str]) -> None:
        """Finds, by tensor of the ONNX, the op that makes its integers."""
        for op in self.module.computed:
            source = names.get(op.tensor)
            if source is not None and op.quantization is not None and source not in self.made:
                self.made[source] = op, op.quantization
            elif source is not None and op.name not in CASTS and op.element in HALF:
                self.halves.add(source)
        if not self.made:
            raise BadFileError(
                f"{self.place}: no tensor of it is one of the float ONNX; wanted the text of this network"
            )
        missing = [i for i in inputs if i not in names.values()]
        if missing:
            raise BadFileError(f"{self.place}: the float ONNX has the input {missing[0]!r}, which the text has not")

    def _paired(self, name: str, source: str) -> str:
        """Returns the tensor of the QDQ ONNX that has the values of one of the toolkit's."""
        op = next(o for o in self.module.computed if o.tensor == name)
        real = op.quantization is None and (op.name not in CASTS or op.element != "f32" or self.in_bf16)
        return source if source not in self.made or real else source + QUANTIZED

    def _quantize(self, name: str, computed: str, outputs: set[str]) -> None:
        """Adds Q and DQ of a tensor that the toolkit quantized. computed: name of its real values."""
        if name not in self.made:
            return
        _, quantization = self.made[name]
        scale, zero = self._constants_of(name, quantization)
        stored = name + QUANTIZED
        self.nodes.append(
            helper.make_node("QuantizeLinear", [computed, scale, zero], [stored], f"{name}_QuantizeLinear")
        )
        real = name if name in outputs and computed != name and not self.in_bf16 else f"{name}_DequantizeLinear_Output"
        readers = [n for n in self.model.graph.node if name in n.input]
        if real == name or any(self._is_integer(n) for n in readers) or not self.in_bf16:
            self._add("DequantizeLinear", [stored, scale, zero], real, f"{name}_DequantizeLinear")
        if self.in_bf16 and ((name in outputs and computed != name) or not all(map(self._is_integer, readers))):
            self._read_as_bf16(name, quantization, name if name in outputs else f"{name}_in_bf16")

    def _add(self, op: str, inputs: list[str], output: str, name: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name or output, **attributes))
        return output

    def _read_as_bf16(self, name: str, quantization: Quantization, real: str) -> None:
        """Adds the cast of integers to BF16: they are multiplied by the scale in BF16, and the product is rounded."""
        scale = f"{name}_scale_bf16"
        self.constants[scale] = to_bf16(quantization.scale)
        inputs = [name + QUANTIZED, scale, f"{name}_zero_point"]
        self._round_to_bf16(self._add("DequantizeLinear", inputs, f"{name}_read_as_bf16"), real)

    def _round_to_bf16(self, exact: str, real: str) -> None:
        self._add("Cast", [exact], f"{real}_bf16", to=TensorProto.BFLOAT16)
        self._add("Cast", [f"{real}_bf16"], real, f"{real}_Cast", to=TensorProto.FLOAT)

    def _is_integer(self, node: NodeProto) -> bool:
        """Returns whether the toolkit computes a node in integers."""
        return self._op_of(node) is not None

    def _constants_of(self, name: str, quantization: Quantization) -> tuple[str, str]:
        scale, zero = f"{name}_scale", f"{name}_zero_point"
        if (
            quantization.type not in TYPES
            or not TYPES[quantization.type][0] <= quantization.zero_point <= TYPES[quantization.type][1]
        ):
            raise BadFileError(
                f"{self.place}: {name[:60]!r} has {quantization.type} with zero point {quantization.zero_point}; "
                f"wanted {' or '.join(TYPES)} with a zero point of its integers"
            )
        self.constants[scale] = np.array(quantization.scale, np.float32)
        self.constants[zero] = np.array(quantization.zero_point, quantization.dtype)
        return scale, zero

    def _read(self, name: str, outputs: set[str], node: NodeProto) -> str:
        """Returns the name under which a node reads a tensor."""
        if name not in self.made:
            return name
        if self.in_bf16:
            whole = f"{name}_DequantizeLinear_Output"
            return whole if self._is_integer(node) else name if name in outputs else f"{name}_in_bf16"
        return name if name in outputs and name not in self._inputs() else f"{name}_DequantizeLinear_Output"

    def _inputs(self) -> set[str]:
        return {i.name for i in self.model.graph.input}

    def _write_node(self, node: NodeProto, outputs: set[str]) -> None:
        copy = NodeProto()
        copy.CopyFrom(node)
        operands = list(node.input)
        for k, name in enumerate(operands):
            copy.input[k] = self._read(name, outputs, node)
        made = [name for name in node.output if name in self.made]
        op = self._op_of(node)
        if op is not None:
            if node.op_type in LINEAR and len(operands) > 1 and operands[1] in self.floats:
                self._write_weights(node, copy, op)
            self._state_multipliers(node, op)
        for k, name in enumerate(node.output):
            if name in made and name in outputs:
                copy.output[k] = f"{name}_QuantizeLinear_Input"
        halves = [k for k, name in enumerate(node.output) if self.in_bf16 and name in self.halves]
        for k in halves:
            copy.output[k] = f"{node.output[k]}_before_bf16"
        self.nodes.append(copy)
        for k in halves:
            self._round_to_bf16(copy.output[k], node.output[k])
        for name in made:
            self._quantize(name, f"{name}_QuantizeLinear_Input" if name in outputs else name, outputs)

    def _op_of(self, node: NodeProto) -> TpuOp | None:
        """Returns the op that computes a node, or the node and an activation after it."""
        name = node.output[0]
        if name in self.made:
            return self.made[name][0]
        readers = [n for n in self.model.graph.node if name in n.input]
        if len(readers) == 1 and readers[0].op_type in ("Relu", "Clip") and readers[0].output[0] in self.made:
            return self.made[readers[0].output[0]][0]
        return None

    def _stored_name(self, node: NodeProto) -> str:
        """Returns the tensor of integers that a node makes, by itself or with an activation after it."""
        name = node.output[0]
        if name not in self.made:
            name = next(n.output[0] for n in self.model.graph.node if name in n.input)
        return name + QUANTIZED

    def _steps(self, op: TpuOp) -> tuple[list[int], list[int]]:
        """Returns the multipliers and shifts of an op, [] if it has none. The shift is the whole one: S = M / 2^shift. That of
        an operand that is subtracted is negative in the text; the sign is the operator's."""
        multipliers, shifts = op.numbers("multiplier", "multipliers"), op.numbers("rshift", "rshifts")
        if op.name == REQUANTIZED:
            multipliers, shifts = self._stored_steps(op)
        high = HIGH if op.attributes.get("quant_mode") in ("QDM", "TFLite", "TFLite_LShift") else 0
        if not multipliers or len(shifts) not in (1, len(multipliers)):
            return [], []
        return [abs(m) for m in multipliers], [r + high for r in shifts]

    def _stored_steps(self, op: TpuOp) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the multipliers and shifts of a requantization by itself, which are stored with the weights: for each
        channel the multiplier, the shift, negative, and the zero point."""
        made = self.module.by_id.get(op.operands[1]) if len(op.operands) > 1 else None
        stored = None if made is None else self.weights.get(made.tensor)
        if stored is None or stored.size % 3:
            return (), ()
        rows = stored.reshape(-1, 3).astype(np.int64)
        return tuple(rows[:, 0].tolist()), tuple((-rows[:, 1]).tolist())

    def _state_multipliers(self, node: NodeProto, op: TpuOp) -> None:
        multipliers, shifts = self._steps(op)
        if multipliers and node.op_type != "Relu":
            self.multipliers[self._stored_name(node)] = [multipliers, shifts]

    def _write_weights(self, node: NodeProto, copy: NodeProto, op: TpuOp) -> None:
        """Replaces the weights and the bias of a node by integers."""
        source = next((self.made[n][1] for n in node.input[:1] if n in self.made), None)
        target = op.quantization
        multipliers, shifts = self._steps(op)
        if source is None or target is None or not (multipliers or op.name == REQUANTIZED):
            return
        weights, bias = self.floats[node.input[1]], self.floats.get(node.input[2]) if len(node.input) > 2 else None
        axis = self._channel_axis(node)
        scale = self._weight_scale(weights, axis, (multipliers, shifts), float(source.scale), float(target.scale))
        integers = self._integer_weights(op, node, weights, axis)
        sums = np.float32(source.scale) * scale
        name = node.input[1]
        self._constant(copy, 1, name, integers, scale, axis)
        if bias is not None:
            self._constant(copy, 2, node.input[2], self._integer_bias(op, bias, weights, axis, source.scale), sums, 0)

    def _constant(self, copy: NodeProto, at: int, name: str, integers: Array, scale: Array, axis: int) -> None:
        """Adds a constant of integers with its DequantizeLinear, as an operand of a node."""
        base = f"{copy.output[0]}/{name}"
        names = [f"{base}_quantized", f"{base}_scale", f"{base}_zero_point"]
        whole = scale if scale.size > 1 else scale.reshape(())
        values = integers, whole.astype(np.float32), np.zeros(whole.shape, integers.dtype)
        self.constants |= dict(zip(names, values, strict=True))
        attributes: dict[str, Any] = {"axis": axis} if whole.ndim else {}
        made = f"{base}_DequantizeLinear_Output"
        self.nodes.append(helper.make_node("DequantizeLinear", names, [made], f"{base}_DequantizeLinear", **attributes))
        copy.input[at] = made

    def _channel_axis(self, node: NodeProto) -> int:
        if node.op_type in ("Conv", "ConvTranspose"):
            return 0 if node.op_type == "Conv" else 1
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        return 0 if transposed else self.floats[node.input[1]].ndim - 1

    def _largest(self, weights: Array, axis: int, one: bool) -> Array:
        """Returns the largest magnitude of each channel, or of all weights."""
        axes = tuple(k for k in range(weights.ndim) if k != axis)
        largest = np.abs(weights).max() if one else np.abs(weights).max(axes)
        return np.atleast_1d(np.asarray(largest, np.float32))

    def _weight_scale(
        self, weights: Array, axis: int, steps: tuple[list[int], list[int]], source: float, target: float
    ) -> Array:
        """Returns the scales of the weights that the multipliers stand for."""
        multipliers, shifts = np.array(steps[0], np.float64), np.array(steps[1], np.float64)
        if not multipliers.size:
            return (self._largest(weights, axis, False) / 127.0).astype(np.float32)
        if multipliers.size not in (1, weights.shape[axis]) or shifts.size not in (1, multipliers.size):
            raise BadFileError(
                f"{self.place}: {multipliers.size} multipliers and {shifts.size} shifts of {weights.shape[axis]} channels"
            )
        real = multipliers * 2.0**-shifts * target / source
        return np.where(real > 0, real, self._largest(weights, axis, len(real) == 1) / 127.0).astype(np.float32)

    def _operand(self, op: TpuOp, at: int) -> TpuOp | None:
        by_id = self.module.by_id
        sums = by_id.get(op.operands[0]) if op.name == REQUANTIZED and op.operands else op
        made = by_id.get(sums.operands[at]) if sums is not None and at < len(sums.operands) else None
        return made if made is not None and made.name == "top.Weight" else None

    def _integer_weights(self, op: TpuOp, node: NodeProto, weights: Array, axis: int) -> Array:
        weight = self._operand(op, 1)
        stored = None if weight is None else self.weights.get(weight.tensor)
        if stored is not None:
            if stored.size != weights.size:
                raise BadFileError(f"{weight and weight.tensor}: {stored.size} integers; the ONNX has {weights.size}")
            return as_in_the_onnx(stored, weights, axis, node.op_type)
        one = len(op.numbers("multiplier", "multipliers")) == 1
        steps = (self._largest(weights, axis, one).astype(np.float64) / 127.0).reshape(
            [-1 if k == axis and not one else 1 for k in range(weights.ndim)]
        )
        safe = np.where(steps > 0, steps, 1.0)
        return np.clip(np.rint(weights.astype(np.float64) / safe), -128, 127).astype(np.int8)

    def _integer_bias(self, op: TpuOp, bias: Array, weights: Array, axis: int, source: float) -> Array:
        made = self._operand(op, 2)
        stored = None if made is None else self.weights.get(made.tensor)
        if stored is not None and stored.size == bias.size:
            return stored.reshape(bias.shape).astype(np.int32)
        one = len(op.numbers("multiplier", "multipliers")) == 1
        steps = self._largest(weights, axis, one).astype(np.float64) / 127.0 * source
        return np.rint(bias.astype(np.float64) / np.where(steps > 0, steps, 1.0)).astype(np.int32)

    def _describe(self, names: Mapping[str, str], operators: Mapping[str, str]) -> None:
        facts = self.module.facts
        chip, mode = facts.get("chip", "?"), facts.get("mode", "?")
        floats = [o.tensor for o in self.module.computed if o.element in FLOATS and o.name not in (*CASTS, INPUT)]
        self.changes.append(
            f"{self.place}: {chip}, {mode}: {count(len(self.made), 'tensor', 'has', 'have')} 8 bits"
            + (
                f"; {count(len(floats), 'tensor', 'is', 'are')} computed in floats: {', '.join(floats[:3])}"
                if floats
                else ""
            )
        )
        if not self.weights:
            self.changes.append(
                f"{facts.get('weight_file', 'its weights')} is not given: weights are quantized here as the toolkit does"
            )
        unknown = [o.tensor for o in self.module.computed if o.tensor not in names]
        if unknown:
            self.changes.append(f"tensors that the float ONNX does not have: {', '.join(unknown[:3])}")

    def _serialized(self) -> bytes:
        used = {name for node in self.nodes for name in node.input}
        graph = self.model.graph
        kept = [i for i in graph.initializer if i.name in used]
        made = [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()]
        inputs = [i for i in graph.input if i.name not in {c.name for c in graph.initializer} - {c.name for c in kept}]
        new = helper.make_graph(self.nodes, graph.name or "sophgo", inputs, list(graph.output), [*kept, *made])
        model = helper.make_model(new, opset_imports=list(self.model.opset_import), ir_version=self.model.ir_version)
        if self.multipliers:
            helper.set_model_props(model, {MULTIPLIERS: json.dumps(self.multipliers)})
        return bytes(model.SerializeToString(deterministic=True))

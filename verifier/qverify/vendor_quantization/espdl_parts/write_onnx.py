"""Writes the nodes of an .espdl as a QDQ ONNX."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper

from qverify.errors import BadFileError, UnsupportedError
from qverify.printable import printable
from qverify.vendor_quantization.espdl_parts.layouts import BLOCKS, DEPTHWISE, PLAIN, unpack_weights
from qverify.vendor_quantization.espdl_parts.read_espdl import EspdlModel, EspdlNode, EspdlTensor
from qverify.vendor_quantization.espdl_parts.tables import DAMAGE_ERRORS

Array = npt.NDArray[Any]
OPSET, OPSET_OF_AXES = 18, 13  # reductions of the second have their axes as an attribute
SIXTEEN_BITS = "com.microsoft"  # the domain whose quantizers take int16 in every opset
OWN_ATTRIBUTES = ("quant_type", "activation", "lut")  # that no ONNX operator has
WITH_WEIGHTS = ("Conv", "ConvTranspose", "Gemm")
CHANNELS_LAST = {
    *("Conv", "ConvTranspose", "AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool"),
    *("DepthToSpace", "SpaceToDepth", "Resize"),  # a Resize states its sizes as if the channels were first
}
CHANGES = ("QuantizeLinear", "RequantizeLinear", "DequantizeLinear")
FORMED = ("Add", "Sub", "Mul", "Concat", "ReduceMean", "MatMul")  # of which esp32-s3 states how halves are rounded
MOVEMENTS = {
    *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Gather", "Split", "Concat", "Expand", "Identity"),
    "Tile",
}  # fmt: skip
REDUCTIONS = "Reduce"
OWN_OPERATORS = ("StreamingCache", "GRU", "LSTM", "Attention")  # of ESP-DL alone, or quantized inside


def write_onnx(model: EspdlModel, half_up: bool) -> bytes:
    """Returns the serialized QDQ ONNX, whose tensors have the names and the layout of the file. half_up: whether the chip rounds
    halves up where it changes the scale of a tensor. Raises UnsupportedError for a node that cannot be written."""
    return _Writer(model, half_up).write()


@dataclass(slots=True)
class _Writer:
    model: EspdlModel
    half_up: bool
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    _made: set[str] = field(default_factory=set)

    def write(self) -> bytes:
        for node in self.model.nodes:
            try:
                self._write_node(node)
            except UnsupportedError as error:
                raise UnsupportedError(printable(f"{self.model.file}: {node.kind} {node.name}: {error}")) from error
            except DAMAGE_ERRORS as error:
                why = "its inputs, dims and attributes contradict each other"
                raise BadFileError(f"{self.model.file}: {printable(f'{node.kind} {node.name}')}: {why}") from error
        old = any(n.kind.startswith(REDUCTIONS) and "axes" in n.attributes for n in self.model.nodes)
        graph = helper.make_graph(
            self.nodes,
            "espdl",
            [self._value(name) for name in self.model.inputs],
            [self._value(name) for name in self.model.outputs],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", OPSET_OF_AXES if old else OPSET), helper.make_opsetid(SIXTEEN_BITS, 1)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return bytes(made.SerializeToString(deterministic=True))

    def _write_node(self, node: EspdlNode) -> None:
        if node.kind in OWN_OPERATORS:
            raise UnsupportedError("ESP-DL computes it in a way that is not known here")
        activation = node.attributes.get("activation", "Linear")
        if activation not in ("Linear", "Relu"):
            raise UnsupportedError(f"the activation {activation}")
        if node.attributes.get("lut"):
            self._write_table(node)
        elif node.kind in CHANGES:
            self._write_change(node)
        elif node.kind == "InsertZeros":
            self._insert_zeros(node)
        elif node.kind in WITH_WEIGHTS:
            self._write_product(node)
        elif node.kind in CHANNELS_LAST:
            self._write_channels_first(node, [self._stored(i) if i else "" for i in node.inputs[1:]])
        elif node.kind in MOVEMENTS and self._keeps_scale(node):
            self.nodes.append(self._operator(node, [self._stored(i) for i in node.inputs], node.outputs))
        else:
            if node.kind == "PRelu":
                self._slopes_of_channels(node)
            reals = [self._real(i) if i else "" for i in node.inputs]
            computed = [f"{o}@computed" for o in node.outputs]
            self.nodes.append(self._operator(node, reals, computed))
            for output, result in zip(node.outputs, computed, strict=True):
                self._give(output, self._activated(node, result), node.kind in FORMED)

    def _tensor(self, name: str) -> EspdlTensor:
        if name not in self.model.tensors:
            raise UnsupportedError(f"the file does not state the type of {name}")
        return self.model.tensors[name]

    def _value(self, name: str) -> Any:
        tensor = self._tensor(name)
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)), tensor.shape
        )

    def _add(self, kind: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        if output not in self._made:
            self._made.add(output)
            self.nodes.append(helper.make_node(kind, inputs, [output], output, domain=domain, **attributes))
        return output

    def _operator(self, node: EspdlNode, inputs: list[str], outputs: Any) -> NodeProto:
        kept = {k: v for k, v in node.attributes.items() if k not in OWN_ATTRIBUTES and v is not None}
        return helper.make_node(node.kind, inputs, list(outputs), outputs[0], **kept)

    def _stored(self, name: str) -> str:
        """Returns the name of a tensor as it is stored; a constant is added."""
        tensor = self._tensor(name)
        if tensor.data is not None and name not in self.constants:
            self.constants[name] = tensor.data.reshape(tensor.shape)
        return name

    def _real(self, name: str) -> str:
        """Returns the name of a tensor's real values."""
        tensor = self._tensor(name)
        if not tensor.exponents:
            return self._stored(name)
        if (
            tensor.data is not None
            and tensor.layout
            and (BLOCKS.fullmatch(tensor.layout) or tensor.layout in (*PLAIN, *DEPTHWISE))
        ):
            raise UnsupportedError(f"the constant {name} in the layout {tensor.layout}")
        return self._dequantized(self._stored(name), tensor)

    def _dequantized(self, stored: str, tensor: EspdlTensor, axis: int = 0) -> str:
        """Adds the real values of the integers `stored`, in the scales of `tensor`."""
        domain = SIXTEEN_BITS if tensor.dtype == "int16" else ""
        many = {"axis": axis} if len(tensor.exponents) > 1 else {}
        return self._add("DequantizeLinear", [stored, *self._scale(tensor)], f"{stored}@real", domain, **many)

    def _scale(self, tensor: EspdlTensor) -> list[str]:
        """Returns the names of scale and zero point, which are constants."""
        exponents, dtype = tensor.exponents, tensor.dtype
        if dtype not in ("int8", "int16", "int32"):
            raise UnsupportedError(f"{tensor.name} is quantized to {dtype}")
        if len(exponents) == 1:
            names = [f"@scale{exponents[0]}", f"@zero_{dtype}"]
            values = [np.ldexp(np.float32(1), exponents[0]), np.zeros((), dtype)]
        else:
            names = [f"{tensor.name}@scales", f"{tensor.name}@zeros"]
            values = [np.ldexp(np.float32(1), np.array(exponents, np.int32)), np.zeros(len(exponents), dtype)]
        self.constants.update((n, np.asarray(v)) for n, v in zip(names, values, strict=True))
        return names

    def _give(self, output: str, computed: str, formed: bool = True) -> None:
        """Adds the output of a node from its real values, quantized as the file states. formed: whether the chip's arithmetic
        states how the operator rounds."""
        tensor = self._tensor(output)
        if not tensor.exponents:
            self._add("Identity", [computed], output)
            return
        if len(tensor.exponents) > 1:
            raise UnsupportedError(f"{output} has {len(tensor.exponents)} scales")
        if self.half_up and not formed:
            self._scale(tensor)
            self._round_up(computed, 0, tensor)
            return
        domain = SIXTEEN_BITS if tensor.dtype == "int16" else ""
        self._add("QuantizeLinear", [computed, *self._scale(tensor)], output, domain)

    def _activated(self, node: EspdlNode, result: str) -> str:
        return self._add("Relu", [result], f"{result}@relu") if node.attributes.get("activation") == "Relu" else result

    def _slopes_of_channels(self, node: EspdlNode) -> None:
        """Adds the slopes of PRelu, one for each channel, as the last axis: their dims are those of channels first."""
        slopes, channels = self._tensor(node.inputs[1]), self._tensor(node.inputs[0]).shape[-1]
        if slopes.data is None or slopes.data.size not in (1, channels):
            raise UnsupportedError(f"slopes of the dims {list(slopes.shape)} for {channels} channels")
        self.constants[slopes.name] = slopes.data

    def _keeps_scale(self, node: EspdlNode) -> bool:
        """Returns whether a movement copies stored elements: all its data have one type and one scale."""
        data = [self._tensor(n) for n in (*node.inputs, *node.outputs) if n]
        return len({(t.dtype, t.exponents) for t in data if t.exponents}) == 1

    def _write_table(self, node: EspdlNode) -> None:
        """Writes a function of one int8 tensor as the table that the file has for it."""
        source, table = self._tensor(node.inputs[0]), self._tensor(str(node.attributes["lut"]))
        given = self._tensor(node.outputs[0])
        if (given.dtype, given.exponents) != (table.dtype, table.exponents):
            raise UnsupportedError(f"the table {table.name} has another scale than {given.name}")
        if source.dtype == "int8" and table.data is not None and table.data.shape == (256,):
            self._look_up(source.name, table.name, table.data, given.name)
        elif source.dtype == "int16" and table.data is not None and node.kind == "LUT":
            self._look_up_nearest(source.name, table, given.name)
        else:
            raise UnsupportedError(
                f"a table of {list(table.shape)} for a function of {source.dtype}, whose use is not known"
            )

    def _look_up_nearest(self, source: str, table: EspdlTensor, output: str) -> None:
        """Adds a lookup of int16 elements in a table of every 2^n-th of them: of the nearest one, ties as the chip rounds."""
        assert table.data is not None
        steps = table.data.size - 1
        if steps < 1 or steps & (steps - 1) or steps > 1 << 16:
            raise UnsupportedError(f"a table of {table.data.size} elements for a function of int16")
        self.constants[table.name] = table.data
        values = {"ratio": steps / 65536, "middle": steps / 2 + (0.5 if self.half_up else 0)}
        self.constants |= {f"{output}@{key}": np.asarray(value, np.float32) for key, value in values.items()}
        real = self._add("Cast", [self._stored(source)], f"{source}@float32", to=TensorProto.FLOAT)
        scaled = self._add("Mul", [real, f"{output}@ratio"], f"{output}@scaled")
        place = self._add("Add", [scaled, f"{output}@middle"], f"{output}@place")
        nearest = self._add("Floor" if self.half_up else "Round", [place], f"{output}@nearest")
        index = self._add("Cast", [nearest], f"{output}@index", to=TensorProto.INT32)
        self._add("Gather", [table.name, index], output)

    def _look_up(self, source: str, name: str, table: Array, output: str) -> None:
        """Adds a lookup of int8 elements. table: the results of -128 to 127."""
        self.constants[name] = table
        self.constants["@128"] = np.array(128, np.int32)
        wide = self._add("Cast", [self._stored(source)], f"{source}@int32", to=TensorProto.INT32)
        index = self._add("Add", [wide, "@128"], f"{source}@index")
        self._add("Gather", [name, index], output)

    def _write_change(self, node: EspdlNode) -> None:
        """Writes a change of the scale. Between int8 tensors it is a table, so that halves are rounded as the chip does."""
        source, given = self._tensor(node.inputs[0]), self._tensor(node.outputs[0])
        if source.dtype == given.dtype == "int8" and len(source.exponents) == len(given.exponents) == 1:
            exact = np.ldexp(np.arange(-128.0, 128.0), source.exponents[0] - given.exponents[0])
            rounded = np.floor(exact + 0.5) if self.half_up else np.rint(exact)
            table = np.clip(rounded, -128, 127).astype(np.int8)
            self._look_up(source.name, f"{given.name}@table", table, given.name)
        elif self.half_up and len(source.exponents) == len(given.exponents) == 1:
            real = self._add("Cast", [self._stored(source.name)], f"{source.name}@float32", to=TensorProto.FLOAT)
            self._round_up(real, source.exponents[0], given)
        else:
            self._give(given.name, self._real(source.name), formed=False)

    def _round_up(self, source: str, exponent: int, given: EspdlTensor) -> None:
        """Adds the elements of `source`, in steps of 2^exponent, in the scale of `given`, halves up, in float32. source: name of
        float32 values."""
        name, limits = given.name, np.iinfo(given.dtype)
        ratio = np.ldexp(np.float32(1), exponent - given.exponents[0])
        values = {"ratio": ratio, "half": 0.5, "least": limits.min, "most": limits.max}
        self.constants |= {f"{name}@{key}": np.asarray(value, np.float32) for key, value in values.items()}
        scaled = self._add("Mul", [source, f"{name}@ratio"], f"{name}@scaled")
        floor = self._add("Floor", [self._add("Add", [scaled, f"{name}@half"], f"{name}@raised")], f"{name}@floor")
        clipped = self._add("Clip", [floor, f"{name}@least", f"{name}@most"], f"{name}@clipped")
        self._add("Cast", [clipped], name, to=helper.np_dtype_to_tensor_dtype(np.dtype(given.dtype)))

    def _insert_zeros(self, node: EspdlNode) -> None:
        """Writes zeros between the elements of each axis but the first and the last, as before a transposed convolution."""
        source, given = self._tensor(node.inputs[0]), self._tensor(node.outputs[0])
        places = source.shape[1:-1]
        strides: list[int] = node.attributes.get("stride") or []
        ends: list[int] = node.attributes.get("output_padding") or [0] * len(places)
        wanted = [(n - 1) * s + 1 + e for n, s, e in zip(places, strides, ends, strict=True)]
        wider = any(e >= s for s, e in zip(strides, ends, strict=True))
        if source.exponents != given.exponents or tuple(wanted) != given.shape[1:-1] or wider:
            raise UnsupportedError(
                f"{list(source.shape)} to {list(given.shape)} with strides {strides} and ends {ends}"
            )
        name, axes = given.name, len(places)
        wide = [source.shape[0], *(d for n in places for d in (n, 1)), source.shape[-1]]
        pads = [0] * len(wide) + [0, *(d for s in strides for d in (0, s - 1)), 0]
        joined = [source.shape[0], *(n * s for n, s in zip(places, strides, strict=True)), source.shape[-1]]
        self.constants |= {
            f"{name}@{key}": np.array(value, np.int64)
            for key, value in (
                ("wide", wide),
                ("pads", pads),
                ("joined", joined),
                ("starts", [0] * axes),
                ("ends", wanted),
                ("axes", range(1, axes + 1)),
            )
        }
        reshaped = self._add("Reshape", [self._stored(source.name), f"{name}@wide"], f"{name}@apart")
        padded = self._add("Pad", [reshaped, f"{name}@pads"], f"{name}@padded")
        long = self._add("Reshape", [padded, f"{name}@joined"], f"{name}@long")
        self._add("Slice", [long, f"{name}@starts", f"{name}@ends", f"{name}@axes"], name)

    def _write_product(self, node: EspdlNode) -> None:
        """Writes a convolution or Gemm with constant weights."""
        weights = self._tensor(node.inputs[1])
        if weights.data is None:
            raise UnsupportedError("weights that are computed")
        depthwise = int(node.attributes.get("group", 1)) > 1
        values = unpack_weights(weights.data, weights.shape, weights.layout, depthwise)
        if node.kind == "Gemm":
            values = values.reshape(values.shape[0], -1).T
        self.constants[weights.name] = np.ascontiguousarray(values)
        constants = [self._dequantized(weights.name, weights, 1 if node.kind == "Gemm" else 0)]
        if len(node.inputs) > 2 and node.inputs[2]:
            constants.append(self._bias(node.inputs[2]))
        if node.kind == "Gemm":
            result = f"{node.outputs[0]}@computed"
            self.nodes.append(self._operator(node, [self._real(node.inputs[0]), *constants], [result]))
            self._give(node.outputs[0], self._activated(node, result))
            return
        self._write_channels_first(node, constants)

    def _bias(self, name: str) -> str:
        """Returns the name of a bias's real values. Raises UnsupportedError for one that int32 does not hold."""
        bias = self._tensor(name)
        if bias.data is None or not bias.exponents:
            raise UnsupportedError(f"the bias {name} has no scale")
        if bias.dtype == "int64" and np.array_equal(bias.data, bias.data.astype(np.int32)):
            bias = EspdlTensor(name, "int32", bias.shape, bias.exponents, bias.data.astype(np.int32))
        self.constants[name] = np.asarray(bias.data).reshape(bias.shape)
        return self._dequantized(name, bias)

    def _write_channels_first(self, node: EspdlNode, constants: list[str]) -> None:
        """Writes an operator of ONNX's channels first between tensors that have their channels last."""
        source, output = self._tensor(node.inputs[0]), self._tensor(node.outputs[0])
        rank = len(source.shape)
        if len(node.outputs) != 1 or rank not in (3, 4) or not (source.exponents and output.exponents):
            raise UnsupportedError(f"a tensor of {rank} axes, {source.dtype} to {output.dtype}")
        first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
        turned = self._add("Transpose", [self._stored(source.name)], f"{source.name}@channels_first", perm=first)
        inside, result = f"{output.name}@channels_first", f"{output.name}@computed"
        self.nodes.append(self._operator(node, [self._dequantized(turned, source), *constants], [result]))
        domain = SIXTEEN_BITS if output.dtype == "int16" else ""
        self._add("QuantizeLinear", [self._activated(node, result), *self._scale(output)], inside, domain)
        self._add("Transpose", [inside], output.name, perm=last)

"""Writes a network as a table of layers in C, for the example firmware of board_runtime/hook."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qverify.arithmetic import functions64
from qverify.errors import UsageError
from qverify.model_bin.graph import Graph, Node

KINDS = {
    "quantize": "QUANTIZE",
    "fully_connected": "FULLY_CONNECTED",
    "lookup": "LOOKUP",
    "add": "ADD",
    "global_average_pool": "AVERAGE_POOL",
    "max_pool": "MAX_POOL",
    "reshape": "RESHAPE",
    "softmax": "SOFTMAX",
    "dequantize": "DEQUANTIZE",
}
ADDITION_BITS = 20  # by which both operands of an addition are shifted to the left
AVERAGE_BITS = 6  # by which the sum of an average is


def plain_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """Returns height, width and channels of a tensor of one frame. Raises UsageError for ranks other than 2 and 4."""
    if len(shape) == 2:
        return 1, 1, shape[1]
    if len(shape) == 4:
        return shape[2], shape[3], shape[1]
    raise UsageError(f"a tensor of shape {tuple(shape)}; wanted rank 2 or 4")


def factor(real: float) -> str:
    """Returns the C value of a real number below 1 as a factor."""
    fraction, exponent = math.frexp(real)
    value = round(fraction * (1 << 31))
    if value == 1 << 31:
        value, exponent = value // 2, exponent + 1
    if exponent > 0:
        raise UsageError(f"the factor {real} is not below 1")
    return f"{{{value}, {-exponent}}}"


def _input(node: Node, at: int) -> str:
    """Returns the name of an input, or "" if the node does not have it."""
    return (node.inputs[at] or "") if at < len(node.inputs) else ""


class Writer:
    """Writes the arrays and the table of one network. fault: name of the tensor whose layer is spoiled, or ""."""

    def __init__(self, graph: Graph, fault: str):
        self._graph, self._fault = graph, fault
        self._arrays, self._rows, self._offsets = list[str](), list[str](), dict[str, int]()
        self.arena_bytes = 0
        types = {graph.spec(o).dtype for node in graph.nodes for o in node.outputs} - {"float32"}
        if types not in ({"int8"}, {"uint8"}):
            raise UsageError(f"tensors of {', '.join(sorted(types))}; the example has either int8 or uint8")
        self._unsigned = types == {"uint8"}
        self._low, self._high = (0, 255) if self._unsigned else (-128, 127)

    def text(self) -> str:
        """Returns the C file. Raises UsageError for an operator that the engine does not have."""
        self._place()
        for node in self._graph.nodes:
            self._add(node)
        name = self._graph.inputs[0]
        elements = self._graph.spec(name).elements
        return "\n".join(
            [
                '#include "layers.h"',
                *self._arrays,
                "const layer network[] = {",
                *self._rows,
                "};",
                f"const int32_t network_layers = {len(self._rows)}, network_input_elements = {elements};",
                f'const char network_input_name[] = "{name}";',
                f"const int32_t network_is_unsigned = {int(self._unsigned)};",
                f"uint8_t arena[{self.arena_bytes}] __attribute__((aligned(8)));",
                f"float network_input[{elements}];",
                "",
            ]
        )

    def _place(self) -> None:
        """Gives each tensor the lowest place in the arena that no tensor in use has."""
        nodes = self._graph.nodes
        last = {n: at for at, node in enumerate(nodes) for n in node.inputs if n}
        taken: list[tuple[int, int, int]] = []  # begin, end, last use
        for at, node in enumerate(nodes):
            size = -(-self._graph.spec(node.outputs[0]).valid_bytes // 8) * 8
            taken = [t for t in taken if t[2] >= at]
            begin = 0
            for low, high, _ in sorted(taken):
                if begin + size <= low:
                    break
                begin = max(begin, high)
            taken.append((begin, begin + size, last.get(node.outputs[0], len(nodes))))
            self._offsets[node.outputs[0]] = begin
            self.arena_bytes = max(self.arena_bytes, begin + size)

    def _array(self, c_type: str, values: Sequence[object]) -> str:
        name = f"values_{len(self._arrays)}"
        self._arrays.append(f"static const {c_type} {name}[] = {{{', '.join(map(str, values))}}};")
        return name

    def _floats(self, values: Sequence[float]) -> str:
        return self._array("float", [f"{float(np.float32(v)).hex()}f" for v in values])

    def _add(self, node: Node) -> None:
        graph, out = self._graph, self._graph.spec(node.outputs[0])
        x = graph.spec(_input(node, 0))
        fields: dict[str, object] = {"name": f'"{node.outputs[0]}"', "kind": KINDS.get(node.op, "")}
        fields |= {"low": self._low, "high": self._high}
        fields["out"] = self._offsets[node.outputs[0]]
        if _input(node, 0) in self._offsets:
            fields["in"] = self._offsets[_input(node, 0)]
        for prefix, spec in (("in", x), ("out", out)):
            fields |= {f"{prefix}_{k}": v for k, v in zip("hwc", plain_shape(spec.shape), strict=True)}
            if spec.zero_point:
                fields[f"zero_{prefix}"] = spec.zero_point[0]
        if node.op in ("conv", "fully_connected"):
            fields |= self._product(node)
        elif node.op == "lookup":
            table = graph.constants[_input(node, 1)].astype(np.int64)
            fields["weights"] = self._array("int8_t", table.tolist())
        elif node.op == "add":
            fields |= self._addition(node)
        elif node.op == "global_average_pool":
            pixels = x.shape[2] * x.shape[3]
            real = x.scale[0] / out.scale[0] / pixels / (1 << AVERAGE_BITS)
            fields["factors"] = self._array("factor", [factor(real)])
        elif node.op == "max_pool":
            names = ("kernel_h", "kernel_w", "stride_h", "stride_w", "pad_top", "pad_left")
            fields |= dict(zip(names, node.words[:6], strict=True))
        elif node.op == "softmax":
            steps = functions64.exp(-np.arange(256) * float(x.scale[0]))
            fields["table"] = self._floats([*steps, out.scale[0]])
        elif node.op in ("quantize", "dequantize"):
            fields["table"] = self._floats([(out if node.op == "quantize" else x).scale[0]])
        elif node.op != "reshape":
            raise UsageError(f"{node.name}: the example has no {node.op}; wanted {', '.join(['conv', *KINDS])}")
        self._rows.append("    {" + ", ".join(f".{k} = {v}" for k, v in fields.items()) + "},")

    def _product(self, node: Node) -> dict[str, object]:
        """Returns the fields of a convolution or a fully connected layer."""
        graph, out = self._graph, self._graph.spec(node.outputs[0])
        x, weights = graph.spec(_input(node, 0)), graph.constants[_input(node, 1)]
        scales = np.broadcast_to(np.asarray(graph.spec(_input(node, 1)).scale, np.float64), (weights.shape[0],))
        reals = scales * float(x.scale[0]) / float(out.scale[0])
        bias = np.zeros(weights.shape[0], np.int64)
        if _input(node, 2):
            bias = graph.constants[_input(node, 2)].astype(np.int64)
        if node.outputs[0] == self._fault:
            bias = bias.copy()
            bias[0] += 1 + int(20 / reals[0])
        fields: dict[str, object] = {"low": node.words[-2], "high": node.words[-1]}
        if node.op == "fully_connected":
            fields |= {"kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1}
            plain = weights
        else:
            names = ("kernel_h", "kernel_w", "stride_h", "stride_w", "pad_top", "pad_left")
            fields |= dict(zip(names, node.words[:6], strict=True))
            groups = node.words[10]
            if groups == 1:
                fields["kind"], plain = "CONV", weights.transpose(0, 2, 3, 1)
            elif groups == weights.shape[0] and weights.shape[1] == 1:
                fields["kind"], plain = "DEPTHWISE", weights.transpose(1, 2, 3, 0)
            else:
                raise UsageError(f"{node.name}: a convolution of {groups} groups")
        fields["weights"] = self._array("int8_t", plain.reshape(-1).tolist())
        fields["bias"] = self._array("int32_t", bias.tolist())
        fields["factors"] = self._array("factor", [factor(float(r)) for r in reals])
        return fields

    def _addition(self, node: Node) -> dict[str, object]:
        graph, out = self._graph, self._graph.spec(node.outputs[0])
        a, b = graph.spec(_input(node, 0)), graph.spec(_input(node, 1))
        twice = 2.0 * max(a.scale[0], b.scale[0])
        reals = [a.scale[0] / twice, b.scale[0] / twice, twice / out.scale[0] / (1 << ADDITION_BITS)]
        return {
            "in2": self._offsets[_input(node, 1)],
            "zero_in2": b.zero_point[0],
            "factors": self._array("factor", [factor(r) for r in reals]),
            "low": node.words[-2],
            "high": node.words[-1],
        }


def network_text(graph: Graph, fault: str) -> str:
    """Returns the C file of a network. fault: name of the tensor whose layer gets one wrong bias, or "" for none. Raises
    UsageError for a network that the example's engine does not run."""
    products = {n.outputs[0] for n in graph.nodes if n.op in ("conv", "fully_connected")}
    if fault and fault not in products:
        raise UsageError(f"{fault}: no layer with a bias computes it; wanted one of {', '.join(sorted(products))}")
    if len(graph.inputs) != 1 or graph.spec(graph.inputs[0]).dtype != "float32":
        raise UsageError("the example firmware runs networks of one float input")
    return Writer(graph, fault).text()

"""Float nodes that stay: DequantizeLinear, QuantizeLinear, and operators on float32 streams between quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qverify.compiler.builder import Builder, float_word
from qverify.compiler.lowerings import movement
from qverify.compiler.lowerings.pool import reduced_axes
from qverify.compiler.lowerings.resize import linear_tables
from qverify.compiler.lowerings.softmax import softmax_rows
from qverify.errors import UnsupportedError
from qverify.onnx_model.view import View, attributes
from qverify.tensors.spec import TensorSpec

TWO = {"Add": 0, "Sub": 1, "Mul": 2, "Div": 3, "Min": 4, "Max": 5}
ONE = {
    "Relu": 16,
    "Sigmoid": 18,
    "Tanh": 19,
    "Exp": 20,
    "Sqrt": 21,
    "Erf": 22,
    "HardSwish": 24,
    "Neg": 26,
    "Abs": 27,
    "Reciprocal": 28,
    "Log": 29,
    "Softplus": 31,
}


class FloatNodes:
    """Lowers one float node at a time. interior: names never expected in a comparison."""

    def __init__(self, builder: Builder, view: View, interior: set[str]):
        self.builder, self.view, self.interior = builder, view, interior
        self._constants: dict[str, str] = {}  # dequantized constant to its name in model.bin

    def source(self, name: str) -> str:
        """The model.bin tensor of an ONNX tensor; constants (also dequantized ones) become constants."""
        view = self.view
        constant = view.float_constant(name)
        if constant is not None:
            if name in view.constants:
                return self.builder.constant(name, constant)
            if name not in self._constants:
                self._constants[name] = self.builder.made(f"{name}/constant", constant)
            return self._constants[name]
        if name not in self.builder.tensors:
            self.builder.tensor(TensorSpec(name, view.dtype(name), view.shape(name), interior=name in self.interior))
        return name

    def declare(self, node: Any, like: str = "") -> list[str]:
        """Specs of the node's outputs; `like` names the tensor whose quantization a movement carries on."""
        source = self.builder.tensors.get(like)
        carried: dict[str, Any] = (
            {"scale": source.scale, "zero_point": source.zero_point}
            if source is not None and len(source.scale) == 1
            else {}
        )
        for name in node.output:
            if name:
                self.builder.tensor(
                    TensorSpec(
                        name, self.view.dtype(name), self.view.shape(name), interior=name in self.interior, **carried
                    )
                )
        return [n for n in node.output if n]

    def lower(self, node: Any) -> None:
        handler: Callable[[Any], None] | None = getattr(self, f"_{node.op_type}", None)
        if handler is not None:
            handler(node)
        elif node.op_type in TWO and len(node.input) == 2:
            self._elementwise(node, TWO[node.op_type], [self.source(n) for n in node.input])
        elif node.op_type in ONE:
            self._elementwise(node, ONE[node.op_type], [self.source(node.input[0])])
        elif movement.is_movement(self.view, node):
            source = self.source(node.input[0])
            movement.lower(self.builder, self.view, node, source, self.declare(node, like=source))
        else:
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): no integer form and no float kernel for it. Quantize its inputs and output, "
                "replace the operator, or cut the model before it"
            )

    def _elementwise(self, node: Any, function: int, inputs: list[str], p: float = 0.0, q: float = 0.0) -> None:
        if self.view.dtype(node.output[0]) != "float32":
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): on {self.view.dtype(node.output[0])}; only float32 is supported"
            )
        self.builder.node(
            "elementwise_float", list(inputs), self.declare(node), [function, float_word(p), float_word(q)], (), False
        )

    def _DequantizeLinear(self, node: Any) -> None:
        quantized = self.view.parameters(node, node.input[0])
        if quantized.value is not None:
            return
        self.builder.tensor(quantized.spec(quantized.name, self.view.shape(quantized.name)))
        self.builder.node("dequantize", [quantized.name], self.declare(node))

    def _QuantizeLinear(self, node: Any) -> None:
        y = self.view.parameters(node, node.output[0])
        source = self.source(node.input[0])
        self.builder.tensor(y.spec(y.name, self.view.shape(y.name)))
        self.builder.node("quantize", [source], [y.name])

    def _scalar(self, node: Any, at: int, what: str) -> float:
        value = self.view.float_constant(node.input[at])
        if value is None or value.size != 1:
            raise UnsupportedError(f"{node.name} ({node.op_type}): {what} is not one constant number")
        return float(value.reshape(-1)[0])

    def _Pow(self, node: Any) -> None:
        self._elementwise(node, 6, [self.source(node.input[0])], self._scalar(node, 1, "exponent"))

    def _Clip(self, node: Any) -> None:
        attrs = attributes(node)
        low = self._scalar(node, 1, "minimum") if len(node.input) > 1 and node.input[1] else attrs.get("min", -np.inf)
        high = self._scalar(node, 2, "maximum") if len(node.input) > 2 and node.input[2] else attrs.get("max", np.inf)
        self._elementwise(node, 17, [self.source(node.input[0])], low, high)

    def _HardSigmoid(self, node: Any) -> None:
        attrs = attributes(node)
        self._elementwise(node, 23, [self.source(node.input[0])], attrs.get("alpha", 0.2), attrs.get("beta", 0.5))

    def _LeakyRelu(self, node: Any) -> None:
        self._elementwise(node, 25, [self.source(node.input[0])], attributes(node).get("alpha", 0.01))

    def _Elu(self, node: Any) -> None:
        self._elementwise(node, 30, [self.source(node.input[0])], attributes(node).get("alpha", 1.0))

    def _Gelu(self, node: Any) -> None:
        if attributes(node).get("approximate", b"none") != b"none":
            raise UnsupportedError(
                f"{node.name} (Gelu): approximate={attributes(node)['approximate'].decode()} is not supported on a float stream"
            )
        self._elementwise(node, 32, [self.source(node.input[0])])

    def _Softmax(self, node: Any) -> None:
        axis = attributes(node).get("axis", -1 if self.view.opset >= 13 else 1)
        _, rows = softmax_rows(self.view.shape(node.input[0]), axis, self.view.opset)
        self.builder.node("softmax_float", [self.source(node.input[0])], self.declare(node), rows, (), False)

    def _LayerNormalization(self, node: Any) -> None:
        shape, attrs = self.view.shape(node.input[0]), attributes(node)
        depth = int(np.prod(shape[attrs.get("axis", -1) % len(shape) :]))
        if any(node.output[1:]):
            raise UnsupportedError(f"{node.name} (LayerNormalization): its mean or variance output is used")
        sizes = [int(np.prod(self.view.shape(n))) for n in node.input[1:] if n]
        if any(size != depth for size in sizes):
            raise UnsupportedError(
                f"{node.name} (LayerNormalization): scale or bias of {sizes} elements over rows of {depth}; only one value an element"
            )
        inputs: list[str | None] = [self.source(n) if n else None for n in node.input]
        words = [depth, float_word(attrs.get("epsilon", 1e-5))]
        self.builder.node("layer_norm", inputs + [None] * (3 - len(inputs)), self.declare(node), words, (), False)

    def _BatchNormalization(self, node: Any) -> None:
        scale, beta, mean, variance = (self.view.float_constant(n) for n in node.input[1:5])
        if scale is None or beta is None or mean is None or variance is None:
            raise UnsupportedError(f"{node.name} (BatchNormalization): a parameter is not a constant")
        epsilon = np.float32(attributes(node).get("epsilon", 1e-5))
        k = (scale * (np.float32(1) / np.sqrt((variance + epsilon).astype(np.float32)))).astype(np.float32)
        b = (beta - (mean * k).astype(np.float32)).astype(np.float32)
        name = node.output[0]
        constants = [self.builder.made(f"{name}/k", k), self.builder.made(f"{name}/b", b)]
        self.builder.node("batch_norm", [self.source(node.input[0]), *constants], self.declare(node), (), (), False)

    def _LRN(self, node: Any) -> None:
        attrs = attributes(node)
        words = [
            attrs["size"],
            *(float_word(attrs.get(k, d)) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))),
        ]
        self.builder.node("lrn", [self.source(node.input[0])], self.declare(node), words, (), False)

    def _ReduceMean(self, node: Any) -> None:
        shape = self.view.shape(node.input[0])
        mask = sum(1 << a for a in reduced_axes(self.view, node, len(shape)))
        self.builder.node(
            "reduce_mean", [self.source(node.input[0]), None], self.declare(node), [mask, 0, 0], (), False
        )

    def _ArgMax(self, node: Any) -> None:
        attrs = attributes(node)
        axis = attrs.get("axis", 0) % len(self.view.shape(node.input[0]))
        self.builder.node(
            "arg_max", [self.source(node.input[0])], self.declare(node), [axis, attrs.get("select_last_index", 0)]
        )

    def _Concat(self, node: Any) -> None:
        axis = attributes(node)["axis"] % len(self.view.shape(node.output[0]))
        self.builder.node("concat", [self.source(n) for n in node.input], self.declare(node), [axis])

    def _Where(self, node: Any) -> None:
        self.builder.node("where", [self.source(n) for n in node.input], self.declare(node))

    def _Resize(self, node: Any) -> None:
        if movement.is_movement(self.view, node):
            source = self.source(node.input[0])
            movement.lower(self.builder, self.view, node, source, self.declare(node, like=source))
            return
        if attributes(node).get("mode") != b"linear":
            raise UnsupportedError(
                f"{node.name} (Resize): mode {attributes(node)['mode'].decode()} is not supported; nearest and linear are"
            )
        name, shape, out = node.output[0], self.view.shape(node.input[0]), self.view.shape(node.output[0])
        index, weight = linear_tables(self.view, node, shape, out)
        tables = [self.builder.made(f"{name}/index", index), self.builder.made(f"{name}/weight", weight)]
        source = self.source(node.input[0])
        whole = self.builder.tensors[source].quantized
        self.builder.node("resize_linear", [source, *tables], self.declare(node, like=source), [int(whole)], (), whole)

    def _pads_of_all(self, node: Any, pads: Any, rank: int) -> Any:
        """begin and end of every dim, where opset 18's axes input names only some."""
        if len(node.input) < 4 or not node.input[3]:
            return pads
        axes = self.view.constants.get(node.input[3])
        if axes is None or len(pads) != 2 * len(axes):
            raise UnsupportedError(f"{node.name} (Pad): its axes are not constant, or do not fit its pads")
        whole = np.zeros(2 * rank, np.int64)
        for i, axis in enumerate(axes.tolist()):
            whole[axis % rank], whole[rank + axis % rank] = pads[i], pads[len(axes) + i]
        return whole

    def _Pad(self, node: Any) -> None:
        attrs, view = attributes(node), self.view
        pads = view.constants.get(node.input[1]) if len(node.input) > 1 else np.array(attrs.get("pads"))
        mode = attrs.get("mode", b"constant").decode()
        if pads is None or mode not in ("constant", "reflect", "edge") or (pads < 0).any():
            raise UnsupportedError(f"{node.name} (Pad): mode {mode} with these pads is not supported")
        value = self._scalar(node, 2, "value") if len(node.input) > 2 and node.input[2] else attrs.get("value", 0.0)
        rank = len(view.shape(node.input[0]))
        pads = self._pads_of_all(node, pads, rank)
        word = float_word(value) if view.dtype(node.output[0]) == "float32" else int(value)
        words = [("constant", "reflect", "edge").index(mode), word, *pads[:rank].tolist()]
        source = self.source(node.input[0])
        self.builder.node("pad", [source], self.declare(node, like=source), words)

"""Random models for the law that whatever compiles gives onnxruntime's result on every side: nodes are tried one after the
other on values that onnxruntime has computed, and those that it refuses are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from qverify.errors import BadFileError
from qverify.onnx_model.engine import Engine

Array = npt.NDArray[Any]
MOST = 3000  # elements of a tensor
LARGEST = 1e4  # of a float
LARGEST_WHOLE = 1 << 28  # of an integer: INT_MIN / -1 ends onnxruntime with its process
INTEGERS = ("int64", "int32", "uint8", "int8")
MICROSOFT = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Style:
    """What a model's floats are. activations: type that results are quantized to, and how often. real: type of the floats.
    weights: how constants of linear layers are stored. favoured: pages of kinds that are drawn more often."""

    activations: str
    often: float
    real: str
    weights: tuple[str, ...]
    favoured: tuple[str, ...]


Kind = Callable[["RandomGraph"], None]


class RandomGraph:
    """One model under construction: every tensor has the value that onnxruntime gives it on `feed`."""

    def __init__(self, seed: int, style: Style):
        self.rng, self.style, self.opset = np.random.default_rng(seed), style, 21
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.values: dict[str, Array] = {}  # of tensors that are computed and of inputs
        self.inputs: list[str] = []
        self.quantized: dict[str, tuple[str, str]] = {}  # integer tensor to its scale and zero point

    # what is drawn

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def below(self, end: int, first: int = 0) -> int:
        return int(self.rng.integers(first, max(end, first + 1)))

    def tensor(self, *dtypes: str, rank: int | Sequence[int] = ()) -> str:
        """A tensor of one of these types (floats without any) and ranks, late ones more often; raises Unfit without one."""
        wanted, ranks = dtypes or (self.style.real,), (rank,) if isinstance(rank, int) else rank
        found = [
            n
            for n, v in self.values.items()
            if str(v.dtype) in wanted and (not ranks or v.ndim in ranks) and v.size and n not in self.quantized
        ]
        if not found:
            raise Unfit
        return found[max(self.below(len(found)), self.below(len(found)))]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple((self.values[name] if name in self.values else self.constants[name]).shape)

    def axes(self, name: str) -> list[int]:
        """Some axes of a tensor, at least one, some of them counted from the end."""
        rank = len(self.shape(name))
        chosen = sorted(self.rng.permutation(rank)[: self.below(rank + 1, 1)].tolist())
        return [a - rank if self.chance(0.3) else a for a in chosen]

    def axis(self, name: str) -> int:
        rank = len(self.shape(name))
        return self.below(rank, -rank)

    # what is made

    def constant(self, value: Any, dtype: str = "") -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype or None)
        return name

    def whole(self, *values: int) -> str:
        return self.constant(list(values), "int64")

    def reals(self, *shape: int, spread: float = 0.7, mean: float = 0.0) -> str:
        return self.constant(self.rng.normal(mean, spread, shape), self.style.real)

    def input(self, value: Array) -> str:
        name = f"in{len(self.inputs)}"
        self.inputs.append(name)
        self.values[name] = value
        return name

    def add(self, kind: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **attributes: Any) -> list[str]:
        """Adds a node and returns its outputs. Raises Unfit where onnxruntime refuses it or its values are too large."""
        names = [f"{kind.lower()}{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        node = helper.make_node(kind, list(inputs), names, name=f"{names[0]}_node", domain=domain, **attributes)
        made = self._computed(node)
        for value in made.values():
            if not value.size or value.size > MOST or value.ndim > 6:
                raise Unfit
            most = LARGEST if value.dtype.kind == "f" else LARGEST_WHOLE
            if value.dtype.kind in "fi" and not (np.abs(value.astype(np.float64)) <= most).all():
                raise Unfit
        self.nodes.append(node)
        self.values |= made
        return names

    def op(self, kind: str, inputs: Sequence[str], domain: str = "", **attributes: Any) -> str:
        """Adds a node of one output; a float result is quantized as often as the style says."""
        made = self.add(kind, inputs, 1, domain, **attributes)[0]
        if self.values[made].dtype == self.style.real and self.chance(self.style.often):
            return self.quantize(made, self.style.activations)
        return made

    def fixed(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node of constants, whose result no other kind draws."""
        made = self.add(kind, inputs, **attributes)[0]
        self.quantized[made] = ("", "")
        return made

    def quantize(self, name: str, dtype: str) -> str:
        """QuantizeLinear and DequantizeLinear of a float tensor, with the parameters of its range, a share of it at times."""
        value = self.values[name].astype(np.float64) * self.pick(1.0, 1.0, 0.6)
        limits, low, high = np.iinfo(dtype), min(value.min(), 0.0), max(value.max(), 1e-3)
        scale = np.float32((high - low) / (int(limits.max) - int(limits.min)))
        zero = np.clip(np.rint(limits.min - low / scale), limits.min, limits.max)
        if dtype == "int16" or (dtype == "int8" and self.chance(0.2)):
            scale, zero = np.float32(max(-low, high) / limits.max), np.float64(0)
        kind = self.style.real
        names = [self.constant(scale, kind), self.constant(zero, dtype)]
        if not np.isfinite(self.constants[names[0]]) or not self.constants[names[0]] > 0:
            raise Unfit
        integer = self.add("QuantizeLinear", [name, *names])[0]
        self.quantized[integer] = (names[0], names[1])
        return self.add("DequantizeLinear", [integer, *names])[0]

    def _computed(self, node: onnx.NodeProto) -> dict[str, Array]:
        read = dict.fromkeys(n for n in node.input if n)
        fed = {n: self.values[n] for n in read if n in self.values}
        graph = helper.make_graph(
            [node],
            "one",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                for n, v in fed.items()
            ],
            [onnx.ValueInfoProto(name=o) for o in node.output if o],
            [numpy_helper.from_array(self.constants[n], n) for n in read if n in self.constants],
        )
        try:
            made = Engine(self._model(graph).SerializeToString(), threads=1).run(fed)
        except BadFileError:
            raise Unfit from None
        return made

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        domains = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=10)

    def model(self) -> onnx.ModelProto:
        """The model: its outputs are the tensors that no node reads, floats of 16 bits as they are or as float32."""
        read = {n for node in self.nodes for n in node.input}
        for name in [n for n in self.values if n not in read and self.values[n].dtype == np.float16]:
            if sum(name.encode()) % 2:
                self.add("Cast", [name], to=TensorProto.FLOAT)
        return self._whole()

    def check_opens(self) -> None:
        """Raises Unfit if onnxruntime refuses the nodes together: it infers the shape of a Resize by 0.7 otherwise than it
        computes it (10 * 0.7 is 6 or 7), and a node that fits the computed one may contradict the inferred one."""
        try:
            Engine(self._whole().SerializeToString(), threads=1)
        except BadFileError:
            raise Unfit from None

    def _whole(self) -> onnx.ModelProto:
        read = {n for node in self.nodes for n in node.input}
        outputs = [o for node in self.nodes for o in node.output if o and o not in read]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [self._info(n) for n in self.inputs if n in read],
            [self._info(n) for n in outputs],
            [numpy_helper.from_array(np.ascontiguousarray(v).reshape(v.shape), n) for n, v in self.constants.items() if n in read],
        )  # fmt: skip
        return self._model(graph)

    def feed(self) -> dict[str, Array]:
        """The values of the model's inputs."""
        read = {n for node in self.nodes for n in node.input}
        return {n: self.values[n] for n in self.inputs if n in read}

    def _info(self, name: str) -> onnx.ValueInfoProto:
        value = self.values[name]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


class Unfit(Exception):
    """This graph has no tensor that the node could read, or onnxruntime refuses the node."""

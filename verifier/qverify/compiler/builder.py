"""Collects tensors, constants and nodes of the Graph being compiled."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.multipliers import add_parameters, parameters
from qverify.compiler.stated_quantization import Stated
from qverify.errors import NotOnHostError
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from qverify.model_bin.folded_norm import FoldedNorm

Array = npt.NDArray[Any]
MOVEMENTS = (
    "depth_to_space", "gather", "gather_elements", "gather_nd", "pad", "reshape", "resize_nearest", "slice", "split",
    "tile", "transpose",
)  # fmt: skip


class Builder:
    """Collects what lowerings write.

    rounding: the rounding mode, which decides the form of every `rq` constant. taken: names in the ONNX, which no new
    tensor may get. stated: the quantization of tensors whose readers state several."""

    def __init__(self, rounding: str, taken: Container[str] = frozenset(), stated: Stated | None = None):
        self.rounding, self._taken, self._stated = rounding, taken, stated or {}
        self.nodes: list[Node] = []
        self.tensors: dict[str, TensorSpec] = {}
        self.constants: dict[str, Array] = {}
        self.real_tables: dict[str, Callable[[], Array]] = {}  # as in Graph
        self.folded_norms: dict[str, FoldedNorm] = {}  # likewise
        self.reals: dict[str, Array] = {}  # the real scales of an rq constant in ref-exact, by its name

    def tensor(self, spec: TensorSpec) -> str:
        """Declares a tensor and returns its name. If it was declared before, the first spec is kept, except that a
        graph input without a scale gets the scale that its first reader declares."""
        if (stated := self._stated.get(spec.name)) is not None:
            spec = replace(spec, scale=stated.scale, zero_point=stated.zero_point, channel_axis=stated.axis)
        before = self.tensors.get(spec.name)
        if before is None:
            self.tensors[spec.name] = spec
        elif spec.scale and not before.scale and spec.dtype == before.dtype and not before.interior:
            self.tensors[spec.name] = replace(spec, layout=before.layout)
        return spec.name

    def new_constant(self, name: str, value: Array, spec: TensorSpec | None = None) -> str:
        """Adds a new constant and returns its name, which is `name` with `~` appended while that is taken."""
        while name in self._taken or name in self.constants:
            name += "~"
        return self.constant(name, value, None if spec is None else replace(spec, name=name))

    def constant(self, name: str, value: Array, spec: TensorSpec | None = None) -> str:
        """Adds a constant of the ONNX under its own name and returns that name. spec: the spec of a quantized
        constant."""
        if name not in self.constants:
            value = np.ascontiguousarray(value).reshape(np.shape(value))
            self.tensors[name] = spec or TensorSpec(name, str(value.dtype), value.shape)
            self.constants[name] = value
        return name

    def node(
        self,
        op: str,
        inputs: list[str | None],
        outputs: list[str],
        words: list[int] | tuple[int, ...] = (),
        covers: tuple[str, ...] = (),
        integer_reference: bool = True,
    ) -> None:
        """Appends a node, named after its first output. covers: names of the ONNX nodes that it stands for."""
        self.nodes.append(
            Node(outputs[0], op, tuple(inputs), tuple(outputs), tuple(int(w) for w in words), covers, integer_reference)
        )
        if not integer_reference:
            for name in outputs:
                self.tensors[name] = replace(self.tensors[name], integer_reference=False)

    def scales(self, output: str, exact: Array, real: Array, has_kernel: bool, wide: bool) -> str:
        """Adds the `rq` constant of a node and returns its name.

        exact: the requantization scale S in float32, as onnxruntime's kernel computes it. real: S in float64.
        has_kernel: whether onnxruntime has an integer kernel for the node. wide: whether a tensor of the node has 16
        bits. Where the kernel's S is 0 because it underflows, the smallest normal float32 stands for it: the product
        with any sum rounds to 0 as well.

        Raises NotOnHostError for a scale that is not finite and positive or that the rounding mode cannot represent."""
        if self.rounding == "ref-exact":
            value: Array = np.atleast_1d(exact.astype(np.float32) if has_kernel else real.astype(np.float64))
            value = np.where((value == 0) & (real > 0), np.finfo(np.float32).tiny, value).astype(value.dtype)
            if not (np.isfinite(value) & (value > 0)).all():
                raise NotOnHostError(
                    f"{output}: its requantization scale (input scale * weight scale / output scale) is not finite and positive "
                    f"in {value.dtype}: the model's scales are inconsistent"
                )
        else:
            try:
                value = parameters(self.rounding, real, wide)
            except ValueError as error:
                raise NotOnHostError(f"{output}: {error}; choose another --rounding") from None
        return self.exact_rq(output, value, real)

    def exact_rq(self, output: str, value: Array, real: Array) -> str:
        """Adds the `rq` constant of a node and returns its name. real: the real scales, from which other forms follow."""
        name = self.new_constant(f"{output}/rq", value)
        self.reals[name] = np.atleast_1d(real.astype(np.float64))
        return name

    def real_scales(self, output: str, real: Array) -> str:
        """Adds the `rq` constant of a node with a float output, float64 in every rounding mode, and returns its name.
        Raises NotOnHostError for a scale that is not finite and positive."""
        value = np.atleast_1d(real.astype(np.float64))
        if not (np.isfinite(value) & (value > 0)).all():
            raise NotOnHostError(f"{output}: its scale (input scale * weight scale) is not finite and positive")
        return self.new_constant(f"{output}/rq", value)

    def add_scales(self, output: str, ratio_a: float, ratio_b: float) -> str:
        """Adds the `rq` constant of an addition in an integer rounding mode and returns its name. Raises NotOnHostError
        if the mode cannot represent the ratios."""
        try:
            return self.new_constant(f"{output}/rq", add_parameters(self.rounding, ratio_a, ratio_b))
        except ValueError as error:
            raise NotOnHostError(f"{output}: {error}; choose another --rounding") from None

    def carry_scales_back(self) -> None:
        """Gives inputs of a movement that have no scale the scale of the movement's result. Examples are an integer
        table that Gather reads, with the DequantizeLinear after the Gather, and an integer cache before a Concat."""
        for node in reversed(self.nodes):
            if node.op not in (*MOVEMENTS, "concat"):
                continue
            y = self.tensors[node.outputs[0]]
            for name in filter(None, node.inputs if node.op == "concat" else node.inputs[:1]):
                x = self.tensors[name]
                if len(y.scale) == 1 and not x.scale and x.dtype == y.dtype:
                    self.tensors[x.name] = replace(x, scale=y.scale, zero_point=y.zero_point)

    def graph(self, inputs: list[str], outputs: list[str], meta: dict[str, Any]) -> Graph:
        """Returns the collected graph, without tensors and constants that no node uses."""
        used = set(inputs) | {n for node in self.nodes for n in (*node.inputs, *node.outputs) if n is not None}
        tensors = {n: s for n, s in self.tensors.items() if n in used}
        constants = {n: v for n, v in self.constants.items() if n in used}
        ends, real = (tuple(inputs), tuple(outputs)), {n: t for n, t in self.real_tables.items() if n in tensors}
        norms = {n: norm for n, norm in self.folded_norms.items() if n in tensors}
        return Graph(
            self.nodes, tensors, constants, *ends, self.rounding, meta=meta, real_tables=real, folded_norms=norms
        )


def float_word(value: float) -> int:
    """Returns the bits of a float32 as an int32 word."""
    return int(np.array(value, np.float32).view(np.int32))

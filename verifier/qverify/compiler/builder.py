"""Collects tensors, constants and nodes of the Graph being compiled."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.multipliers import add_parameters, parameters
from qverify.errors import UnsupportedError
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]


class Builder:
    """Lowerings write here. rounding decides the form of every `rq`. taken: names of the ONNX, which no name of ours may be."""

    def __init__(self, rounding: str, taken: Container[str] = frozenset()):
        self.rounding, self._taken = rounding, taken
        self.nodes: list[Node] = []
        self.tensors: dict[str, TensorSpec] = {}
        self.constants: dict[str, Array] = {}

    def tensor(self, spec: TensorSpec) -> str:
        """The first description stays, but for the scale that a graph input gets from its first reader."""
        before = self.tensors.get(spec.name)
        if before is None:
            self.tensors[spec.name] = spec
        elif spec.scale and not before.scale and spec.dtype == before.dtype and not before.interior:
            self.tensors[spec.name] = replace(spec, layout=before.layout)
        return spec.name

    def made(self, name: str, value: Array, spec: TensorSpec | None = None) -> str:
        """A dense constant the compiler makes; its name, with `~` where the ONNX or another constant has it already."""
        while name in self._taken or name in self.constants:
            name += "~"
        return self.constant(name, value, None if spec is None else replace(spec, name=name))

    def constant(self, name: str, value: Array, spec: TensorSpec | None = None) -> str:
        """A constant of the ONNX under its own name, dense. spec: quantized ones carry theirs."""
        value = np.array(value, order="C")
        if name not in self.constants:
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
        self.nodes.append(
            Node(outputs[0], op, tuple(inputs), tuple(outputs), tuple(int(w) for w in words), covers, integer_reference)
        )
        if not integer_reference:
            for name in outputs:
                self.tensors[name] = replace(self.tensors[name], integer_reference=False)

    def scales(self, output: str, exact: Array, real: Array, has_kernel: bool, wide: bool) -> str:
        """The `rq` constant of a node. exact: float32 S of onnxruntime's kernel; real: float64 S."""
        if self.rounding == "ref-exact":
            value: Array = np.atleast_1d(exact.astype(np.float32) if has_kernel else real.astype(np.float64))
            if not (np.isfinite(value) & (value > 0)).all():
                raise UnsupportedError(
                    f"{output}: its requantization scale (input scale * weight scale / output scale) is not finite and positive "
                    f"in {value.dtype}: the scales of the model do not fit each other"
                )
        else:
            try:
                value = parameters(self.rounding, real, wide)
            except ValueError as error:
                raise UnsupportedError(f"{output}: {error}; choose another --rounding") from None
        return self.made(f"{output}/rq", value)

    def add_scales(self, output: str, ratio_a: float, ratio_b: float) -> str:
        try:
            return self.made(f"{output}/rq", add_parameters(self.rounding, ratio_a, ratio_b))
        except ValueError as error:
            raise UnsupportedError(f"{output}: {error}; choose another --rounding") from None

    def graph(self, inputs: list[str], outputs: list[str], meta: dict[str, Any]) -> Graph:
        used = set(inputs) | {n for node in self.nodes for n in (*node.inputs, *node.outputs) if n is not None}
        tensors = {n: s for n, s in self.tensors.items() if n in used}
        constants = {n: v for n, v in self.constants.items() if n in used}
        return Graph(self.nodes, tensors, constants, tuple(inputs), tuple(outputs), self.rounding, meta=meta)


def float_word(value: float) -> int:
    """The bits of a float32 as a word."""
    return int(np.array(value, np.float32).view(np.int32))

"""Graph and Node: the compiled model as simulator and runtime run it (normative: board_runtime/FORMAT.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from qverify.model_bin.islands import HostIsland, in_order
from qverify.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from qverify.model_bin.folded_norm import FoldedNorm

LAYERS_OF_BLOCKS = "layers_of_blocks"  # in Graph.meta: nodes of a .tflite whose weights are floats in the reference
ROUNDINGS = (
    "ref-exact",
    "tflite-single",
    "gemmlowp",
    "cmsis",
    "pow2-half-up",
    "pow2-half-away",
    "pow2-floor",
    "mul8",
    "mul15",
    "mul16",
    "mul24",
    "mul31",
)  # the index is the rounding id of FORMAT.md
T = TypeVar("T")
MAX_RANK, MAX_DIM, MAX_BYTES = 8, 2**30, 2**31 - 1  # of one tensor


@dataclass(frozen=True, slots=True)
class Node:
    """One operation.

    Attributes:
        name: name of its first output.
        op: stem of the op's page.
        inputs: names of the input tensors, None for an optional input that is absent.
        outputs: names of the output tensors.
        words: int32 parameters, in the order of the op's page, verifier/qverify/ops/NAME.md.
        covers: names of the ONNX nodes that it stands for.
        integer_reference: whether the reference computes the node in integers.
    """

    name: str
    op: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    words: tuple[int, ...] = ()
    covers: tuple[str, ...] = ()
    integer_reference: bool = True


@dataclass(slots=True)
class Graph:
    """A compiled model.

    Attributes:
        nodes: the nodes, in running order.
        tensors: the specs of all tensors by name, constants included.
        constants: dense arrays by name.
        inputs: inputs of the network. Tensors that host islands compute are not among them.
        outputs: outputs of the graph. Tensors that host islands read are among them.
        rounding: the rounding mode, one of ROUNDINGS.
        producer: the program that made the model.bin.
        meta: further properties: source_sha256, integer_sha256, options, check.
        islands: the host islands.
        real_tables: functions that return the values of a lookup's function before they are rounded, by the lookup's
            output: float64, in LSB of the output without its zero point, for each value of the input, from the lowest.
            They are known where the ONNX was compiled, and are no part of model.bin.
        folded_norms: the parameters of each BatchNormalization, by the output of its batch_norm, likewise.
    """

    nodes: list[Node]
    tensors: dict[str, TensorSpec]
    constants: dict[str, npt.NDArray[np.generic]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rounding: str = "ref-exact"
    producer: str = "qverify"
    meta: dict[str, Any] = field(default_factory=dict)
    islands: tuple[HostIsland, ...] = ()
    real_tables: Mapping[str, Callable[[], npt.NDArray[np.float64]]] = field(default_factory=dict)
    folded_norms: Mapping[str, FoldedNorm] = field(default_factory=dict)
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, make: Callable[[Graph], T]) -> T:
        """Returns make(self), which is computed once. Only for a graph that no longer changes, and for a result that nobody
        changes."""
        if make not in self._made:
            self._made[make] = make(self)
        found: T = self._made[make]
        return found

    def spec(self, name: str) -> TensorSpec:
        """Returns the spec of a tensor."""
        return self.tensors[name]

    @property
    def is_of_operators(self) -> bool:
        """Whether the nodes are operators of another engine, which runs them, instead of ops of model.bin: the graph then only
        names and orders them."""
        return "operators" in self.meta

    def producers(self) -> dict[str, Node]:
        """Returns the node that computes each tensor, by the tensor's name."""
        return {out: node for node in self.nodes for out in node.outputs}

    def stored(self) -> dict[str, TensorSpec]:
        """Returns the spec of the quantized tensor whose real values a tensor has, by the name of the latter."""
        by_node = {n.outputs[0]: n.inputs[0] for n in self.nodes if n.op in ("dequantize", "DequantizeLinear")}
        return {real: self.tensors[name] for real, name in by_node.items() if name is not None}

    def observable(self) -> list[str]:
        """Returns the names of all node outputs that a comparison expects, in running order: all but interior
        tensors."""
        return [o for n in self.nodes for o in n.outputs if not self.tensors[o].interior]

    def fed(self) -> tuple[str, ...]:
        """Returns the tensors that a board receives, in the order of RUN: the inputs, then the tensors that islands
        compute for nodes."""
        by_islands = [n for island in self.islands for n in island.outputs if n in self.tensors]
        return (*self.inputs, *by_islands)

    def network_outputs(self) -> tuple[str, ...]:
        """Returns the outputs without those that are only read by islands."""
        pulled = {n for island in self.islands for n in island.pulled}
        return tuple(n for n in self.outputs if n not in pulled)

    def steps(self) -> Iterator[Node | HostIsland]:
        """Yields nodes and islands in running order."""
        return in_order(self.islands, self.nodes, (*self.inputs, *self.constants))

    def islands_in_order(self) -> list[HostIsland]:
        """Returns the islands in running order, in which one may read the results of those before it."""
        return [step for step in self.steps() if isinstance(step, HostIsland)]

"""Graph and Node: the compiled model as both simulator and runtime run it (normative: board_runtime/FORMAT.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.islands import HostIsland, in_order
from qverify.tensors.spec import TensorSpec

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
)  # index = rounding id of FORMAT.md
MAX_RANK, MAX_DIM, MAX_BYTES = 8, 2**30, 2**31 - 1  # of one tensor


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. name: its first output. op: stem of its page. inputs: tensor names, None where an optional input
    is absent. words: int32 each, in the order of the op's row in NUMERICS.md. covers: ONNX nodes it stands for."""

    name: str
    op: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    words: tuple[int, ...] = ()
    covers: tuple[str, ...] = ()
    integer_reference: bool = True


@dataclass(slots=True)
class Graph:
    """A compiled model. tensors: every tensor by name, constants included; constants: name to dense array. inputs: of
    the network; what islands make is no input of it, and their inputs are among the outputs."""

    nodes: list[Node]
    tensors: dict[str, TensorSpec]
    constants: dict[str, npt.NDArray[np.generic]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rounding: str = "ref-exact"
    producer: str = "qverify"
    meta: dict[str, Any] = field(default_factory=dict)  # source_sha256, integer_sha256, options, check
    islands: tuple[HostIsland, ...] = ()

    def spec(self, name: str) -> TensorSpec:
        """Returns the spec of a tensor."""
        return self.tensors[name]

    def producers(self) -> dict[str, Node]:
        """Maps each tensor name to the node that computes it."""
        return {out: node for node in self.nodes for out in node.outputs}

    def observable(self) -> list[str]:
        """Returns the names of all node outputs a comparison expects, in running order, without interior tensors."""
        return [o for n in self.nodes for o in n.outputs if not self.tensors[o].interior]

    def fed(self) -> tuple[str, ...]:
        """Returns the tensors that a board is fed, in the order of RUN: the inputs, then what islands make for nodes."""
        made = [n for island in self.islands for n in island.outputs if n in self.tensors]
        return (*self.inputs, *made)

    def network_outputs(self) -> tuple[str, ...]:
        """Returns the outputs without those that only islands read."""
        pulled = {n for island in self.islands for n in island.pulled}
        return tuple(n for n in self.outputs if n not in pulled)

    def steps(self) -> Iterator[Node | HostIsland]:
        """Yields nodes and islands in running order."""
        return in_order(self.islands, self.nodes, (*self.inputs, *self.constants))

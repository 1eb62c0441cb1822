"""Facts that blame, verdicts and the document refer to: regions that were recomputed as one, and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from qverify.report.side_names import within

MAX_REGION_NODES = 6  # of a region, named in its place


@dataclass(slots=True)
class FusedRegion:
    """Several nodes that were recomputed as one, because a side gives no tensor between them. inputs: the tensors of
    that side (or inputs of the network) from which they were recomputed. outputs: the tensors that were compared.
    nodes: the nodes, each with its operator, in running order. side: the side that gives no tensor between them.
    not_given: the tensors between them that this side could have given and did not: those of the ONNX, not those that
    the compiler made. refused: those that it gave and that could not be used."""

    inputs: list[str]
    outputs: list[str]
    nodes: list[str]
    side: str = "board"
    not_given: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The region in words: between which tensors, and which nodes; that they are fused, if the side could have given a
        tensor between them and did not."""
        nodes = self.nodes[:MAX_REGION_NODES]
        more = f" and {len(self.nodes) - len(nodes)} more" if len(self.nodes) > len(nodes) else ""
        fused = f", fused on the {self.side}" if self.side == "board" else f", not separate {within(self.side)}"
        refused = f", {', '.join(self.refused[:MAX_REGION_NODES])} not usable" if self.refused else ""
        ends = f"between {', '.join(self.inputs)} and {', '.join(self.outputs)}"
        return f"{ends}: {', '.join(nodes)}{more}{fused if self.not_given else ''}{refused}"


@dataclass(slots=True)
class Finding:
    """A fact that the recorded values alone show, and that no verdict depends on. kind: frozen (the same bytes for other
    inputs), order (the same values in other places), clipping (values beyond a quantized range), scale (the same values
    times a factor), channels (only some are wrong), constants (weights, biases or scales that the exporter saturated). tensor: the tensor
    that shows it. text: the fact in words. frame: the frame that shows it; null if several frames do together."""

    kind: Literal["frozen", "order", "clipping", "scale", "channels", "constants"]
    tensor: str
    text: str
    frame: int | None = None

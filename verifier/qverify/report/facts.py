"""Facts that blame, verdicts and the document refer to: regions that were recomputed as one, causes that fit what was
recorded, and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from qverify.plural import count
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
class NamedCause:
    """A known fault that gives the bytes that a side recorded at a blamed node, found from the recording alone: nothing
    confirms it. tensor: the output. causes: faults in words that give the same bytes, the most specific first. more:
    number of further ones. elements: number of elements of the output. differing: number of those that differ from what
    a right node computes. left: number of elements that the fault does not give; they are 1 LSB off, or, if
    `unpredicted`, nothing predicts them. within: how near floats are that a fault gives, "" if it gives every byte. bits: evidence, in bits. wanted: bits below which it could be chance. frame:
    number of the frame."""

    tensor: str
    causes: list[str]
    more: int
    elements: int
    differing: int
    left: int
    unpredicted: bool
    bits: float
    wanted: float
    frame: int = 0
    within: str = ""

    @property
    def line(self) -> str:
        """The cause in one line: the fault, which elements it gives, and the evidence."""
        faults = "; or ".join([*self.causes, *([f"{self.more} more"] if self.more else [])])
        every = "its one element" if self.elements == 1 else f"every byte of all {self.elements} elements"
        if self.within:
            every = f"all {count(self.elements, 'element')} within {self.within}"
        given = f"all but {self.left} of {count(self.elements, 'element')}" if self.left else every
        how = ", which nothing predicts" if self.unpredicted else ", which are 1 LSB off"
        decide = (
            f"{count(self.differing, 'element', 'differs', 'differ')} and decide{'s' if self.differing == 1 else ''}"
        )
        evidence = f"{self.bits:.0f} bits of evidence, {self.wanted:.0f} wanted"
        gives = "give" if len(self.causes) + self.more > 1 else "gives"
        return f"cause: {faults}: {gives} {given}{how if self.left else ''}; {decide}: {evidence}"

    @property
    def sentence(self) -> str:
        """The line with a capital letter and without a full stop."""
        return f"{self.line[:1].upper()}{self.line[1:]}"


@dataclass(slots=True)
class Finding:
    """A fact that the recorded values alone show, and that no verdict depends on. kind: frozen (the same bytes for other
    inputs), order (the same values in other places), clipping (values beyond a quantized range), scale (the same values
    times a factor), input (a dump has another input than -i gives), channels (only some are wrong), constants (weights, biases or scales that the exporter saturated), state
    (what a wrong state of a sequence shows). tensor: the tensor
    that shows it. text: the fact in words. frame: the frame that shows it; null if several frames do together. also: other
    tensors of which the same is true."""

    kind: Literal["frozen", "order", "clipping", "scale", "channels", "constants", "state", "input"]
    tensor: str
    text: str
    frame: int | None = None
    also: list[str] = field(default_factory=list)

"""The arithmetic of a side: for each op, the form of the catalogue that gives every recorded element
(verifier/ARITHMETICS.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

REFERENCE = "ref-exact"  # the form of the reference: what model.bin computes without an option


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A form that does not give every element. form: its name. elements: how many it does not give. of: of how many that
    were compared. node: a node where it does not."""

    form: str
    elements: int
    of: int
    node: str


@dataclass(frozen=True, slots=True)
class LearnedOp:
    """The arithmetic of one op, as far as it was learned.

    Attributes:
        op: the op, as NUMERICS.md names it; then, after a comma, the kind of its nodes if it has several arithmetics.
        form: the form that gives every element, or "" if none of the catalogue does.
        nodes, elements: how many nodes and elements were compared.
        decided: for a known form, the number of elements that contradict the form that is nearest to it; None if no
            other form was tried.
        against: the name of that form, or "".
        alike: other forms that give every element, too.
        ties: the number of elements whose exact value lies at a tie, and how many of these are below the zero point; None
            if the exact value is not known.
        parts: if one form does not hold at all nodes, those of each node, by node.
        nearest: if no form fits, the one that gives most elements.
        why: the reason why the op is unknown, or why its form may be chance; else "".
        held_out: if the parameters of the form were solved, the number of elements that were not used for that, all of
            which it gives; else None.
    """

    op: str
    form: str
    nodes: int
    elements: int
    decided: int | None = None
    against: str = ""
    alike: tuple[str, ...] = ()
    ties: tuple[int, int] | None = None
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    nearest: Contradiction | None = None
    why: str = ""
    held_out: int | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The arithmetic of a side.

    Attributes:
        name: its name.
        engine: what computed the recording, in the user's words, or "".
        learned: the command that learned it.
        ops: what was learned, by op, or by op and kind of nodes (model_bin/kinds_of_nodes.py).
        learned_on: the versions that it holds for, such as firmware and toolchain, as tags of a board.
    """

    name: str
    engine: str
    learned: str
    ops: dict[str, LearnedOp]
    learned_on: dict[str, str] = field(default_factory=dict)

    def form_of(self, op: str) -> str:
        """Returns the form of an op, or "" if it is not known."""
        return self.ops[op].form if op in self.ops else ""

    @property
    def forms(self) -> dict[str, str]:
        """The forms that are known, by op."""
        return {op: learned.form for op, learned in self.ops.items() if learned.form}


@dataclass(frozen=True, slots=True)
class FreeRun:
    """A free-running simulation under an arithmetic, beside the recording. equal, compared: numbers of tensors. first: the
    first tensor that differs, or "". started: the tensors that were taken from the recording. unknown: tensors that were
    computed by ops whose form is not known, as the reference computes them."""

    equal: int
    compared: int
    first: str = ""
    started: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

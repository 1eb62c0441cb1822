"""How far a side whose arithmetic is stated lies from the reference: a fact beside the verdict (`distance` in JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from qverify.plural import count


@dataclass(slots=True)
class OutputDistance:
    """The distance of one final output. differing: number of elements whose bytes differ. max_lsb: largest difference in
    LSB; null for floats. max_abs: largest difference of real values. sqnr_db: the reference's power by that of the
    difference; null if they are equal. arg_max: share of the batch items (0..1) with the largest value at the same
    position; null if not defined."""

    output: str
    elements: int
    differing: int
    max_lsb: int | None
    max_abs: float | None
    sqnr_db: float | None
    cosine: float | None
    arg_max: float | None


@dataclass(slots=True)
class Distance:
    """The distance of a side from the reference, of one frame. side: the simulator, which computes in the stated
    arithmetic, or the board, where it differs from the simulator. tensors: number of tensors that differ, of those
    compared (of). elements: number of elements that differ in them, if their bytes are at hand. first: the first tensor
    that differs, in running order. most: the tensor with the most LSB, and these. verdict: by the gate that was given;
    PASSED without one. misses: the output that misses it, and how, or why it could not be applied; else ""."""

    side: str
    frame: int
    board: str | None
    tensors: int
    of: int
    elements: int
    first: str = ""
    first_elements: int = 0
    most: str = ""
    most_lsb: int = 0
    outputs: list[OutputDistance] = field(default_factory=list)
    verdict: Literal["PASSED", "FAILED", "INCONCLUSIVE"] = "PASSED"
    misses: str = ""


def distance_lines(distances: Sequence[Distance]) -> list[str]:
    """Returns lines on the distances, of several frames those of the frame that is farthest."""
    lines = list[str]()
    for board, side in dict.fromkeys((d.board, d.side) for d in distances):
        members = [d for d in distances if (d.board, d.side) == (board, side)]
        worst = max(members, key=lambda d: (d.tensors > 0, -_least_db(d), d.elements))
        at = f", frame {worst.frame}, the farthest of {len(members)}" if len(members) > 1 else ""
        lines.append(f"distance of the {side} from the reference{at}: {_describe(worst)}")
        lines += [f"  {line}" for line in map(_describe_output, worst.outputs) if worst.tensors]
    return lines


def _least_db(distance: Distance) -> float:
    return min((o.sqnr_db for o in distance.outputs if o.sqnr_db is not None), default=float("inf"))


def _describe(d: Distance) -> str:
    if not d.tensors:
        return f"none, all {count(d.of, 'tensor')} have the same bytes"
    first = f"first {d.first} ({count(d.first_elements, 'element')})" if d.first_elements else f"first {d.first}"
    most = f", most {d.most} (up to {d.most_lsb} LSB)" if d.most_lsb else ""
    return f"{count(d.elements, 'element')} in {d.tensors} of {count(d.of, 'tensor')}, {first}{most}"


def _describe_output(o: OutputDistance) -> str:
    if not o.differing:
        return f"{o.output}: the same bytes"
    parts = [f"{o.differing} of {count(o.elements, 'element')}"]
    parts += [f"up to {o.max_lsb} LSB"] if o.max_lsb is not None else []
    parts += [f"max |a-b| {o.max_abs:.4g}"] if o.max_abs is not None else []
    parts += [f"SQNR {o.sqnr_db:.1f} dB"] if o.sqnr_db is not None else []
    parts += [f"cosine {o.cosine:.6f}"] if o.cosine is not None else []
    parts += [f"largest value the same in {o.arg_max:.0%}"] if o.arg_max is not None else []
    return f"{o.output}: {', '.join(parts)}"

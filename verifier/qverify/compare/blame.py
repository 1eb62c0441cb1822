"""First divergence over the graph, and the culprit across sides: the side that is alone, judged by forced verdicts only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from qverify.model_bin.units import Unit
from qverify.report.document import Blame, FirstDivergence, Forced

Matrix = Mapping[tuple[str, str], Mapping[str, Forced]]  # (side a, side b) to output name to forced verdict
DISTRUST = "onnxruntime on this host computes this kind of node otherwise than known (canary; see qverify doctor)"
RS, RB, SB = ("reference", "simulator"), ("reference", "board"), ("simulator", "board")


def first_divergence(units: list[Unit], same: Callable[[str], bool | None]) -> FirstDivergence | None:
    """Units an output of which differs while every input is known to agree; the first in running order, the others in `also`."""
    found = [
        (unit, next(o for o in unit.outputs if same(o) is False))
        for unit in units
        if any(same(o) is False for o in unit.outputs) and all(same(n) for n in unit.inputs)
    ]
    if not found:
        return None
    unit, tensor = found[0]
    return FirstDivergence(tensor, unit.name, unit.op, [u.name for u, _ in found[1:]])


def sides_alone(rs: bool | None, rb: bool | None, sb: bool | None) -> list[str]:
    """The culprits at one node. Each argument: the pair holds forced (True), fails (False), or is not known (None).

    board: simulator (what a correct board computes) and reference agree, or only the board's pairs fail.
    compiler, its arithmetic included: simulator and board agree against the reference. simulator: reference and board do.
    """
    if rs is not False and rb is not False and sb is not False:
        return []
    if rs is False and rb is False and sb is False:
        return ["compiler", "board"]  # each of the three computes something of its own
    if sb is False:
        return ["simulator"] if rs is False and rb is True else ["compiler", "board"] if rs is False else ["board"]
    if rs is False:
        return ["compiler"]
    return ["compiler"] if sb is True else ["board"]  # only reference against board fails


def culprits(units: list[Unit], matrix: Matrix, distrusted: Collection[str] = ()) -> list[Blame]:
    """Every blamed side once, with its first blamed node and the others, in running order. distrusted: nodes where onnxruntime on this
    host is known to compute something else (canary); what stands against it alone there is the reference's fault."""
    found, suspect = dict[str, Blame](), frozenset(distrusted)
    for unit in units:
        states = {key: _holds(unit, verdicts) for key, verdicts in matrix.items()}
        for side in sides_alone(states.get(RS), states.get(RB), states.get(SB)):
            if unit.name in suspect and (side == "compiler" or SB not in states):
                why, side = f"{unit.op}: {DISTRUST}", "reference"
            else:
                why = _why(side, unit, matrix, states)
            if side in found:
                found[side].also.append(unit.name)
            else:
                found[side] = Blame(side, unit.name, why)
    return list(found.values())


def _holds(unit: Unit, verdicts: Mapping[str, Forced]) -> bool | None:
    known = [verdicts[o].verdict for o in unit.outputs if o in verdicts]
    if "FAILED" in known:
        return False
    return True if known and all(v == "PASSED" for v in known) else None


def _why(side: str, unit: Unit, matrix: Matrix, states: Mapping[tuple[str, str], bool | None]) -> str:
    """The numbers of the first failing pair, and who agrees with whom."""
    key = next(k for k in (SB, RB, RS) if states.get(k) is False and (side != "compiler" or k != SB))
    forced = next(matrix[key][o] for o in unit.outputs if o in matrix[key] and matrix[key][o].verdict == "FAILED")
    by = (
        f"up to {forced.max_lsb} LSB"
        if forced.max_lsb is not None
        else f"up to {forced.max_abs:.3g}"
        if forced.max_abs is not None
        else forced.why
    )
    text = (
        f"{unit.op}: from the {key[1]}'s own inputs the {key[0]} computes {forced.mismatched if forced.mismatched is not None else 'all'} "
        f"of {forced.elements} elements otherwise, {by} (limit {forced.limit})"
    )
    agreeing = [f"{a} and {b} agree here" for (a, b), holds in states.items() if holds]
    if side == "board" and states.get(SB) is None:
        agreeing.append("no simulator ran, so the compiler is not excluded")
    return "; ".join([text, *agreeing])

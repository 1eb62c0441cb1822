"""First divergence over the graph, and the culprit across sides."""

from __future__ import annotations

from qverify.compare.forced import failing
from qverify.model_bin.units import Unit
from qverify.report.document import Blame, Pair


def first_divergence(pair: Pair, units: list[Unit]) -> dict[str, str] | None:
    """The first unit (running order) whose output differs while its inputs agree."""
    differing = {r.name for r in pair.tensors if r.mismatched}
    for unit in units:
        if differing.intersection(unit.outputs) and not differing.intersection(unit.inputs):
            tensor = next(n for n in unit.outputs if n in differing)
            return {"tensor": tensor, "node": unit.name, "op": unit.op}
    return None


def blame(pairs: list[Pair]) -> Blame | None:
    """The side that is alone at the first node that fails forced; only pairs whose gate failed are asked."""
    if not any(p.verdict == "FAILED" for p in pairs):
        return None
    by_sides = {(p.a, p.b): failing(p.tensors) for p in pairs}
    have = set(by_sides)
    board = by_sides.get(("simulator", "board"), [])
    reference = by_sides.get(("reference", "simulator"), [])
    direct = by_sides.get(("reference", "board"), [])
    at_reference = {r.node for r in reference}
    alone = [r for r in board if r.node not in at_reference]
    if alone:
        who = (
            "reference and simulator agree" if ("reference", "simulator") in have else "the simulator stands against it"
        )
        return Blame("board", alone[0].node, f"{alone[0].op}: forced on its own inputs, {_how(alone[0])}; {who}")
    if board and reference:
        return Blame(
            "simulator",
            board[0].node,
            f"{board[0].op}: forced, {_how(board[0])} from the board and the reference, which agree",
        )
    if reference:
        why = "simulator and board agree" if ("simulator", "board") in have else "no board to compare with"
        return Blame(
            "compiler or arithmetic",
            reference[0].node,
            f"{reference[0].op}: forced, {_how(reference[0])} from the reference; {why}",
        )
    if direct:
        return Blame(
            "board", direct[0].node, f"{direct[0].op}: forced on its own inputs, {_how(direct[0])} from the reference"
        )
    return None


def _how(row: object) -> str:
    forced = row.forced  # type: ignore[attr-defined]
    size = f"{forced.max_lsb:g} LSB" if forced.max_lsb is not None else "values"
    return (
        f"{forced.mismatched} elements differ by up to {size}"
        if forced.max_lsb is not None
        else f"{forced.mismatched} elements differ"
    )

"""The neighbourhood of a diverging tensor: what it is computed from and what reads it, each with how both sides compare
there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced
from qverify.report.triage_document import Neighbour, Neighbourhood

MOST_DRAWN = 4  # diverging tensors with a drawing; a board that corrupts everything would fill the screen


def neighbourhoods(
    units: list[Unit],
    inputs: tuple[str, ...],
    same: Callable[[str], bool | None],
    forced: Mapping[str, Forced],
    tensors: list[str],
    on_host: Collection[str] = (),
) -> list[Neighbourhood]:
    """Returns the neighbourhood of each of these tensors, in order. inputs: of the network, equal on both sides.
    on_host: tensors that host islands make."""
    makers = {o: unit for unit in units for o in unit.outputs}

    def neighbour(tensor: str) -> Neighbour:
        op = makers[tensor].op if tensor in makers else "on the host" if tensor in on_host else "input"
        verdict = forced.get(tensor)
        if tensor in inputs:
            return Neighbour(tensor, op, "given")
        if verdict is not None and verdict.verdict == "FAILED":
            return Neighbour(tensor, op, "fails forced", numbers(verdict))
        agrees = same(tensor)
        return Neighbour(tensor, op, "not known" if agrees is None else "agree" if agrees else "differ")

    drawn = []
    for tensor in tensors[:MOST_DRAWN]:
        above = makers[tensor].inputs if tensor in makers else ()
        below = [o for unit in units if tensor in unit.inputs for o in unit.outputs]
        drawn.append(Neighbourhood(neighbour(tensor), [neighbour(n) for n in above], [neighbour(n) for n in below]))
    return drawn


def numbers(forced: Forced) -> str:
    """Returns as text how many elements differ although the inputs are the same, and by how much."""
    if forced.mismatched is None:
        return forced.why
    apart = f"{forced.max_lsb} LSB" if forced.max_lsb is not None else f"{forced.max_abs or 0:.3g}"
    return f"{forced.mismatched} of {count(forced.elements, 'element')}, up to {apart}"

"""The neighbourhood of a diverging tensor: the tensors from which it is computed and those computed from it, each with
the result of comparing both sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced
from qverify.report.triage_document import Neighbour, Neighbourhood

MAX_DRAWN = 4  # diverging tensors with a drawing, so that a board that corrupts everything does not fill the screen


def neighbourhoods(
    units: list[Unit],
    inputs: tuple[str, ...],
    same: Callable[[str], bool | None],
    forced: Mapping[str, Forced],
    tensors: list[str],
    on_host: Collection[str] = (),
) -> list[Neighbourhood]:
    """Returns the neighbourhood of each of the first MAX_DRAWN of these tensors, in their order.

    Args:
        inputs: inputs of the network, which are equal on both sides.
        same: returns whether both sides agree in a tensor, or None if that is not known.
        forced: forced verdicts by tensor.
        on_host: tensors that host islands compute.
    """
    makers = {o: unit for unit in units for o in unit.outputs}

    def describe_neighbour(tensor: str) -> Neighbour:
        op = makers[tensor].op if tensor in makers else "on the host" if tensor in on_host else "input"
        verdict = forced.get(tensor)
        if tensor in inputs:
            return Neighbour(tensor, op, "given")
        if verdict is not None and verdict.verdict == "FAILED":
            return Neighbour(tensor, op, "fails forced", numbers(verdict))
        agrees = same(tensor)
        return Neighbour(tensor, op, "not known" if agrees is None else "agree" if agrees else "differ")

    drawn = []
    for tensor in tensors[:MAX_DRAWN]:
        above = makers[tensor].inputs if tensor in makers else ()
        below = [o for unit in units if tensor in unit.inputs for o in unit.outputs]
        drawn.append(
            Neighbourhood(
                describe_neighbour(tensor),
                [describe_neighbour(n) for n in above],
                [describe_neighbour(n) for n in below],
            )
        )
    return drawn


def numbers(forced: Forced) -> str:
    """Returns in words how many elements differ although the inputs are the same, and by how much."""
    if forced.mismatched is None:
        return forced.why
    apart = f"{forced.max_lsb} LSB" if forced.max_lsb is not None else f"{forced.max_abs or 0:.3g}"
    return f"{forced.mismatched} of {count(forced.elements, 'element')}, up to {apart}"

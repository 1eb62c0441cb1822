"""Each unit recomputed by one side from the other side's recorded inputs: who is to blame, free of what came before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compare.judge import Fetch
from qverify.errors import QVerifyError
from qverify.model_bin.units import Unit
from qverify.report.document import Forced, Pair, TensorRow
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
RunUnit = Callable[[Unit, Mapping[str, Array]], dict[str, Array]]


def limit_of(unit: Unit, spec: TensorSpec, reference: Array, exact: bool) -> float:
    """Allowed distance: 0 LSB for exact pairs and integer units of ref-exact, 1 LSB for other 8-bit units, 2 LSB for
    16-bit ones (a float32 sum of up to 2^15 products rounds within half an LSB of 16 bits on either side), 2^-18 of
    max|reference| for floats."""
    if exact:
        return 0.0
    if spec.quantized:
        return 2.0 if spec.numpy_dtype.itemsize == 2 else 1.0
    if spec.numpy_dtype.kind == "f":
        finite = np.abs(reference[np.isfinite(reference)].astype(np.float64))
        return 2.0**-18 * float(finite.max(initial=0.0))
    return 0.0


def force(
    pair: Pair,
    units: list[Unit],
    run_unit: RunUnit,
    fetch: Fetch,
    specs: Mapping[str, TensorSpec],
    exact_pair: bool,
    rounding: str,
) -> bool:
    """Fills `forced` of every row. False when a unit could not be forced (its inputs or the run were not to be had)."""
    rows, whole = {r.name: r for r in pair.tensors}, True
    differing = {r.name for r in pair.tensors if r.mismatched}
    for unit in units:
        mine = [rows[n] for n in unit.outputs if n in rows]
        if not mine:
            whole = whole and not any(n in specs for n in unit.outputs)
            continue
        if not any(r.mismatched for r in mine) and not differing.intersection(unit.inputs):
            for row in mine:
                row.forced = Forced("PASSED", row.max_lsb, 0, 0.0)
            continue
        inputs = {n: fetch(pair.b, n) for n in unit.inputs}
        outputs = {n: fetch(pair.b, n) for n in unit.outputs}
        if any(v is None for v in (*inputs.values(), *outputs.values())):
            whole = False
            continue
        try:
            recomputed = run_unit(unit, {n: v for n, v in inputs.items() if v is not None})
        except QVerifyError:
            whole = False
            continue
        exact = exact_pair or (unit.integer_reference and rounding == "ref-exact")
        for row in mine:
            row.forced = _compare(unit, specs[row.name], recomputed[row.name], outputs[row.name], exact)
    return whole


def _compare(unit: Unit, spec: TensorSpec, mine: Array, theirs: Array | None, exact: bool) -> Forced:
    assert theirs is not None
    limit = limit_of(unit, spec, mine, exact)
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return Forced("FAILED", None, int(mine.size), limit)
    same = (mine == theirs) | ((mine != mine) & (theirs != theirs))
    if same.all():
        return Forced("PASSED", 0.0 if spec.quantized else None, 0, limit)
    distance = float(np.abs(mine[~same].astype(np.float64) - theirs[~same].astype(np.float64)).max())
    good = distance <= limit
    return Forced("PASSED" if good else "FAILED", distance if spec.quantized else None, int((~same).sum()), limit)


def failing(rows: list[TensorRow]) -> list[TensorRow]:
    return [r for r in rows if r.forced is not None and r.forced.verdict == "FAILED"]

"""Measures how far a recorded output of one unit is from what another side computes from the same inputs."""

from __future__ import annotations

import numpy as np

from qverify.compare.limits import Limit
from qverify.compare.metrics import Context, cosine, sqnr
from qverify.compare.paired_values import PairedValues, bits_equal
from qverify.report.document import Forced
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec


def measure_distance(made: Array, recorded: Array, spec: TensorSpec, limit: Limit, by: str, on: str) -> Forced:
    """Returns the forced verdict on two arrays of the same shape and dtype. by, on: the names of the two sides."""
    if bits_equal(made, recorded):
        return Forced("PASSED", 0 if made.dtype.kind in "iub" else None, 0, 0.0, made.size, limit.text, by, on)
    values = PairedValues(made, recorded, spec, spec)
    context = Context("half", 5, made.size, values.integers)
    ratio, angle = sqnr.Measure(context), cosine.Measure(context)
    largest, lsb, apart, reference = 0.0, 0, 0, 0.0
    for block in values.blocks():
        ratio.add(block)
        angle.add(block)
        largest = max(largest, block.largest)
        finite = np.abs(block.a[np.isfinite(block.a)])
        reference = max(reference, float(finite.max(initial=0.0)))
        if block.steps is not None:
            lsb = max(lsb, int(np.abs(block.steps).max(initial=0)))
        apart += block.total(block.distance != 0)
    passes = lsb <= limit.lsb if values.integers else largest <= limit.share * reference and limit.share > 0
    why = "" if passes else f"beyond {limit.text}" if apart else "the same values in other bytes (-0.0, or NaN)"
    return Forced(
        "PASSED" if passes else "FAILED",
        lsb if values.integers else None,
        apart,
        largest,
        made.size,
        limit.text,
        by,
        on,
        why,
        sqnr_db=ratio.result(),
        cosine=angle.result(),
    )

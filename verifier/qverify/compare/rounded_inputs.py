"""Judges a layer on floats whose weights are quantized in blocks. Right kernels multiply its inputs as they are, or rounded to
8 bits row by row when they run; nothing but these products acquits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qverify.compare.foreign import describe_direction
from qverify.compare.kernel_sets import ELSEWHERE_SHARE, RunUnit
from qverify.compare.limits import FLOAT_SHARE
from qverify.errors import QVerifyError
from qverify.model_bin.graph import LAYERS_OF_BLOCKS, Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.printable import describe_error
from qverify.report.document import Forced, Verdict
from qverify.tensors.recording import Array

HOW = {
    "": "of the float product",
    "symmetric": "of the product of inputs rounded to 127 steps of their largest",
    "asymmetric": "of the product of inputs rounded to 255 steps of their range",
}


def is_of_blocks(unit: Unit, graph: Graph) -> bool:
    """Returns whether the unit is such a layer."""
    return any(node.name in graph.meta.get(LAYERS_OF_BLOCKS, ()) for node in unit.nodes)


def judge_layer_of_blocks(
    measured: Forced, unit: Unit, name: str, given: Mapping[str, Array], recorded: Array, run_unit: RunUnit
) -> Forced:
    """Returns the verdict on the recorded output of such a layer. given: its recorded inputs. run_unit: the reference, which
    multiplies floats. PASSED: every element lies within 2^-18 of the largest one of one of the products. What lies within 2^-6 of
    one is INCONCLUSIVE, because an input near a tie may be rounded to the other step; else FAILED."""
    finite, nearest, larger = np.isfinite(recorded).all(), np.inf, 0
    for how, where in HOW.items():
        rounded = {n: _round_rows(v, how) if how and v.dtype.kind == "f" else v for n, v in given.items()}
        try:
            product = run_unit(unit, rounded)[name].astype(np.float64)
        except (QVerifyError, ValueError, MemoryError, KeyError) as error:
            why = f"the reference cannot run it alone: {describe_error(error)}"
            return replace(measured, verdict="INCONCLUSIVE", why=why, unexplained=measured.mismatched or 0)
        largest = float(np.abs(product).max(initial=0.0))
        if not finite or product.shape != recorded.shape or not np.isfinite(largest):
            break
        apart = np.abs(recorded.astype(np.float64) - product)
        if bool((apart <= FLOAT_SHARE * largest).all()):
            return replace(measured, verdict="PASSED", limit=f"within 2^-18 of the largest {where}", why="")
        share = float(apart.max()) / largest if largest else np.inf
        if share < nearest:
            nearest, larger = share, int(np.count_nonzero(apart > FLOAT_SHARE * largest))
    verdict: Verdict = "INCONCLUSIVE" if nearest <= ELSEWHERE_SHARE else "FAILED"
    far = f", {nearest:.2g} of the largest" if np.isfinite(nearest) else ""
    beyond = f"{count(larger or recorded.size, 'element')} beyond every product of its weights{far}"
    parts = [beyond, describe_direction(np.asarray(product), recorded)]
    why, at_fault = "; ".join(p for p in parts if p), measured.on if verdict == "FAILED" else ""
    return replace(measured, verdict=verdict, why=why, unexplained=larger or recorded.size, at_fault=at_fault)


def _round_rows(x: Array, how: str) -> Array:
    """Returns x, rounded to 8 bits along its last axis as LiteRT's (symmetric) and XNNPACK's (asymmetric) kernels do, in
    float32."""
    rows = x.astype(np.float32)
    zero, least = np.float32(0), np.float32(1e-30)
    if how == "symmetric":
        largest = np.maximum(np.abs(rows).max(axis=-1, keepdims=True), least)
        steps = np.float32(127) / largest
        return np.clip(np.rint(rows * steps), -127, 127).astype(np.float32) / steps
    low = np.minimum(rows.min(axis=-1, keepdims=True), zero)
    high = np.maximum(rows.max(axis=-1, keepdims=True), zero)
    steps = np.float32(255) / np.maximum(high - low, least)
    below, above = np.float32(-128) + low * steps, np.float32(127) + high * steps
    point = np.where(below + above > 0, np.float32(-128) - low * steps, np.float32(127) - high * steps)
    point = np.rint(np.clip(point, -128, 127)).astype(np.float32)
    whole = np.clip(np.rint(rows * steps) + point, -128, 127).astype(np.float32)
    return (whole - point) / steps

"""The multiplied elements are changed before the multiplication: saturated, wrapped, cut to fewer bits, or skipped at
some value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic.linear import along_axis
from qverify.triage.altered_kernels.narrow_floats import significant
from qverify.triage.altered_kernels.summed_elements import SUMMED_OPS, SummedElements, fitting, sample
from qverify.triage.case import Array, Case, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "operand-values"
LATE = -1
OPS = SUMMED_OPS
FactorChange = Callable[[Array, Array], Array]  # factors from stored integers and zero points
NAMES = {"matmul": ("the first operand", "the second operand"), "mul": ("the first operand", "the second operand")}
MEANS = ("global_average_pool", "reduce_mean", "average_pool")


def variants(case: Case) -> Iterator[FaultVariant]:
    few = sample(case)
    if few is None or case.graph.spec(case.last.inputs[0] or "").numpy_dtype.kind == "f":
        return
    yield from _unlike(case, fitting(case, _ways(case), in_parts=True))


def _unlike(case: Case, variants: Iterator[FaultVariant]) -> Iterator[FaultVariant]:
    """Yields only the variants with changed constants that differ from those of the variants before. For operands that
    are not constants, all variants are yielded."""
    name = case.last.inputs[1] or "" if case.last.op not in MEANS else ""
    factors_seen: set[bytes] = set()
    for variant in variants:
        changes = variant.make.keywords["way"].keywords["changes"]  # type: ignore[attr-defined]
        if name in case.graph.constants and changes[0] is None:
            stored, spec = case.graph.constants[name].astype(np.int64), case.graph.spec(name)
            zero = along_axis(spec.zero_point, stored.ndim, max(spec.channel_axis, 0))
            key = changes[1](stored, zero).astype(np.int64).tobytes()
            if key in factors_seen:
                continue
            factors_seen.add(key)
        yield variant


def _ways(case: Case) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    names = NAMES.get(case.last.op, ("the input", "the weights"))
    for at, operand in enumerate(names[: 1 if case.last.op in MEANS else 2]):
        spec = case.graph.spec(case.last.inputs[at] or "")
        for text, change in _changes(limits(spec), spec.numpy_dtype.itemsize).items():
            yield text.format(operand), partial(_changed, changes=(change, None) if at == 0 else (None, change))
    if case.last.op not in MEANS:
        spec = case.graph.spec(case.last.inputs[0] or "")
        for text, change in _changes(limits(spec), spec.numpy_dtype.itemsize).items():
            yield text.format("each of the two operands"), partial(_changed, changes=(change, change))


def _changed(e: SummedElements, changes: tuple[FactorChange | None, FactorChange | None]) -> Array:
    s = e.summands
    x = s.centred_x if changes[0] is None else np.where(s.read, changes[0](s.x, np.array(s.zero_x)), 0)
    w = s.centred_w if changes[1] is None else changes[1](s.w, s.zero_w)
    return e.added(x * w)


def _changes(span: tuple[int, int], size: int) -> dict[str, FactorChange]:
    """Returns the changes by text with a placeholder for the operand. span: the smallest and the largest stored
    integer."""
    low, high = span
    ways: dict[str, FactorChange] = {
        "{} skips elements stored as 0 (raw 0 adds nothing)": lambda v, z: np.where(v == 0, 0, v - z),
        f"{{}} skips elements stored as {high}": lambda v, z: np.where(v == high, 0, v - z),
        f"{{}} has {low} replaced by {low + 1}": lambda v, z: np.maximum(v, low + 1) - z,
        "{} less its zero point is clipped at 0: negative values are left out": lambda v, z: np.maximum(v - z, 0),
        "{} less its zero point: positive values are left out": lambda v, z: np.minimum(v - z, 0),
        "{} less its zero point is taken by its absolute value": lambda v, z: np.abs(v - z),
        "{} has its zero point added instead of subtracted": lambda v, z: v + z,
        "{} is used without subtracting its zero point": lambda v, z: v + 0 * z,
        "{} is inverted bit by bit instead of negated about its zero point": lambda v, z: ~v - z,
    }
    ways["{} read as 0 throughout: every product is left out, only the bias remains"] = lambda v, z: np.zeros_like(v)
    if low:
        ways[f"{{}} skips elements stored as {low}"] = lambda v, z: np.where(v == low, 0, v - z)
    for bits in range(2, 8 * size + 1):
        half = 1 << bits - 1
        ways[f"{{}} less its zero point saturates to {bits} bits ({-half}..{half - 1})"] = partial(
            _clip, low=-half, high=half - 1
        )
        ways[f"{{}} less its zero point saturates to -{half - 1}..{half - 1}"] = partial(
            _clip, low=1 - half, high=half - 1
        )
        ways[f"{{}} less its zero point saturates to unsigned {bits} bits"] = partial(_clip, low=0, high=2 * half - 1)
        ways[f"{{}} less its zero point wraps to {bits} bits"] = partial(_wrap, half=half)
        ways[f"{{}} is clipped to {bits} signed bits before its zero point is subtracted"] = partial(
            _raw_clip, low=-half, high=half - 1
        )
        ways[f"{{}} keeps its lowest {bits} bits, signed"] = partial(_raw_wrap, half=half)
        ways[f"{{}} keeps its lowest {bits} bits, unsigned"] = partial(_raw_low, mask=2 * half - 1)
    for bits in range(1, 8 * size - 1):
        for text, cut in _CUTS.items():
            ways[f"{{}} less its zero point loses its lowest {bits} bits, {text}"] = partial(_lost, bits=bits, cut=cut)
            ways[f"{{}} as stored loses its lowest {bits} bits, {text}"] = partial(_raw_lost, bits=bits, cut=cut)
    for bits in range(3, 8 * size + 1):
        ways[f"{{}} less its zero point keeps {bits} significant bits"] = partial(_significant, bits=bits)
    return ways


_CUTS: dict[str, Callable[[Array], Array]] = {
    "cut off (floor)": np.floor,
    "cut off toward zero": np.trunc,
    "rounded half up": lambda v: np.floor(v + 0.5),
}


def _clip(v: Array, z: Array, low: int, high: int) -> Array:
    return np.clip(v - z, low, high)


def _wrap(v: Array, z: Array, half: int) -> Array:
    return ((v - z + half) & (2 * half - 1)) - half


def _raw_clip(v: Array, z: Array, low: int, high: int) -> Array:
    return np.clip(v, low, high) - z


def _raw_wrap(v: Array, z: Array, half: int) -> Array:
    return ((v + half) & (2 * half - 1)) - half - z


def _raw_low(v: Array, z: Array, mask: int) -> Array:
    return (v & mask) - z


def _lost(v: Array, z: Array, bits: int, cut: Callable[[Array], Array]) -> Array:
    return (cut((v - z) / 2.0**bits) * 2.0**bits).astype(np.int64)


def _raw_lost(v: Array, z: Array, bits: int, cut: Callable[[Array], Array]) -> Array:
    return (cut(v / 2.0**bits) * 2.0**bits).astype(np.int64) - z


def _significant(v: Array, z: Array, bits: int) -> Array:
    return significant((v - z).astype(np.float64), bits).astype(np.int64)

"""The gate that each tensor of a pair has to pass: bit equality, or N decimals and the extra gates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from qverify.compare import decimals, scale
from qverify.compare.criteria import DIGITS, GATES, MAX_DIGITS, NOT_MILDER
from qverify.compare.options import Options
from qverify.compare.paired_values import Block, PairedValues
from qverify.compare.roles import SIGNS
from qverify.plural import count
from qverify.report.document import Metric
from qverify.tensors.recording import Recording

_SIGN = {**{gate.metric: gate.sign for gate in GATES}, **SIGNS}
WHOSE = {"renesas": "R-Car's rule, not that of RZ/V"}  # of names that mean more chips than their rule
# qverify's own sides send their values in full, so a precision that they state is ignored.
OWN_SIDES = ("reference", "simulator", "board")


@dataclass(frozen=True, slots=True)
class Gate:
    """The criteria by which one pair is judged.

    Attributes:
        bits: whether equal bytes are required, and nothing else.
        decimals: whether values must match to `digits` decimal places by `rule`, if `bits` is not set.
        digits, rule: number of decimal places, and the rule (compare/decimals.py).
        extra: limits of the extra gates, by metric.
        relaxed: the ways in which the pair is judged more mildly than without options.
        criteria: the vendor whose thresholds these are, or "".
    """

    bits: bool
    decimals: bool
    digits: int
    rule: str
    extra: dict[str, float]
    relaxed: tuple[str, ...] = ()
    criteria: str = ""

    @property
    def whose(self) -> str:
        """Returns whose rule the criteria are, where their name stands for more chips; else ""."""
        return f", {WHOSE[self.criteria]}" if self.criteria in WHOSE else ""

    def describe(self) -> str:
        """Returns a description of the gate, for the report."""
        if self.bits:
            return "bit equality"
        parts = [decimals.describe(self.rule, self.digits)] if self.decimals else []
        parts += [f"{name} {_SIGN.get(name, '')} {limit:.12g}".replace("  ", " ") for name, limit in self.extra.items()]
        return "; ".join(parts) + (f" (criteria {self.criteria})" if self.criteria else "") + self.whose


def count_failing(gate: Gate, values: PairedValues) -> int:
    """Returns how many elements miss the decimals rule of the gate."""
    counted = GateCount(gate)
    for block in values.blocks():
        counted.add(block)
    return counted.failing


def describe_norms(gate: Gate, metrics: dict[str, Metric]) -> str:
    """Returns the reason why a tensor fails a gate of the cosine alone by its norms, which no column shows; "" if it does
    not."""
    ratio = metrics.get("norm_ratio")
    if gate.decimals or gate.bits or set(gate.extra) != scale.BLIND or not isinstance(ratio, float):
        return ""
    factor = scale.largest_factor(gate.extra["cosine"])
    multiple = scale.is_multiple(ratio, metrics.get("cosine")) and gate.extra["cosine"] >= scale.MILD
    if multiple and not gate.criteria and scale.holds(ratio, factor):
        return f"{scale.describe(ratio)}, all by one factor"
    if scale.holds(ratio, factor):
        return ""
    return f"{scale.describe(ratio)}; wanted a ratio of the norms of 1/{factor:.3g} to {factor:.3g}"


def choose_gate(a: Recording, b: Recording, options: Options) -> Gate:
    """Returns the gate of a pair. Simulator against board requires bit equality, unless --relax-board was given. All
    other pairs are judged by value, as the options request."""
    nan = ["the same NaN and Inf on both sides accepted (--nan-equal)"] if options.nan_equal else []
    if requires_equal_bits(a, b) and not options.relax_board:
        return Gate(True, False, options.digits, options.rule, {}, tuple(nan))
    digits, limited = _limit_digits(a, b, options)
    gate = Gate(False, options.decimals, digits, options.rule, options.gates, criteria=options.criteria)
    relaxed = (
        [f"bit equality relaxed by --relax-board to {gate.describe()}"]
        if requires_equal_bits(a, b)
        else _describe_relaxation(gate)
    )
    return replace(gate, relaxed=(*relaxed, *([limited] if limited else []), *nan))


def requires_equal_bits(a: Recording, b: Recording) -> bool:
    """Returns whether the bytes of both sides must be equal: they run the same model.bin in qverify's own arithmetic, or
    the simulator computes in the one that the board is stated to have."""
    return (a.side, b.side) == ("simulator", "board") and (b.runtime == "qvrt" or bool(a.settings.get("arithmetic")))


def _limit_digits(a: Recording, b: Recording, options: Options) -> tuple[int, str]:
    """Returns the number of places to judge by, and a note if a dump has fewer than the options request: values that
    were printed with 6 decimals are not judged by the 7th."""
    digits, note = options.digits, ""
    for side in (a, b):
        offered = side.settings.get("precision")
        qverify_side = side.side in OWN_SIDES and side.runtime == "qvrt"
        if qverify_side or not isinstance(offered, int) or isinstance(offered, bool):
            continue
        if 0 <= offered < min(digits, MAX_DIGITS):
            digits, note = offered, f"the values of {side.side} are known to {count(offered, 'decimal')} only"
    return digits, note if digits < min(options.digits, DIGITS) else ""


def _describe_relaxation(gate: Gate) -> list[str]:
    """Returns a description of how this gate of a value pair is milder than the default, or [] if it is not."""
    if not gate.decimals:
        return [f"judged by {gate.describe()} instead of {DIGITS} decimals"]
    if gate.rule != "exact" and (gate.digits < DIGITS or gate.rule not in NOT_MILDER):
        return [f"judged to {decimals.describe(gate.rule, gate.digits)}"]
    if gate.criteria:
        return [
            f"criteria {gate.criteria}: {gate.describe().removesuffix(gate.whose).removesuffix(f' (criteria {gate.criteria})')}{gate.whose}"
        ]
    return []


class GateCount:
    """A count, made block by block, of the elements that miss the decimals rule, and of those beyond atol + rtol *
    |a|."""

    def __init__(self, gate: Gate):
        self.gate, self.failing, self.beyond = gate, 0, 0
        self.close = "atol" in gate.extra or "rtol" in gate.extra

    def add(self, block: Block) -> None:
        self.failing += block.total(
            ~decimals.matches(self.gate.rule, self.gate.digits, block.a, block.b, block.distance)
        )
        if self.close:
            with np.errstate(invalid="ignore", over="ignore"):
                room = self.gate.extra.get("atol", 0.0) + self.gate.extra.get("rtol", 0.0) * np.abs(block.a)
            self.beyond += block.total(~((block.distance <= room) & np.isfinite(block.distance)))

    def describe_missed_decimals(self) -> str:
        """Returns the reason why the decimals rule fails, whether it was requested or not, or "" if it passes."""
        if not self.failing:
            return ""
        failing = count(self.failing, "element", "does", "do")
        return f"{failing} not match to {decimals.describe(self.gate.rule, self.gate.digits)}"

    def list_refusals(self, bit_equal: bool, metrics: dict[str, Metric]) -> list[str]:
        """Returns the reason for each gate that the tensor fails. A tensor to which no gate applies must be equal bit
        for bit."""
        gate, reasons, applied = self.gate, [], False
        if gate.decimals and not gate.bits:
            applied = True
            reasons += [missed] if (missed := self.describe_missed_decimals()) else []
        if self.close:
            applied = True
            if self.beyond:
                reasons.append(f"{count(self.beyond, 'element', 'is', 'are')} beyond atol + rtol*|a|")
        for name, limit in gate.extra.items():
            value = metrics.get(name)
            if name in ("atol", "rtol") or not isinstance(value, (int, float)):
                continue
            applied = True
            if not (value >= limit if _SIGN[name] == ">=" else value <= limit) or math.isnan(value):
                reasons.append(f"{name} {value:.12g}, wanted {_SIGN[name]} {limit:.12g}")
        if norms := describe_norms(gate, metrics):
            reasons.append(norms)
        if not applied and not bit_equal:
            reasons.append("the bytes differ")
        return reasons

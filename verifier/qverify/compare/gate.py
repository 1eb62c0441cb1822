"""The gate one tensor has to pass: bits, N decimals, and the extra gates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qverify.compare import decimals
from qverify.compare.criteria import GATES
from qverify.compare.options import Options
from qverify.compare.paired_values import Block
from qverify.report.document import Metric
from qverify.tensors.recording import Recording

_SIGN = {gate.metric: gate.sign for gate in GATES}


@dataclass(frozen=True, slots=True)
class Gate:
    """bits: equal bytes wanted. decimals: N places by the rule wanted. Extra gates hold beside either."""

    bits: bool
    decimals: bool
    digits: int
    rule: str
    extra: dict[str, float]

    def describe(self) -> str:
        parts = ["bit equality"] if self.bits else []
        parts += [decimals.describe(self.rule, self.digits)] if self.decimals else []
        return "; ".join(
            parts + [f"{name} {_SIGN.get(name, '')} {limit:g}".replace("  ", " ") for name, limit in self.extra.items()]
        )


def choose(a: Recording, b: Recording, options: Options) -> Gate:
    """Simulator against board on one model.bin: bits, unless a gate was asked for. Every other pair: decimals."""
    digits = options.digits
    for side in (a, b):  # a text dump with 6 places is not judged at the 7th
        offered = side.settings.get("precision")
        digits = min(digits, offered) if isinstance(offered, int) else digits
    one_model = not (a.model_sha256 and b.model_sha256) or a.model_sha256 == b.model_sha256
    own_runtime = b.settings.get("runtime", "qvrt") == "qvrt"
    if (a.side, b.side) == ("simulator", "board") and one_model and own_runtime:
        decimal = options.given and (options.digits_given or not options.gates or (digits, options.rule) != (5, "half"))
        return Gate(not options.given, decimal, digits, options.rule, options.gates)
    return Gate(False, True, digits, options.rule, options.gates)


class GateCount:
    """Counts elements beyond the decimals rule and beyond atol + rtol * |a| as the blocks go by."""

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

    def refusals(self, bit_equal: bool, metrics: dict[str, Metric]) -> list[str]:
        """Why the tensor fails, gate by gate; a tensor to which no gate applies is held to bit equality."""
        gate, found, applied = self.gate, [], 0
        if gate.decimals:
            applied += 1
            if self.failing:
                found.append(f"{self.failing} elements do not match to {decimals.describe(gate.rule, gate.digits)}")
        if self.close:
            applied += 1
            if self.beyond:
                found.append(f"{self.beyond} elements beyond atol + rtol*|a|")
        for name, limit in gate.extra.items():
            value = metrics.get(name)
            if name in ("atol", "rtol") or not isinstance(value, (int, float)):
                continue
            applied += 1
            if not (value >= limit if _SIGN[name] == ">=" else value <= limit) or math.isnan(value):
                found.append(f"{name} {value:g}, wanted {_SIGN[name]} {limit:g}")
        if (gate.bits or not applied) and not bit_equal:
            found.append("the bytes differ")
        return found

"""How a sum of integers and a real scale become the output's integer: a value, its text, its integer parameters
(verifier/ARITHMETICS.md, verifier/NUMERICS.md section 1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.arithmetic.operand_steps import OperandSteps
from qverify.arithmetic.rounding_rules import RULES, Array

MODES = (
    *("tflite-single", "gemmlowp", "cmsis", "pow2-half-up", "pow2-half-away", "pow2-floor"),
    *("mul8", "mul15", "mul16", "mul24"),
)
REFERENCE = "ref-exact"
TWICE_HALF_UP = "gemmlowp with halves up at its second rounding"  # ruy, and the instructions of NEON
DOWN, TOWARD_ZERO, UP = "rounded down (floor)", "cut off (toward zero)", "rounded up (ceiling)"
CONVERT = "multiplier of 8 fraction bits"
ZERO = "the zero point added before"
EACH, SUM_UP = "each operand scaled by itself", "a sum of operands half up"
EACH_WHOLE = "each operand in whole steps of the output"
OPERANDS = (EACH, SUM_UP, EACH_WHOLE)
Stated = tuple[tuple[int, ...], tuple[int, ...]]  # the multipliers of a node, and a shift for all or for each
SCALES = ("scales multiplied in float32", "scales in float32")  # how a runtime computed its multipliers
MEANS = "means divided"
# How a kernel computes that does not scale one sum as the other fields state (ARITHMETICS.md, methods)
QUOTIENT, DIVIDED = "stored integers divided", "multiplier divided by the number of elements"
WHOLE_ZERO, FLOAT_MEAN = "zero point in whole steps of the output", "stored integers and zero point in float32"
FLOAT_PRODUCT = "product in float32"
FIXED_EXPONENTIALS, EXPONENTIAL_TABLE = "exponentials in fixed point", "exponentials in a table of float32"
FLOAT_FUNCTION = "function in float32"
PLACES, WEIGHTS_11 = "places in 1024ths", "weights of 11 bits"
ROWS_FIRST, WEIGHTS_FIRST = "rows weighted first in float32", "weights multiplied first in float32"
SEGMENTS, SUMS_32 = "function in segments", "sums of 32 bits"  # of int16
ZERO_IN_SUM, ONE_SHIFT = "zero point in units of the sum", "multipliers of one shift and a constant in 256ths"
FLOAT_STEPS = "bias and zero point added in float32"
ZEROS_APART, HELD = "product of the zero points scaled apart", "product rounded to 16 bits first"
HALF_QUOTIENT = "quotient in float16"
LOWEST, BYTE_PAIRS = "zero point of the lowest code", "products of bytes added in pairs of 16 bits"
METHODS = (
    *(ZERO_IN_SUM, ONE_SHIFT, LOWEST, BYTE_PAIRS, FLOAT_STEPS, ZEROS_APART, HELD, HALF_QUOTIENT),
    *(QUOTIENT, DIVIDED, WHOLE_ZERO, FLOAT_MEAN, FLOAT_PRODUCT, FIXED_EXPONENTIALS, EXPONENTIAL_TABLE, FLOAT_FUNCTION),
    *(PLACES, WEIGHTS_11, ROWS_FIRST, WEIGHTS_FIRST, SEGMENTS, SUMS_32),
)
POWER_OF_TWO, CUT = "power of two", "multiplier rounded down"
NARROWED = "multiplier made of one of 31 bits"  # LiteRT's, of sums of 16-bit operands
WIDE_BITS, ADDITION_BITS = 15, 30  # most of a multiplier of an int64 sum, of an operand of an addition
LEFT_SHIFT, WIDE_LEFT_SHIFT = 20, 15  # of the operands of an addition that are scaled one by one; of those of 16 bits
MOST_LIFTED = 30  # bits of a first shift to the left
MOST_SHIFT = 63  # below it every product is the same number of steps, 0 or -1


@dataclass(frozen=True, slots=True)
class MeanFirst:
    """How a mean is rounded before it is scaled. fraction: its fraction bits. rounding: one of RULES. reciprocal: bits of a
    multiplier that stands for the division; 0 for a division. stored: whether stored integers are added, and the input's
    zero point is subtracted from the mean."""

    fraction: int
    rounding: str
    reciprocal: int = 0
    stored: bool = False

    def __str__(self) -> str:
        what = "stored integers" if self.stored else "sum"
        how = f"multiplied by a reciprocal of {self.reciprocal} bits" if self.reciprocal else "divided by their number"
        many = "s" if self.fraction != 1 else ""
        return f"{what} {how} first to {self.fraction} fraction bit{many} ({self.rounding})"

    @staticmethod
    def parse(text: str) -> MeanFirst | None:
        """Returns what a method states; None for any other text."""
        match = _MEAN_FIRST.fullmatch(text)
        if match is None:
            return None
        found = MeanFirst(int(match[3]), match[4], int(match[2] or 0), match[1] == "stored integers")
        usual = (
            found.fraction <= MOST_MEAN_FRACTION and found.rounding in RULES and found.reciprocal in (0, *range(2, 32))
        )
        return found if usual and str(found) == text else None


_MEAN_FIRST = re.compile(
    r"(sum|stored integers) (?:divided by their number|multiplied by a reciprocal of (\d{1,2}) bits)"
    r" first to (\d{1,2}) fraction bits? \((.*)\)"
)
MOST_MEAN_FRACTION = 16


@dataclass(frozen=True, slots=True)
class Form:
    """How a sum of integers and a real scale S = q * 2^e, q in [0.5, 1), become the output's integer.

    Attributes:
        rounding: rule of the last step, one of RULES; or "ref-exact", what the reference computes.
        bits: bits of the multiplier M; 0 for the exact S, 1 for the power of two nearest to S.
        cut: whether M is rounded down instead of to the nearest.
        narrowed: whether M, of 15 bits, is made of one of 31 bits by a rounded shift, halves up, and is at most 32767.
        fraction: fraction bits of an M that is RNE(S * 2^fraction), instead of `bits`; 0 for none.
        before: fraction bits of a step of the output to which the sum is first shifted right, and the rule; or None.
        first: bits by which the product is first shifted right, and the rule; or None.
        scales: "", or how a runtime computed S in float32, one of SCALES.
        zero_inside: whether the zero point is added before the last rounding.
        operands: "", or how an addition treats its operands, one of OPERANDS; or the text of OperandSteps.
        means_divided: whether a mean is divided by its number of elements and rounded down.
        method: "", or how a kernel computes that does not scale one sum, one of METHODS; or the text of a MeanFirst.
    """

    rounding: str
    bits: int = 0
    cut: bool = False
    narrowed: bool = False
    fraction: int = 0
    before: tuple[int, str] | None = None
    first: tuple[int, str] | None = None
    scales: str = ""
    zero_inside: bool = False
    operands: str = ""
    means_divided: bool = False
    method: str = ""

    def __post_init__(self) -> None:
        if self.rounding == REFERENCE:
            if any((self.bits, self.cut, self.fraction, self.before, self.first, self.scales, self.zero_inside)):
                raise ValueError(f"{REFERENCE} has no parameters")
            return
        wrong = [r for r in (self.rounding, *(s[1] for s in (self.before, self.first) if s)) if r not in RULES]
        if wrong:
            raise ValueError(f"no rule of rounding: {wrong[0]!r}")
        for what, value, most in (
            ("bits of a multiplier", self.bits, 31),
            ("fraction bits of a multiplier", self.fraction, 30),
            ("fraction bits that are kept", self.before[0] if self.before else 0, 30),
            ("bits of a shift", self.first[0] if self.first else 0, 62),
        ):
            if not 0 <= value <= most:
                raise ValueError(f"{value} {what}, wanted 0 to {most}")
        steps_of_operands = OperandSteps.parse(self.operands)
        alone = self.operands == EACH_WHOLE or (steps_of_operands and steps_of_operands.fraction)
        if self.is_exact and (self.before or self.first or self.cut or (self.operands and not alone)):
            raise ValueError("a form without a multiplier is rounded once")
        if self.narrowed and (self.bits != WIDE_BITS or self.cut):
            raise ValueError(f"a multiplier of {self.bits} bits is not made of one of 31 bits")
        if self.bits and self.fraction:
            raise ValueError("a multiplier has a number of bits or of fraction bits, not both")

    @property
    def is_exact(self) -> bool:
        """Whether the exact S is multiplied."""
        return not self.bits and not self.fraction

    @staticmethod
    def parse(text: str) -> Form:
        """Returns the form that a text states. Raises ValueError, in one line, for any other text."""
        return _parse(text)

    def __str__(self) -> str:
        return _text_of(self)


NAMES: dict[str, Form] = {
    REFERENCE: Form(REFERENCE),
    "tflite-single": Form("half up", 31),
    "gemmlowp": Form("half away from zero", 31, first=(31, "half up")),
    "cmsis": Form("half away from zero", 31, first=(31, "half up"), operands=SUM_UP),
    "pow2-half-up": Form("half up", 1),
    "pow2-half-away": Form("half away from zero", 1),
    "pow2-floor": Form("floor", 1),
    **{f"mul{n}": Form("half up", n) for n in (8, 15, 16, 24)},
    TWICE_HALF_UP: Form("half up", 31, first=(31, "half up")),
    **{rule: Form(rule) for rule in ("half even", "half up", "half away from zero", "half down")},
    DOWN: Form("floor"),
    TOWARD_ZERO: Form("toward zero"),
    UP: Form("ceiling"),
    CONVERT: Form("half up", fraction=8),
}
_NAME_OF = {form: name for name, form in NAMES.items()}
_ALIASES = {"mul31": "tflite-single"}
_PATTERNS = {
    "bits": re.compile(r"multiplier of (\d{1,3}) bits"),
    "fraction": re.compile(r"multiplier of (\d{1,3}) fraction bits"),
    "before": re.compile(r"(\d{1,3}) fraction bits? kept first \((.*)\)"),
    "first": re.compile(r"product shifted by (\d{1,3}) first \((.*)\)"),
}


def _text_of(form: Form) -> str:
    plain = replace(form, scales="", zero_inside=False, means_divided=False, method="", narrowed=False)
    each = plain.operands if plain not in _NAME_OF else ""
    base = replace(plain, operands="") if each else plain
    return ", ".join(
        [
            *([each] if each else []),
            *([_NAME_OF[base]] if base in _NAME_OF else _parts_of(base)),
            *([NARROWED] if form.narrowed else []),
            *([ZERO] if form.zero_inside else []),
            *([MEANS] if form.means_divided else []),
            *([form.scales] if form.scales else []),
            *([form.method] if form.method else []),
        ]
    )


def _parts_of(form: Form) -> list[str]:
    multiplier = POWER_OF_TWO if form.bits == 1 else f"multiplier of {form.bits} bits"
    parts = [form.rounding]
    if not form.is_exact:
        parts.append(f"multiplier of {form.fraction} fraction bits" if form.fraction else multiplier)
    if form.cut:
        parts.append(CUT)
    if form.before:
        many = "s" if form.before[0] != 1 else ""
        parts.append(f"{form.before[0]} fraction bit{many} kept first ({form.before[1]})")
    if form.first:
        parts.append(f"product shifted by {form.first[0]} first ({form.first[1]})")
    return parts


@cache
def _parse(text: str) -> Form:
    given: dict[str, Any] = {}
    base: list[Form] = []
    for part in text.split(", "):
        name = _ALIASES.get(part, part)
        found = {"operands": part} if part in OPERANDS or OperandSteps.parse(part) else _read_part(part)
        if name in NAMES and not (base and name == CONVERT):
            base.append(NAMES[name])
        elif part in RULES and not base:
            base.append(Form(part))
        elif found and not found.keys() & given.keys():
            given |= found
        else:
            raise ValueError(f"{text[:80]!r} is no form: {part[:60]!r} is not known there")
    if len(base) != 1:
        raise ValueError(f"{text[:80]!r} is no form: it names {len(base)} rules or short names, wanted 1")
    form = replace(base[0], **given)
    if str(form) != _ALIASES.get(text, text):
        raise ValueError(f"{text[:80]!r} is no form as it is written; that form is {str(form)!r}")
    return form


def _read_part(part: str) -> dict[str, Any]:
    """Returns the fields that a part of a text states; none if it states none."""
    flags: dict[str, dict[str, Any]] = {
        POWER_OF_TWO: {"bits": 1},
        CUT: {"cut": True},
        NARROWED: {"narrowed": True},
        ZERO: {"zero_inside": True},
        MEANS: {"means_divided": True},
        **{s: {"scales": s} for s in SCALES},
        **{m: {"method": m} for m in METHODS},
    }
    if part in flags:
        return flags[part]
    if MeanFirst.parse(part):
        return {"method": part}
    for name, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(part):
            number = int(match[1])
            return {name: (number, match[2]) if name in ("before", "first") else number}
    return {}


def multiplier_of(form: Form, scale: npt.ArrayLike, wide: bool = False) -> tuple[Array, Array]:
    """Returns the multipliers M and shifts t of scales (float64, > 0), both int64: S is about M / 2^t. wide: whether
    sums are int64. Raises ValueError for a form without a multiplier."""
    real = np.atleast_1d(np.asarray(scale, np.float64))
    if form.fraction:
        scaled = np.minimum(real * 2.0**form.fraction, 2.0**32)
        multiplier = (np.floor(scaled) if form.cut else np.rint(scaled)).astype(np.int64)
        return multiplier, np.full_like(multiplier, form.fraction)
    fraction, exponent = np.frexp(real)
    exponent = exponent.astype(np.int64)
    if form.bits == 1:
        shift = 1 - exponent if form.cut else -np.rint(functions64.log2(real)).astype(np.int64)
        return np.ones_like(shift), shift
    if not form.bits:
        raise ValueError(f"{form} has no multiplier")
    if form.narrowed:
        multiplier, shift = multiplier_of(replace(form, bits=31, narrowed=False), real)
        return np.minimum((multiplier + (1 << 15)) >> 16, 2**WIDE_BITS - 1), shift - 16
    n = min(form.bits, WIDE_BITS) if wide else form.bits
    multiplier = np.floor(fraction * 2.0**n + (0.0 if form.cut else 0.5)).astype(np.int64)
    full = multiplier == 2**n
    multiplier[full] >>= 1
    exponent[full] += 1
    return multiplier, n - exponent


def steps(form: Form, scale: npt.ArrayLike, wide: bool = False) -> npt.NDArray[np.int32]:
    """Returns the integer parameters of scales [C] (float64, > 0), int32 [5, C]: M, pre, s1, s2, rules (NUMERICS.md
    section 1). wide: whether sums are int64, whose products are not first shifted. Raises ValueError for a scale that
    the form cannot represent, and for a form without a multiplier."""
    real = np.atleast_1d(np.asarray(scale, np.float64))
    return steps_of_multiplier(form, real, *multiplier_of(form, real, wide), wide)


def steps_of_multiplier(
    form: Form, real: Array, multiplier: Array, shift: Array, wide: bool = False
) -> npt.NDArray[np.int32]:
    """Returns what steps() does, for multipliers and shifts (int64 [C]) that stand for the scales."""
    rules, pre, first = ["half up", "half up", form.rounding], np.zeros_like(shift), np.zeros_like(shift)
    if form.before:
        exponent = np.frexp(real)[1].astype(np.int64)
        if form.bits > 1:  # that of the rounded scale
            exponent = np.frexp(multiplier.astype(np.float64))[1] - shift
        pre = -np.maximum(1 - exponent - form.before[0], 0)
        shift, rules[0] = shift + pre, form.before[1]
    if form.first and not wide:
        first[:], rules[1] = form.first[0], form.first[1]
        shift = shift - first
        fits = (shift >= -30) & ((shift >= 0) | (pre == 0))
        pre, shift = np.where(shift < 0, -shift, pre), np.maximum(shift, 0)
    elif form.first:
        rules[2] = form.first[1]
        fits = shift >= 1
    elif form.bits == 1:
        fits = shift >= -30
        multiplier, shift = multiplier << np.clip(-shift, 0, 30), np.maximum(shift, 0)
    else:
        fits = shift >= 1
    fits &= multiplier < 2 ** (WIDE_BITS if wide else 31)
    if not fits.all():
        raise ValueError(f"rounding {form} cannot represent a scale of {real.max():g} (or {real.min():g})")
    codes = sum(RULES.index(rule) << 4 * k for k, rule in enumerate(rules)) + (ZERO_BIT if form.zero_inside else 0)
    rows = multiplier, np.maximum(pre, -MOST_SHIFT), first, np.minimum(shift, MOST_SHIFT), np.full_like(shift, codes)
    return np.stack(rows).astype(np.int32)


ZERO_BIT = 1 << 11  # of the rules: the zero point counts at the last rounding


def exact_code(form: Form) -> int:
    """Returns the number of the rule by which the exact value is rounded, as rq has it (NUMERICS.md section 1)."""
    return RULES.index(form.rounding) + (8 if form.zero_inside else 0)


def make_rq(form: Form, scale: npt.ArrayLike, wide: bool = False) -> Array:
    """Returns the rq constant of scales [C]: int32 [5, C], or float64 [2, C] for an exact form. Raises ValueError for a
    scale that the form cannot represent."""
    if not form.is_exact:
        return steps(form, scale, wide)
    real = np.atleast_1d(np.asarray(scale, np.float64))
    if not (np.isfinite(real) & (real > 0)).all():
        raise ValueError(f"rounding {form} cannot represent a scale of {real.max():g} (or {real.min():g})")
    return np.stack([real, np.full_like(real, exact_code(form))])


def make_addition_rq(form: Form, ratio_a: float, ratio_b: float, *, wide: bool = False) -> Array:
    """Returns the rq constant of an addition: int32 [3, 5], or float64 [3] for an exact form (NUMERICS.md, add). For Sub,
    ratio_b is negative. wide: whether the operands have 16 bits. Raises ValueError for ratios that the form cannot
    represent."""
    alone = OperandSteps.parse(form.operands)
    if form.is_exact and (alone or form.operands):
        raise ValueError(f"rounding {form}: operands that are rounded by themselves need a multiplier")
    if form.is_exact:
        return np.array([ratio_a, ratio_b, exact_code(form)])
    if alone is not None:
        return _rq_of_operand_steps(form, alone, ratio_a, ratio_b)
    if form.operands == EACH_WHOLE:
        plain = replace(form, operands="", zero_inside=False)  # nothing is rounded after the operands
        return sum_of_whole(steps(plain, [abs(ratio_a), abs(ratio_b)]), (ratio_a, ratio_b))
    if form.operands == EACH:
        twice = 2 * max(abs(ratio_a), abs(ratio_b))
        left = WIDE_LEFT_SHIFT if wide else LEFT_SHIFT
        scales = [abs(ratio_a) / twice, abs(ratio_b) / twice, twice / (1 << left)]
        rows = steps(replace(form, operands=""), scales).T.copy()
        rows[:2, 1] += left
        if (rows[:, 1] > MOST_LIFTED).any():
            raise ValueError(f"rounding {form} cannot represent the scale ratios {ratio_a:g} and {ratio_b:g}")
        rows[:2, 4] &= ~ZERO_BIT
        rows[:2, 0] *= np.sign([ratio_a, ratio_b]).astype(np.int32)
        return rows
    multiplier_a, multiplier_b, shift = addition_multipliers(form, ratio_a, ratio_b)
    dropped = max(0, shift - form.before[0]) if form.before else 0
    last = "half up" if form.operands == SUM_UP else form.rounding
    codes = RULES.index(last) << 8 | (RULES.index(form.before[1]) if form.before else 0)
    codes |= ZERO_BIT if form.zero_inside else 0
    total = [1, -dropped, 0, shift - dropped, codes]
    return np.array([[multiplier_a, 0, 0, 0, 0], [multiplier_b, 0, 0, 0, 0], total], np.int32)


def _rq_of_operand_steps(form: Form, alone: OperandSteps, ratio_a: float, ratio_b: float) -> Array:
    """Returns the rq of an addition whose operands are rounded by themselves."""
    ratios, plain = np.abs([ratio_a, ratio_b]), replace(form, operands="")
    if alone.fraction is None:
        larger = ratios.max()
        rows = steps(
            replace(plain, rounding=alone.rounding, before=None, first=None, zero_inside=False), ratios / larger
        )
        total = steps(plain, [larger])[:, 0]
    else:
        rows = steps(replace(plain, zero_inside=False), ratios * 2.0**alone.fraction)
        codes = RULES.index(alone.rounding) << 8 | (ZERO_BIT if form.zero_inside else 0)
        total = np.array([1, 0, 0, alone.fraction, codes], np.int32)
    rows = rows.T.copy()
    rows[:, 0] *= np.sign([ratio_a, ratio_b]).astype(np.int32)
    return np.array([*rows, total], np.int32)


def sum_of_whole(operands: Array, ratios: npt.ArrayLike) -> Array:
    """Returns the rq of an addition whose operands are rounded to whole steps of the output. operands: their parameters,
    int32 [5, 2]. ratios: their scales, negative for one that is subtracted."""
    rows = operands.T.copy()
    rows[:, 0] *= np.sign(ratios).astype(np.int32)
    return np.array([*rows, [1, 0, 0, 0, 0]], np.int32)


def addition_multipliers(form: Form, ratio_a: float, ratio_b: float) -> tuple[int, int, int]:
    """Returns the multipliers of both operands and their common shift (NUMERICS.md, add). Raises ValueError for ratios
    that the form cannot represent."""
    most = min(form.bits, ADDITION_BITS)
    if form.bits == 1:
        ratio_a, ratio_b = (float(np.sign(r) * 2.0 ** np.rint(functions64.log2(abs(r)))) for r in (ratio_a, ratio_b))
    if form.bits == 1 or form.fraction:
        most = ADDITION_BITS
    largest = int(np.frexp(max(abs(ratio_a), abs(ratio_b)))[1])
    highest = max(0, min(62, most - largest + 1))  # above it a multiplier has too many bits
    for shift in [form.fraction] if form.fraction else range(highest, 0, -1):
        m_a, m_b = (int(np.floor(r * 2.0**shift + (0.0 if form.cut else 0.5))) for r in (ratio_a, ratio_b))
        if max(abs(m_a), abs(m_b)) < 2**most:
            return m_a, m_b, shift
    raise ValueError(f"rounding {form} cannot represent the scale ratios {ratio_a:g} and {ratio_b:g} of an addition")


def real_in_float32(form: Form, real: Array, operands: Sequence[Sequence[float]], y: float) -> Array:
    """Returns the scales of a node as a form has them computed in float32 from those of its operands (one, or one for
    each of the node's scales), or `real` itself if it has not. Raises ValueError for an op that has other factors."""
    if not form.scales:
        return real
    product = np.ones(1, np.float32)
    for k, scale in enumerate(operands):
        each = np.asarray(scale, np.float32)
        product = product * (np.repeat(each, max(1, len(real) // len(each))) if k == 0 else np.resize(each, len(real)))
    if form.scales == SCALES[0]:
        found = product.astype(np.float64) / np.float64(y)
    else:
        found = (product / np.float32(y)).astype(np.float64)
    if not np.allclose(found, real, rtol=1e-6, atol=0.0):
        raise ValueError(f"rounding {form}: its scale has another factor than those of the operands")
    return np.broadcast_to(found, real.shape)


@dataclass(frozen=True, slots=True)
class FormsOfOps:
    """The forms of a board by op, or by op and kind of nodes; ops without one compute as the reference. None: the
    arithmetic states that the form is not known, so that nodes of a kind do not have that of their op. name: the
    arithmetic's. multipliers: those that the model itself states, by the tensor that a node makes."""

    name: str
    forms: Mapping[str, Form | None]
    multipliers: Mapping[str, Stated] = field(default_factory=dict)

    def stored(self) -> dict[str, Any]:
        """Returns it as JSON: texts only, "" for a form that is not known."""
        return {"name": self.name, "ops": {op: "" if form is None else str(form) for op, form in self.forms.items()}}

    @staticmethod
    def restored(stored: Mapping[str, Any]) -> FormsOfOps:
        """Returns what stored() returned. Raises ValueError, TypeError or KeyError for anything else."""
        forms = {op: None if text == "" else Form.parse(text) for op, text in stored["ops"].items()}
        return FormsOfOps(str(stored["name"]), forms)

"""Forms: their text, and that every short name gives the integers of NUMERICS.md section 1."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, trunc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qverify.arithmetic.forms import (
    CONVERT,
    EACH,
    EACH_WHOLE,
    MEANS,
    MODES,
    NAMES,
    REFERENCE,
    SCALES,
    SUM_UP,
    TWICE_HALF_UP,
    ZERO,
    Form,
    steps,
)
from qverify.arithmetic.multipliers import parameters
from qverify.arithmetic.operand_steps import OperandSteps
from qverify.arithmetic.requantize import half_up, lift, scale_sums, shifted
from qverify.arithmetic.rounding_rules import RULES, round_real, shift_right
from qverify.compare.catalogue import LEGAL, MISTAKES

Array = Any
RNG = np.random.default_rng(36)
INT32 = (-(2**31), -(2**31) + 1, -(2**16) - 1, -3, -1, 0, 1, 2, 3, 5, 2**16, 2**30, 2**31 - 1)
SCALES_TRIED = np.concatenate(
    [
        2.0 ** np.array([-70.0, -40.0, -33.0, -31.0, -12.0, -3.0, -1.0]),
        3 * 2.0 ** np.arange(-12, -2),
        (2**24 - 1) * 2.0 ** np.arange(-38, -26, 3),
        RNG.uniform(1e-6, 0.9, 30),
        [1e-12, 0.999999999, 0.5 + 2**-40, 1.0, 1.5, 3.7, 100.3],
    ]
)
TEXTS = (
    "ref-exact",
    "tflite-single",
    "half even",
    "gemmlowp, scales in float32",
    "multiplier of 8 fraction bits",
    "each operand scaled by itself, gemmlowp",
    "each operand in whole steps of the output, half even",
    "each operand to 1 fraction bit of the output first (their sum half up), floor, multiplier of 12 bits",
    "each operand in steps of the larger scale first (half up), gemmlowp",
    "pow2-floor, means divided",
    "half even, the zero point added before",
    "gemmlowp with halves up at its second rounding, scales multiplied in float32",
    "half up, multiplier of 15 bits, 3 fraction bits kept first (floor)",
    "floor, power of two, multiplier rounded down, product shifted by 7 first (half even)",
    "half even, multiplier of 12 fraction bits, 1 fraction bit kept first (toward zero), the zero point added before",
)
RULE = st.sampled_from(RULES)
FORMS = st.builds(
    Form,
    RULE,
    st.integers(1, 31),
    st.booleans(),
    before=st.none() | st.tuples(st.integers(0, 30), RULE),
    first=st.none() | st.tuples(st.integers(1, 62), RULE),
    scales=st.sampled_from(("", *SCALES)),
    zero_inside=st.booleans(),
    operands=st.sampled_from(("", EACH, SUM_UP, EACH_WHOLE))
    | st.builds(lambda n, rule: str(OperandSteps(n, rule)), st.none() | st.integers(1, 20), RULE),
    means_divided=st.booleans(),
)


@given(FORMS)
@settings(max_examples=300, deadline=None)
def test_a_text_states_one_form(form: Form) -> None:
    assert Form.parse(str(form)) == form


@pytest.mark.parametrize("text", [*NAMES, *TEXTS])
def test_names_and_texts_are_as_they_are_written(text: str) -> None:
    assert str(Form.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not known"),
        ("gemlowp", "'gemlowp' is not known"),
        ("half up, half even", "'half even' is not known there|names 2 rules"),
        ("half up, multiplier of 31 bits", "that form is 'tflite-single'"),
        ("half up, multiplier of 40 bits", "40 bits of a multiplier, wanted 0 to 31"),
        ("half up, multiplier of 9 bits, 3 fraction bits kept first (up)", "no rule of rounding: 'up'"),
        ("half up, multiplier of 9 bits, multiplier of 9 bits", "'multiplier of 9 bits' is not known there"),
        ("half up, 3 fraction bits kept first (floor)", "rounded once"),
        ("each operand scaled by itself, half up", "rounded once"),
        ("ref-exact, means divided, multiplier of 9 bits", "has no parameters"),
        ("half up, multiplier of 9 bits, multiplier of 8 fraction bits", "not both"),
        ("scales in float32", "names 0 rules"),
        ("each operand to 0 fraction bits of the output first (their sum half up), mul8", "is not known there"),
        ("each operand to 21 fraction bits of the output first (their sum half up), mul8", "is not known there"),
        ("each operand in steps of the larger scale first (up), mul8", "is not known there"),
        ("each operand in steps of the larger scale first (floor), half up", "rounded once"),
    ],
)
def test_another_text_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        Form.parse(text)
    assert "\n" not in str(error.value)


def _sums(scale: float, wide: bool) -> Array:
    """Returns sums at the edges, at random, and at and next to ties of this scale."""
    limit = 2**46 if wide else 2**31 - 1
    ties = np.rint((np.arange(-300, 300) + 0.5) / scale)
    near = np.concatenate([ties + k for k in (-1, 0, 1)])
    near = near[np.abs(near) < limit].astype(np.int64)
    return np.concatenate([near, INT32, RNG.integers(-limit, limit, 200), RNG.integers(-3000, 3000, 200)])


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_modes_are_those_of_numerics(mode: str, wide: bool) -> None:
    """Scales that a mode cannot represent are refused by both."""
    compared = 0
    for scale in SCALES_TRIED:
        acc, form = _sums(scale, wide), Form.parse(mode)
        try:
            multiplier, shift = parameters(mode, scale, wide).astype(np.int64)
        except ValueError:
            with pytest.raises(ValueError, match=f"rounding {mode} cannot represent a scale"):
                steps(form, scale, wide)
            continue
        wanted = shifted(acc, multiplier, shift, mode, wide)
        np.testing.assert_array_equal(scale_sums(form, acc, scale, wide=wide), wanted)
        compared += 1
    assert compared > 40


def test_gemmlowp_with_halves_up_at_its_second_rounding() -> None:
    for scale in SCALES_TRIED:
        acc, (multiplier, exponent) = _sums(scale, False), parameters("gemmlowp", scale).astype(np.int64)
        high, right = (lift(acc, exponent) * multiplier + 2**30) >> 31, np.maximum(-exponent, 0)
        wanted = np.where(right > 0, half_up(high, right), high)
        np.testing.assert_array_equal(scale_sums(Form.parse(TWICE_HALF_UP), acc, scale), wanted)


def test_a_multiplier_of_8_fraction_bits() -> None:
    acc = np.arange(-255, 256)
    for scale in (0.3, 1.0, 5 / 512, 7.77):
        wanted = acc * int(np.rint(256 * scale)) + 128 >> 8
        np.testing.assert_array_equal(scale_sums(Form.parse(CONVERT), acc, scale), wanted)


REAL_RULES = {
    "half even": round,
    "half up": lambda v: floor(v + Fraction(1, 2)),
    "half down": lambda v: ceil(v - Fraction(1, 2)),
    "half away from zero": lambda v: floor(abs(v) + Fraction(1, 2)) * (1 if v >= 0 else -1),
    "floor": floor,
    "toward zero": trunc,
    "ceiling": ceil,
}


@pytest.mark.parametrize("zero", [0, 3, -4])
@pytest.mark.parametrize("rule", RULES)
def test_rules_are_exact(rule: str, zero: int) -> None:
    """At shifts up to 63 bits and of real values, at ties and beside them, with a zero point that counts."""
    value = np.concatenate([_sums(0.25, False), _sums(2.0**-20, True), [2**63 - 1, -(2**63), 2**62, -(2**62)]])
    for shift in (0, 1, 2, 5, 31, 62, 63):
        wanted = [REAL_RULES[rule](Fraction(int(v), 2**shift) + zero) - zero for v in value]
        shifts = np.array([shift])
        np.testing.assert_array_equal(shift_right(value, shifts, rule, zero), np.array(wanted, np.int64))
    real = np.array([-2.5, -2.25, -1.5, -0.5, -0.0, 0.49999999999999994, 0.5, 1.5, 2.5, 2.75, 1e9 + 0.5])
    wanted = [REAL_RULES[rule](Fraction(float(v)) + zero) - zero for v in real]
    np.testing.assert_array_equal(round_real(real, rule, zero), wanted)


def _by_fractions(form: Form, acc: int, scale: float, zero: int) -> int:
    """Returns what a form gives, computed with fractions from its fields alone."""

    def rounded(value: Fraction, rule: str, by: int = 0) -> int:
        return REAL_RULES[rule](value + by) - by

    exponent = int(np.frexp(scale)[1])
    inside = zero if form.zero_inside else 0
    if form.is_exact:
        return rounded(Fraction(float(np.float64(acc) * scale)), form.rounding, inside)
    if form.fraction:
        shift = form.fraction
        multiplier = floor(Fraction(scale) * 2**shift) if form.cut else round(Fraction(scale) * 2**shift)
    elif form.bits == 1:
        shift = 1 - exponent if form.cut else -int(np.rint(np.log2(scale)))
        multiplier, shift = (1, shift) if shift >= 0 else (2**-shift, 0)
    else:
        shift = form.bits - exponent
        exact = Fraction(scale) * Fraction(2) ** shift
        multiplier = floor(exact) if form.cut else floor(exact + Fraction(1, 2))
        if multiplier == 2**form.bits:
            multiplier, shift, exponent = multiplier // 2, shift - 1, exponent + 1
    sum_ = Fraction(acc)
    if form.before:
        dropped = max(0, 1 - exponent - form.before[0])
        sum_, shift = Fraction(rounded(sum_ / 2**dropped, form.before[1])), shift - dropped
    if form.first:
        shift -= form.first[0]
        sum_ *= 2 ** max(0, -shift)
        sum_ = max(min(sum_, Fraction(2**31 - 1)), Fraction(-(2**31)))
        sum_ = Fraction(rounded(sum_ * multiplier / 2 ** form.first[0], form.first[1]))
        return rounded(sum_ / 2 ** max(0, shift), form.rounding, inside)
    return rounded(sum_ * multiplier / 2**shift, form.rounding, inside)


@given(
    st.one_of(
        st.builds(Form, RULE, zero_inside=st.booleans()),
        st.builds(Form, RULE, fraction=st.integers(4, 20), cut=st.booleans()),
        st.builds(
            Form,
            RULE,
            st.integers(1, 31),
            st.booleans(),
            before=st.none() | st.tuples(st.integers(0, 30), RULE),
            first=st.none() | st.tuples(st.integers(1, 31), RULE),
            zero_inside=st.booleans(),
        ),
    ),
    st.sampled_from(SCALES_TRIED.tolist()),
    st.integers(-128, 127),
)
@settings(max_examples=200, deadline=None)
def test_a_form_computes_what_its_fields_say(form: Form, scale: float, zero: int) -> None:
    acc = np.concatenate([_sums(scale, False)[::40], INT32])
    try:
        found = scale_sums(form, acc, scale, zero)
    except ValueError as error:
        assert str(error).startswith(f"rounding {form} cannot represent a scale of")
        return
    np.testing.assert_array_equal(found, [_by_fractions(form, int(a), scale, zero) for a in acc])


def test_short_names_are_values() -> None:
    assert Form.parse(f"half even, {ZERO}").zero_inside
    assert Form.parse(f"pow2-floor, {MEANS}").means_divided
    assert Form.parse("mul31") == Form.parse("tflite-single") == Form("half up", 31)
    assert Form.parse(REFERENCE).rounding == REFERENCE
    with pytest.raises(ValueError, match="has no multiplier"):
        steps(Form("half up"), 0.5)


def test_the_catalogue_names_forms() -> None:
    for name in (*LEGAL, *MISTAKES):
        assert str(Form.parse(name)) == name

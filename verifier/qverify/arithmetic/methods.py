"""The rq constants of kernels that do not scale one sum as a rounding mode does (verifier/ARITHMETICS.md, methods;
verifier/NUMERICS.md section 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import float32, functions64
from qverify.arithmetic.exact_matmul import wrap_int32
from qverify.arithmetic.forms import Form, multiplier_of, steps, steps_of_multiplier
from qverify.arithmetic.rounding_rules import RULES, Array

Single = np.float32
Reals = npt.NDArray[np.float64]
WHOLE_IN_FLOAT32 = 2**24
BIAS_BITS = 28  # to which HTP rounds biases where each channel has its own scale
LEAST_SCALE, RAISED = 2.0**-24, float(Single(7e-8))  # of HTP's sums, and what scales below it become
MOST_SHIFT, COARSE_BITS = 15, 8  # of the multipliers of HTP's addition; of its constant
MOST_SHIFT_OF_PRODUCT, PRODUCT_BITS = 22, 15  # of HTP's product of two tensors
MIDDLE = 128  # code of eight bits from which HTP counts the zero points of a product
MOST_HELD = 6  # fraction bits that HTP keeps of a product before it rounds it to a code
SIGMOID = 1e-5  # largest distance of a function's values from those of the logistic function


def divide_multiplier(form: Form, x_scale: float, y_scale: float, count: int) -> Array:
    """Returns the rq of a mean of `count` elements, int32 [5, 1]: the multiplier of the scales, shifted left and divided;
    the remainder is dropped. Raises ValueError for a form without a multiplier of 31 bits."""
    base = replace(form, method="")
    if base.bits != 31 or base.before or base.cut:
        raise ValueError(f"no mean is computed in the form {str(form)!r}")
    real = np.array([float(x_scale) / float(y_scale)])
    multiplier, shift = multiplier_of(base, real)
    left = min(count.bit_length() - 1, 32, 62 - int(shift[0]))
    divided = np.array([(int(multiplier[0]) << left) // count], np.int64)
    return steps_of_multiplier(base, real, divided, shift + left)


def take_whole_zero(form: Form, x: tuple[float, int], y_scale: float, count: int) -> Array:
    """Returns the rq of a mean of `count` stored integers, int32 [7, 1]: the input's zero point is rounded to whole steps
    of the output, halves away from zero. x: scale and zero point."""
    scale, zero = x
    rows = steps(replace(form, method=""), Single(scale) / (Single(count) * Single(y_scale)))
    whole = Single(zero) * Single(scale) / Single(y_scale)
    after = -int(np.trunc(whole + np.copysign(Single(0.5), whole)))
    return _with_summands(rows, np.array([zero * count]), np.array([after]))


def mean_in_float32(x: tuple[float, int], y: tuple[float, int], count: int) -> Array:
    """Returns the rq of a mean of `count` stored integers, float32 [4, 1]. x, y: scale and zero point."""
    scale = Single(x[0]) / Single(y[0]) / Single(count)
    return _four(scale, x[1] * count, Single(y[1]) - Single(x[1] * count) * scale, 0)


def product_in_float32(first: float, second: float, y: tuple[float, int]) -> Array:
    """Returns the rq of a product of two tensors, float32 [4, 1]. y: scale and zero point."""
    return _four(Single(Single(first) * Single(second)) / Single(y[0]), 0, Single(0), y[1])


def _four(scale: np.float32, before: int, inside: np.float32, after: int) -> Array:
    made = np.array([[scale], [before], [inside], [after]], Single)
    if not np.isfinite(made).all() or scale <= 0 or abs(before) > WHOLE_IN_FLOAT32:
        raise ValueError(f"a scale of {scale:g} and a summand of {before} cannot be represented in float32")
    return made


def _with_summands(rows: Array, before: Array, after: Array) -> Array:
    """Returns steps with summands of the sum and of the result, int32 [7, C]. Raises ValueError for one beyond int32."""
    if np.abs(before).max() >= 2**31:
        raise ValueError(f"a summand of {np.abs(before).max()} cannot be represented")
    return np.concatenate([rows, [np.broadcast_to(s, rows.shape[1:]) for s in (before, after)]]).astype(np.int32)


def scales_of_htp(x: float, weights: Sequence[float], y: float) -> Reals:
    """Returns the scales of the sums of a convolution of HTP, in its float32: that of the largest scale of weights, times
    the ratio of each to it. x, y: scales of input and output."""
    each = np.atleast_1d(np.asarray(weights, Single))
    scales = Single(x) * each.max() / Single(y) * (each / each.max())
    return np.asarray(scales.astype(np.float64))


def convolve_in_htp(
    form: Form, scales: tuple[float, Sequence[float], float], zero: int, biases: Array | None, *, depthwise: bool
) -> Array:
    """Returns the rq of a convolution of HTP, int32 [7, C].

    Args:
        form: its form.
        scales: those of the input, the weights and the output.
        zero: the output's zero point, counted from the lowest code.
        biases: as in find_summands.
        depthwise: whether each input channel has a filter of its own: with a zero point these do not
            follow below the least scale.
    """
    each = scales_of_htp(*scales)
    if depthwise and zero and each.min() < LEAST_SCALE:
        raise ValueError(f"a scale of {each.min():g} cannot be represented")
    return add_zero_to_sums(form, each, zero, biases)


def _raise(scales: Reals) -> Reals:
    """Returns the scales by which HTP multiplies."""
    return np.where(scales < LEAST_SCALE, RAISED, scales)


def add_zero_to_sums(form: Form, scales: Reals, zero: int, biases: Array | None) -> Array:
    """Returns the rq of a convolution or product of HTP, int32 [7, C]. scales: of the sums; for a convolution as
    scales_of_htp gives them. zero: the output's zero point, counted from the lowest code. biases: as in find_summands."""
    if not (np.isfinite(scales).all() and scales.min() >= 0) or zero / _raise(scales).min() >= 2**31:
        raise ValueError(f"a scale of {scales.min():g} cannot be represented")
    scales = scales.astype(Single).astype(np.float64)
    rows = steps(replace(form, method=""), _raise(scales))
    before = find_summands(zero, scales, biases)
    whole = before if biases is None else before + biases.astype(np.int64)
    if np.abs(whole).max() >= 2**31:
        raise ValueError(f"a summand of {np.abs(whole).max()} cannot be represented")
    return _with_summands(rows, wrap_int32(before).astype(np.int64), np.array([-zero]))


def find_summands(zero: int, scales: Reals, biases: Array | None) -> Array:
    """Returns what is added to the sums of each scale, which have the biases, int64: the zero point in units of the sums,
    divided in float32 and rounded, halves up.

    Args:
        zero: the zero point, counted from the lowest code.
        scales: the scales.
        biases: those of the channels if each has its own scale. They are multiples of the largest magnitude / 2^28.
    """
    possible = _raise(scales)
    summand = Single(zero) / possible.astype(Single)
    if biases is None or len(scales) == 1 or not biases.any():
        return np.floor(summand.astype(np.float64) + 0.5).astype(np.int64)
    scaled = (biases * (scales / possible)).astype(Single)
    steps_of_one = Single(1 << BIAS_BITS) / Single(np.abs(scaled).max())
    kept = np.rint((scaled * steps_of_one).astype(np.float64)).astype(Single) / steps_of_one
    return np.floor((kept + summand).astype(np.float64) + 0.5).astype(np.int64) - biases.astype(np.int64)


def add_in_float32(form: Form, first: float, second: float, y_scale: float) -> Array:
    """Returns the rq of an addition whose ratios of scales are computed in float32, int32 [3, 5]: the larger becomes a
    multiplier of the form's bits, both are rounded half to even (XNNPACK). first, second: scales; the second is negative
    for a difference. Raises ValueError for a form without such multipliers, and for ratios that it cannot represent."""
    if form.bits < 2 or form.before or form.first or form.operands or form.cut:
        raise ValueError(f"no addition is computed in the form {str(form)!r}")
    ratios = [float(Single(abs(s)) / Single(y_scale)) for s in (first, second)]
    shift = form.bits - int(np.frexp(max(ratios))[1])
    if not 1 <= shift <= 62:
        raise ValueError(f"rounding {form} cannot represent the scale ratios {ratios[0]:g} and {ratios[1]:g}")
    signs = np.sign([first, second])
    rows = [[int(np.rint(r * 2.0**shift) * sign), 0, 0, 0, 0] for r, sign in zip(ratios, signs, strict=True)]
    return np.array([*rows, [1, 0, 0, shift, RULES.index(form.rounding) << 8]], np.int32)


def add_with_one_shift(ratios: tuple[float, float], zeros: tuple[int, int, int]) -> Array:
    """Returns the rq of HTP's addition, int32 [4, 5]. ratios: of both operands' scales to the output's, the second
    negative for a difference. zeros: zero points of both and the output, counted from the lowest code."""
    rising, falling = sum(r for r in ratios if r > 0), -sum(r for r in ratios if r < 0)
    shift = min(14 - int(np.frexp(max(rising, falling))[1]), MOST_SHIFT)
    if shift < 0:
        raise ValueError(f"scale ratios of {ratios[0]:g} and {ratios[1]:g} cannot be represented")
    first, second = (int(np.sign(r) * np.floor(abs(r) * 2.0**shift + 0.5)) for r in ratios)
    constant = (zeros[2] << shift) - first * zeros[0] - second * zeros[1]
    unit = 1 << COARSE_BITS
    constant = -((unit // 2 - constant) // unit) * unit  # to the nearest multiple, halves down
    summands = [constant + first * zeros[0] + second * zeros[1], -zeros[2], 0, 0, 0]
    return np.array([[first, 0, 0, 0, 0], [second, 0, 0, 0, 0], [1, 0, 0, shift, 0], summands], np.int32)


def multiply_in_htp(form: Form, scale: float, zeros: tuple[int, int]) -> Array:
    """Returns the rq of HTP's product of two tensors, int32 [7, 1]. The part of the product of the zero points that is a
    multiple of 256 is multiplied and rounded by itself; the rq has what that changes as a summand before the
    multiplication, and the whole steps that this one is too many as a summand of the result.

    Args:
        form: its form.
        scale: product of the scales of both divided by that of the output.
        zeros: their zero points, counted from the lowest code.

    Raises ValueError for another form, and for a scale that was not measured."""
    if form.rounding != "half up" or form.bits != PRODUCT_BITS or not 2.0**-20 <= scale < 1:
        raise ValueError(f"{str(form)!r} with a scale of {scale:g} is not computed, wanted mul15, 2^-20 to 1")
    shift = min(PRODUCT_BITS - int(np.frexp(scale)[1]), MOST_SHIFT_OF_PRODUCT)
    multiplier = int(np.floor(scale * 2.0**shift + 0.5))
    first, second = zeros[0] - MIDDLE, zeros[1] - MIDDLE
    apart = (2 * first * second + first + second + 128) >> COARSE_BITS
    added = ((apart * multiplier + 64 >> 7) << 15) - 256 * apart * multiplier
    factor = multiplier & -multiplier  # the power of two in it, which also divides what is added
    before = added // factor * pow(multiplier // factor, -1, 2**shift // factor) % (2**shift // factor)
    after = added - before * multiplier >> shift
    return np.array([[multiplier], [0], [0], [shift], [0], [before], [after]], np.int32)


def hold_in_16_bits(form: Form, scale: npt.ArrayLike) -> Array:
    """Returns the rq of HTP's change of the quantization, int32 [5, C]: the product of a code and the multiplier keeps six
    fraction bits, or as many fewer as 16 bits hold, before it is rounded. Raises ValueError for another form."""
    real = np.atleast_1d(np.asarray(scale, np.float64))
    rows = steps(replace(form, method=""), real)
    kept = np.minimum(MOST_HELD, 7 - np.frexp(real)[1].astype(np.int64))
    if form.rounding != "half up" or form.bits != PRODUCT_BITS or (kept < 1).any() or (rows[3] <= kept).any():
        raise ValueError(f"{str(form)!r} with a scale of {real.max():g} is not computed, wanted mul15, below 64")
    rows[2], rows[3] = rows[3] - kept, kept
    return rows


def make_logistic_table(values: Reals, x: tuple[float, Array], y: tuple[float, int], limits: tuple[int, int]) -> Array:
    """Returns the table of LiteRT's LOGISTIC, int64 for each value of the input.

    Args:
        values: what the function gives, in real values.
        x: scale of the input, and its values without the zero point.
        y: scale and zero point of the output.
        limits: those of the table.

    Raises ValueError if the values are not those of the logistic function."""
    scale, centred = x
    if not np.allclose(values, float32.sigmoid64(centred * float(scale)), rtol=0.0, atol=SIGMOID):
        raise ValueError("its function is not the logistic one")
    with np.errstate(over="ignore"):  # an infinite term gives 0 below
        terms = functions64.exp(-(Single(scale) * centred.astype(Single)).astype(np.float64)).astype(Single)
    found = Single(1) / (Single(1) + terms) * (Single(1) / Single(y[0]))
    return np.clip(np.floor(found + Single(0.5)) + y[1], *limits).astype(np.int64)

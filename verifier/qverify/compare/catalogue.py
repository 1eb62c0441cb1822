"""The names of the arithmetics in which runtimes are known to round the sums of a node.

A legal arithmetic is a rounding mode of NUMERICS.md section 1, or rounds the exact value to the nearest integer with
one rule for halves. The others are known mistakes, which are named and never accepted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from qverify.arithmetic import forms
from qverify.arithmetic.forms import Form
from qverify.arithmetic.rounding_rules import round_real
from qverify.compare.error_bounds.bounded_values import Reals

MODES, CONVERT, TWICE_HALF_UP, DOWN = forms.MODES, forms.CONVERT, forms.TWICE_HALF_UP, forms.DOWN
FLOOR = "pow2-floor"
FLOOR_MEANS = f"{FLOOR}, {forms.MEANS}"  # by their number of elements, which need not be a power of two
SUMS = ("conv", "conv_transpose", "fully_connected", "matmul", "add", "mul", "global_average_pool", "reduce_mean")
# Ops that round no single sum: their arithmetics are those of kernels.
OWN_KERNELS = ("softmax", "resize_linear", "quantize")
OPS = (*SUMS, "average_pool", "lookup", "concat", *OWN_KERNELS)  # the ops that the catalogue knows
MEANS = ("average_pool", "global_average_pool", "reduce_mean")


def _rules(*names: str) -> dict[str, Callable[[Reals], Reals]]:
    return {name: partial(round_real, rule=Form.parse(name).rounding) for name in names}


RULES = _rules("half even", "half up", "half away from zero", "half down")
MISTAKES = _rules(DOWN, forms.TOWARD_ZERO, forms.UP)
ZERO_INSIDE = f"half even, {forms.ZERO}"
LITERT_ADD = f"{forms.EACH}, gemmlowp"
LITERT_POOL = f"half away from zero, {forms.QUOTIENT}"
LITERT_MEAN, OPTIMIZED_MEAN = f"gemmlowp, {forms.DIVIDED}", f"{TWICE_HALF_UP}, {forms.WHOLE_ZERO}"
LITERT_SOFTMAX, OPTIMIZED_SOFTMAX = (
    f"half away from zero, {forms.FIXED_EXPONENTIALS}",
    f"half up, {forms.EXPONENTIAL_TABLE}",
)
LITERT_RESIZE, LITERT_RESIZE_FLOAT = f"half away from zero, {forms.PLACES}", f"half up, {forms.ROWS_FIRST}"
OPTIMIZED_RESIZE_FLOAT = f"half up, {forms.WEIGHTS_FIRST}"
XNNPACK_ADD = f"half up, multiplier of 21 bits, {forms.SCALES[1]}"
FLOAT_PRODUCT, XNNPACK_MEAN = f"half even, {forms.FLOAT_PRODUCT}", f"half even, {forms.FLOAT_MEAN}"
LITERT_FUNCTION = f"half up, {forms.FLOAT_FUNCTION}"
XNNPACK_RESIZE = f"half up, {forms.WEIGHTS_11}"
HTP_SUMS = f"half up, multiplier of 11 bits, 4 fraction bits kept first (floor), {forms.ZERO_IN_SUM}"
HTP_DEPTHWISE = f"mul15, {forms.ZERO_IN_SUM}"
HTP_ADD = f"half up, multiplier of 14 bits, {forms.ONE_SHIFT}"
HTP_MUL, HTP_CHANGE = f"mul15, {forms.ZEROS_APART}", f"mul15, {forms.HELD}"
HTP_QUANTIZE = f"half away from zero, {forms.HALF_QUOTIENT}"
OPENVINO_SUMS = f"half even, {forms.FLOAT_STEPS}"
HTP_SOFTMAX = f"half even, {forms.LOWEST}"
BYTE_PAIRS = f"half even, {forms.ZERO}, {forms.BYTE_PAIRS}"
KERNELS = (  # do not scale one sum as a rounding mode does
    *(LITERT_POOL, LITERT_MEAN, OPTIMIZED_MEAN, XNNPACK_MEAN, FLOAT_PRODUCT, XNNPACK_ADD),
    *(LITERT_SOFTMAX, OPTIMIZED_SOFTMAX, LITERT_FUNCTION),
    *(HTP_SUMS, HTP_DEPTHWISE, HTP_ADD, HTP_MUL, HTP_CHANGE, HTP_QUANTIZE, HTP_SOFTMAX, BYTE_PAIRS),
    OPENVINO_SUMS,
    *(LITERT_RESIZE, XNNPACK_RESIZE, LITERT_RESIZE_FLOAT, OPTIMIZED_RESIZE_FLOAT),
)
# What engines are known to compute wrongly: named and never accepted, unless a board is stated to compute so
WRONG_KERNELS = (HTP_SOFTMAX, BYTE_PAIRS)
SINGLE = tuple(f", {how}" for how in forms.SCALES)  # how a runtime computed its multipliers
LEGAL = (
    *MODES,
    FLOOR_MEANS,
    *(m + s for s in SINGLE for m in MODES),
    TWICE_HALF_UP,
    *(TWICE_HALF_UP + s for s in SINGLE),
    *RULES,
    *(rule + s for s in SINGLE for rule in RULES),
    ZERO_INSIDE,
    CONVERT,
    LITERT_ADD,
    *(k for k in KERNELS if k not in WRONG_KERNELS),
)
# Those that differ from the nearest integer at more than near ties, so that a fault may look like one of them
COARSE = (*(m for m in MODES if m.startswith("pow2")), "mul8", CONVERT)
COARSE_KERNELS = (
    OPTIMIZED_MEAN,
    LITERT_SOFTMAX,
    LITERT_RESIZE,
    XNNPACK_RESIZE,
    HTP_SUMS,
    HTP_ADD,
    HTP_MUL,
    HTP_QUANTIZE,
    *WRONG_KERNELS,
)
OWN_SUMS = (BYTE_PAIRS,)  # do not rise with the sum of the node
FAR = (*COARSE, *MISTAKES)  # those that differ from it anywhere


def is_coarse(name: str) -> bool:
    """Returns whether an arithmetic differs from the nearest integer far from ties, so that a fault may look like it."""
    return name.partition(", ")[0] in COARSE or name in COARSE_KERNELS


def describe(name: str) -> str:
    """Returns the arithmetic in words, with the option that gives it to model.bin if there is one."""
    mode, _, how = name.partition(", ")
    if name in KERNELS:
        return name
    if mode == TWICE_HALF_UP:
        return f"rounding {name}"
    if mode not in MODES:
        return f"the exact value, {name}"
    return f"rounding {mode} (qverify compile --rounding {mode}{'; ' + how if how else ''})"


SHIPPED = {  # shipped arithmetics, and what of the catalogue only they are
    "esp32-s3": ("pow2-half-up",),
    "htp": (HTP_SUMS, HTP_ADD, HTP_MUL, HTP_QUANTIZE),
}


def choose_name(names: Collection[str]) -> str:
    """Returns the name to show of several arithmetics that give the same bytes: a mode of powers of two, which fits no
    other scales, then the order of the catalogue."""
    order = [*(m for m in MODES if m.startswith("pow2")), *LEGAL, *MISTAKES, *WRONG_KERNELS]
    return min(names, key=order.index) if names else ""

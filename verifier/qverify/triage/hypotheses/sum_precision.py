"""The sum, its products or the bias lose low bits before they are scaled, or a mean is rounded to a whole number
first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.rounding_rules import RULES, Rule
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, has_bias
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, linear

NAME = "sum-precision"
LATE = -1
OPS = LINEAR_OPS
CUTS = {
    n: RULES[n]
    for n in ("half up", "down (floor)", "toward zero (truncated)", "half away from zero", "to nearest (ties to even)")
}
Ways = Iterator[tuple[str, Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    if linear(case) is None:
        return
    yield from fitting(case, _yield_sum_faults(has_bias(case)), bits=_likely)
    yield from fitting(case, _yield_product_faults(), in_parts=True, bits=_likely)


def _likely(text: str) -> float:
    """Returns the bits of this text: integers are usually shifted, which rounds half up or down."""
    rule = 0.0 if "half up" in text else 0.1 if "floor" in text or "truncated" in text else 0.5
    return 0.7 + rule + 0.5 * ("bias is" in text or "each" in text)


def _yield_sum_faults(biased: bool) -> Ways:
    for bits in range(1, 21):
        for text, rule in CUTS.items():
            to = f"rounded {text} to a multiple of {1 << bits}"
            yield (
                f"the sum{' (bias included)' if biased else ''} is {to} before it is scaled: its low {bits} bits are lost",
                partial(_lost, bits=bits, rule=rule),
            )
            if biased:
                yield f"the sum is {to} before the bias is added", partial(_before_bias, bits=bits, rule=rule)
                yield f"the sum and the bias are each {to}", partial(_each, bits=bits, rule=rule)
                yield f"the bias is {to}", partial(_bias_only, bits=bits, rule=rule)


def _lost(e: SummedElements, bits: int, rule: Rule) -> Array:
    return e.requantized(_whole(e.acc, bits, rule))


def _whole(values: Array, bits: int, rule: Rule) -> Array:
    return (rule(values / 2.0**bits) * 2.0**bits).astype(np.int64)


def _before_bias(e: SummedElements, bits: int, rule: Rule) -> Array:
    return e.requantized(_whole(e.acc - e.bias, bits, rule) + e.bias)


def _each(e: SummedElements, bits: int, rule: Rule) -> Array:
    return e.requantized(_whole(e.acc - e.bias, bits, rule) + _whole(e.bias, bits, rule))


def _bias_only(e: SummedElements, bits: int, rule: Rule) -> Array:
    return e.requantized(e.acc - e.bias + _whole(e.bias, bits, rule))


def _yield_product_faults() -> Ways:
    for bits in range(1, 13):
        for text, rule in CUTS.items():
            yield (
                f"every product is rounded {text} to a multiple of {1 << bits}: its low {bits} bits are lost",
                partial(_products, bits=bits, rule=rule),
            )


def _products(e: SummedElements, bits: int, rule: Rule) -> Array:
    products = e.summands.products
    lost = (_whole(products, bits, rule) - products).reshape(len(products), -1).sum(1)
    return e.requantized(e.acc + lost)

"""A convolution or matrix product of floats keeps its inputs, its weights, its products, its addend or its output in
fewer bits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels import narrow_floats
from qverify.triage.altered_kernels.narrow_floats import FORMATS, Narrow, significant
from qverify.triage.altered_kernels.product_layouts import FLOATS, SUMS
from qverify.triage.altered_kernels.product_terms import Array, ProductTerms, fault_variant, product_case
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "float-product-operands"
OPS = (*FLOATS, *SUMS)
F = np.float32
RULES: dict[str, Narrow] = {"rounded to nearest": np.rint, "the others cut off": np.trunc}
BITS = (11, 8, 10, 7, 12, 14, 16, 9, 13, 18, 20, 22, 23, 4, 5, 6)


def narrows() -> Iterator[tuple[str, Narrow]]:
    """Yields formats with fewer bits than float32, the likely ones first."""
    yield from ((text, way) for text, way in FORMATS.items() if "float32" not in text)
    for n in BITS:
        for text, rule in RULES.items():
            yield f"{n} significant bits, {text}", partial(significant, bits=n, rounded=rule)
    for n in (8, 4, 6, 7, 10, 12, 16):
        yield f"fixed point of {n} fractional bits", partial(narrow_floats.fixed, bits=n)


def _flushed(values: Array, least: float) -> Array:
    return np.where(np.abs(values) < least, 0.0, values)


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = product_case(case, OPS)
    if inner is None:
        return
    names = _names(inner.last.op)
    for text, narrow in narrows():
        for name, change in _changes(names, narrow):
            if inner.last.op in SUMS and change.func not in (_products, _results, _before):
                continue
            yield from fault_variant(case, f"{name} in {text}", change)
    for exponent in (6, 4, 8, 3, 10, 2, 12, 14, 16, 20, 24):
        for name, change in _changes(names, partial(_flushed, least=2.0**-exponent)):
            yield from fault_variant(
                case, f"{name} below 2^-{exponent} are flushed to 0".replace(" are held", ""), change
            )


def _names(op: str) -> tuple[str, str]:
    return ("the first matrix", "the second matrix") if op == "matmul_float" else ("the inputs", "the weights")


def _changes(names: tuple[str, str], narrow: Narrow) -> Iterator[tuple[str, partial[Array]]]:
    a, b = names
    yield f"the elements of {b} are held", partial(_operands, a=None, b=narrow)
    yield f"the elements of {a} are held", partial(_operands, a=narrow, b=None)
    yield f"the elements of {a} and {b} are held", partial(_operands, a=narrow, b=narrow)
    yield "the products are held", partial(_products, narrow=narrow)
    yield "what is added (the bias) is held", partial(_added, narrow=narrow)
    yield "the results are held", partial(_results, narrow=narrow)
    yield "the sum before the bias is held", partial(_before, narrow=narrow)
    yield "the sum before the bias and the result are held", partial(_both, narrow=narrow)


def _operands(terms: ProductTerms, a: Narrow | None, b: Narrow | None) -> Array:
    left, right = (v if n is None else n(v) for v, n in ((terms.a, a), (terms.b, b)))
    return terms.rounded(left * right)


def _products(terms: ProductTerms, narrow: Narrow) -> Array:
    return terms.rounded(narrow(terms.products))


def _added(terms: ProductTerms, narrow: Narrow) -> Array:
    assert terms.c is not None
    return terms.rounded(terms.products, narrow(terms.c))


def _results(terms: ProductTerms, narrow: Narrow) -> Array:
    return narrow(terms.rounded(terms.products)).astype(F) + F(0)


def _before(terms: ProductTerms, narrow: Narrow) -> Array:
    total = narrow(terms.products.sum(1)) * terms.alpha
    if terms.finish is not None:
        return terms.finish(total).astype(F)
    return (total if terms.c is None else total + terms.c).astype(F) + F(0)


def _both(terms: ProductTerms, narrow: Narrow) -> Array:
    return narrow(terms.rounded(_one(narrow(terms.products.sum(1))))).astype(F)


def _one(total: Array) -> Array:
    return total[:, None]

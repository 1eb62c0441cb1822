"""Pages of hypotheses that leave out what takes too long: all is tried up to the limit, and less beyond it."""

from __future__ import annotations

import importlib
from itertools import islice
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.triage.altered_kernels.float_formats import LARGEST
from qverify.triage.case import Case
from qverify.triage.hypotheses import pages

from tests.ops.recorded_hypotheses import Log
from tests.ops.recorded_shapes import cases_of, fitting_everything
from tests.plain.forensic_units import Small

Array = Any
PAGES = {page.NAME: page for page in pages()}
# page, limit, op of the asymmetric nodes, number of the node, and the largest unit that is tried, counted by hand
LIMITS = (
    ("integer-matmul", "MAX_PRODUCTS", "matmul_integer", 0, 3 * 4 * 17 * 5),
    ("integer-convolution", "MAX_PRODUCTS", "conv_float", 1, 2 * 6 * 10 * 4 * 2 * 3 * 2),
    ("lane-sums", "MOST_STEPS", "fully_connected", 0, 70 // 2),
    ("parts-requantized", "MOST_PARTS", "fully_connected", 0, 70 // 2),
    ("zero-point", "MAX_WORK", "average_pool", 0, 2 * 3 * 8 * 5 * 256),
    ("in-place", "MOST_PIXELS", "max_pool", 2, 5 * 7),
    ("other-node", "MAX_NODES", "mul", 0, 3),
    ("addition-steps", "MAX_OTHERS", "add", 0, 3),
    ("accumulator", "MAX_STEPS", "fully_connected", 0, 5 * 9 * 70),
    ("operand-order", "MAX_OPERANDS", "concat", 2, 4),
)


def texts_of(page: str, node: Case) -> list[str]:
    """Returns the texts of the faults that a page proposes if every fault fits."""
    with np.errstate(all="ignore"):
        found = PAGES[page].variants(fitting_everything(node, Log(agrees=True)))
        return [fault.text for fault in islice(found, 3000)]


@pytest.mark.parametrize(("page", "limit", "stem", "number", "most"), LIMITS, ids=[page for page, *_ in LIMITS])
def test_a_unit_at_the_limit_is_tried(
    page: str, limit: str, stem: str, number: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = next(case for name, case in cases_of(stem) if name.startswith(f"{number} "))
    module = importlib.import_module(f"qverify.triage.hypotheses.{page.replace('-', '_')}")
    found = []
    for value in (1 << 40, most, most - 1):
        monkeypatch.setattr(module, limit, value)
        found.append(texts_of(page, node))
    everything, at_limit, beyond = found
    assert at_limit == everything and len(beyond) < len(everything)


def counts_of(size: int, item: int) -> dict[str, tuple[float, int]]:
    """Returns the cost and the number of copied elements of every copy that ends too soon, by its text."""
    counts: dict[str, tuple[float, int]] = {
        "it copies the first half only": (2.0, size // 2),
        "the last element is not copied": (2.0, size - 1),
    }
    if item > 1:
        part = "half" if item == 2 else f"1/{item}"
        counts[f"it copies as many bytes as the tensor has elements: {part} of the tensor"] = (0.5, size // item)
    for other in {2, 4} & set(range(item)):
        counts[f"it copies {other} bytes for every element of {item}"] = (1.5, size * other // item)
    for block in (*(2**k for k in range(1, 11)), 4096):
        counts[f"it copies only whole blocks of {block} elements"] = (2.0, size - size % block)
        if 1 < item <= block:
            counts[f"it copies only whole blocks of {block} bytes"] = (2.5, (size * item - size * item % block) // item)
    for limit in (256, 1024, 4096, 32768, 65536):
        counts[f"it copies at most {limit} elements"] = (2.0, limit)
        counts[f"it counts elements modulo {limit}"] = (2.5, size % limit)
        counts[f"it copies at most {limit} bytes"] = (2.5, limit // item)
        counts[f"it counts bytes modulo {limit}"] = (3.0, size * item % limit // item)
    return {text: (cost, count) for text, (cost, count) in counts.items() if count < size}


@pytest.mark.parametrize(("dtype", "size"), [("int8", 4999), ("int16", 70001), ("int64", 8703), ("int32", 70001)])
def test_a_copy_ends_after_so_many_elements(dtype: str, size: int) -> None:
    """All elements are 7, and the last is wrong: every copy may have ended, and other inputs show where."""
    x = np.full(size, 7, dtype)
    x[-1] = 9
    unit = Small("reshape", (), (dtype, 0, 0), (size, 1), x=(x,))
    case = Case(unit.graph, units(unit.graph)[0], {"x": x}, "y", np.full((size, 1), 7, dtype))
    assert case.differing.tolist() == [size - 1]
    other = np.arange(1, size + 1).astype(dtype)
    elsewhere = case.on_inputs({"x": np.where(other == 7, 8, other).astype(dtype)})
    found = {}
    for fault in PAGES["partial-copy"].variants(case):
        filled = fault.make(elsewhere).reshape(-1) == 7
        text = fault.text.removeprefix("reshape: ").removesuffix("; the rest keeps what was in memory, 7 everywhere")
        found[text] = (fault.bits - 8 * x.itemsize, int(size - filled.sum()))
        assert filled[size - filled.sum() :].all()
    assert found == counts_of(size, x.itemsize)


@pytest.mark.parametrize(("name", "most"), [(name, float(name.split("/")[1].split(",")[0])) for name in LARGEST])
def test_values_as_multiples_of_the_largest(name: str, most: float) -> None:
    """Also of values below 1, none of which is the step, of zeros, and of no value."""
    rule = np.rint if name.endswith("rounded") else np.trunc
    for values in (np.array([0.31, -0.07, 0.011]), np.array([-3.7, 2.6, 0.4])):
        step = np.abs(values).max() / most
        assert (LARGEST[name](values) == rule(values / step) * step).all()
    assert (LARGEST[name](np.zeros(2)) == 0).all() and LARGEST[name](np.zeros(0)).size == 0

"""The families of faults: which there are, which are tried last, and how many faults each has on some units."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from qverify.triage import hypotheses
from qverify.triage.altered_kernels.memory_sources import memory_sources
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant, check_ops, ops_of, pages, pages_of

from tests.plain.fault_units import Table, case_of, small_case
from tests.plain.forensic_units import Conv, Small

ANY = {
    "alignment",
    "bit-flip",
    "byte-order",
    "channel-order",
    "clamp",
    "dropped-input",
    "element-offset",
    "group-order",
    "interleaving",
    "layout",
    "signedness",
    "zero-point",
}  # faults of any quantized unit
LATE = {"alignment", "byte-order", "element-offset", "group-order", "interleaving", "tiles"}  # hundreds of faults
LATE_OF_SOME_OPS = {
    "exponential",
    "float-functions",
    "input-tail",
    "layer-norm-output",
    "partial-sums",
    "softmax-exponential",
    "softmax-narrow",
}
EARLY = {
    "bias-addition",
    "bias-words",
    "blocked-sums",
    "carried-sum",
    "gathered-values",
    "lane-sums",
    "mean-divisor",
    "mean-reads",
    "mean-steps",
    "narrow-products",
    "operand-rows",
    "operand-values",
    "padding-reads",
    "parameter-index",
    "parts-requantized",
    "pool-counts",
    "pool-divisor",
    "product-overflow",
    "product-precision",
    "requantize-steps",
    "scale-exponents",
    "scale-order",
    "scale-precision",
    "shared-terms",
    "shifted-pairs",
    "split-products",
    "stale-panel",
    "stale-sums",
    "sum-precision",
    "summand-order",
    "summands-beyond",
    "summands-left-out",
    "tail-values",
    "tap-pairs",
    "transposed-overlaps",
    "winograd",
    "zero-point-terms",
}  # a few elements tell


def test_families_are_late_when_they_say_so() -> None:
    every = pages.__wrapped__()
    late = [int(getattr(p, "LATE", 0)) for p in every]
    assert late == sorted(late)
    assert {p.NAME: at for p, at in zip(every, late, strict=True) if at} == (
        dict.fromkeys(EARLY, -1) | dict.fromkeys(LATE | LATE_OF_SOME_OPS, 1) | {"accumulator": 2}
    )
    files = {path.stem.replace("_", "-") for path in Path(hypotheses.__file__).parent.glob("[!_]*.py")}
    assert len(every) == len(files) and {p.NAME for p in every} == files and all(p.__doc__ for p in every)
    names = [p.NAME for p, at in zip(every, late, strict=True) if not at]
    assert names == sorted(names) and every == pages()
    assert [p.NAME for p in every[: len(EARLY)]] == sorted(EARLY)


def _others(case: Case) -> set[str]:
    """The families that are not tried at the case."""
    return {p.NAME for p in pages()} - {p.NAME for p in pages_of(case)}


def test_families_of_the_op_are_tried_first() -> None:
    """Then those of any op, each in the order of likelihood; what sums products one by one stands last."""
    c = Conv()
    tried = pages_of(case_of(c, c.out(low=20)))
    own = [p.NAME for p in tried if ops_of(p) is not None and p.NAME != "accumulator"]
    general = [p.NAME for p in tried if ops_of(p) is None]
    assert [p.NAME for p in tried] == [*own, *general, "accumulator"]
    assert {"stale-panel", "bias", "window"} <= {*own} and {"clamp", "bit-flip", "tiles"} <= {*general}
    every = [p.NAME for p in pages()]
    assert own == sorted(own, key=every.index) and general == sorted(general, key=every.index)
    assert {"lookup-table", "pad-border", "softmax-sums"} <= _others(case_of(c))
    assert {"stale-panel", "bias", "accumulator"} <= _others(Table(4, 10).case(Table(4, 10).y))


@pytest.mark.parametrize("stated", ["conv", ("conv", "convolution"), (), 3])
def test_a_page_that_states_no_ops_of_ours_does_not_load(stated: Any) -> None:
    page = cast(Any, SimpleNamespace(NAME="some-fault", OPS=stated))
    with pytest.raises(ImportError, match=r"^triage/hypotheses/some_fault\.py: OPS is .*; wanted the names of ops"):
        check_ops(page)


def test_a_page_without_ops_is_of_any_op() -> None:
    page = cast(Any, SimpleNamespace(NAME="some-fault"))
    check_ops(page)
    assert ops_of(page) is None


def test_which_families_apply_to_a_table() -> None:
    """The late ones have the most faults; that of accumulators none, as a table adds nothing."""
    unit = Table(1, 4, 3, 5)
    recorded = unit.y.copy()
    recorded[0, 2, 1, 3] ^= 4
    counts = {p.NAME: len(list(p.variants(unit.case(recorded)))) for p in pages()}
    assert {name for name, found in counts.items() if found} == {
        *ANY, *LATE, "applied-twice", "dropped-or-repeated", "lookup-entries", "lookup-index", "lookup-table",
        "narrow-elements", "output-tail", "vector-tail"
    }  # fmt: skip


def test_a_fault_of_which_nothing_is_said_is_the_only_one_and_no_copy() -> None:
    fault = FaultVariant("left out", lambda case: case.healthy)
    assert (fault.bits, fault.copied, fault.free) == (0.0, False, None)


@pytest.mark.parametrize(
    ("op", "constants", "labels"),
    [
        ("conv", 3, ["the weights", "the bias", "the scales"]),
        ("matmul", 2, ["the second input", "the scales"]),
        ("softmax", 1, ["the table"]),
        ("resize_linear", 2, ["the index table", "the weight table"]),
        ("average_pool", 2, ["the constant c_a", "the constant c_b"]),
        ("lookup", 2, ["the table", "the constant c_b"]),
    ],
)
def test_what_constants_are_called(op: str, constants: int, labels: list[str]) -> None:
    """Constants are called by their operator and place, or by their name if there is none."""
    x = np.zeros(4, np.int8)
    small = Small(op, (), ("int8", 0.5, 3), (4,), x=(x,), **{f"c_{n}": (x,) for n in "abc"[:constants]})
    found = memory_sources(small_case(small, x))
    assert [p.label for p in found] == ["the output", "the input", *labels]
    assert [p.kind for p in found] == ["output", "input"] + ["constant"] * constants

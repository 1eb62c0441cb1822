"""A window is off by one: kernel, stride, dilation or padding; or padding is on the wrong side, or counted wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from qverify import ops
from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.one_row import Recomputed

NAME = "window"
OPS = (
    "conv",
    "conv_integer",
    "conv_transpose",
    "average_pool",
    "max_pool",
    "conv_float",
    "conv_transpose_float",
    "average_pool_float",
)
SIDES = (("pad_top", "pad_bottom", "row"), ("pad_left", "pad_right", "column"))


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case) or case
    words = ops.words(inner.last)
    if "stride_h" not in words:
        return
    for text, changed in {text: c for text, c in _changes(inner, words)}.items():
        if any(words[k] != v for k, v in changed.items()):
            yield FaultVariant(f"window: {text}", recompute(case, changed))


def recompute(case: Case, changed: dict[str, int]) -> Callable[[Case], Array]:
    """Returns the fault that changes words of the unit's inner node."""
    if (inner_case(case) or case) is case:
        return Recomputed(partial(_words, changed=changed))
    return partial(_again, changed=changed)


def _words(case: Case, changed: dict[str, int]) -> UnitChange:
    return case.change_words(**changed)


def _again(case: Case, changed: dict[str, int]) -> Array:
    inner = inner_case(case) or case
    output = inner.recompute(inner.change_words(**changed))
    return output if inner is case else finished(case, output).reshape(case.spec.shape)


def _changes(case: Case, words: dict[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    for before, after, name in SIDES:
        yield f"padding of the two {name} sides exchanged", {before: words[after], after: words[before]}
        for by in (-1, 1):
            if words[before] + by >= 0:
                way = "further" if by > 0 else "earlier"
                yield f"it starts one {name} {way}", {before: words[before] + by, after: max(0, words[after] - by)}
        yield f"no padding of {name}s", {before: 0, after: 0}
    yield "no padding", dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    for name in ("stride", "dilation", "kernel"):
        if f"{name}_h" not in words or (name == "kernel" and not case.last.op.endswith("pool")):
            continue
        height, width = words[f"{name}_h"], words[f"{name}_w"]
        yield f"{name} {width}x{height} instead of {height}x{width}", {f"{name}_h": width, f"{name}_w": height}
        yield f"{name} 1", {f"{name}_h": 1, f"{name}_w": 1}
        for by in (-1, 1):
            if min(height, width) + by >= 1:
                yield (
                    f"{name} {abs(by)} too {'large' if by > 0 else 'small'}",
                    {f"{name}_h": height + by, f"{name}_w": width + by},
                )
            for axis, own in (("h", height), ("w", width)):
                if own + by >= 1:
                    yield f"{name}_{axis} {own + by} instead of {own}", {f"{name}_{axis}": own + by}
    if "count_include_pad" in words:
        yield (
            "padding is counted in the mean, or not, the other way",
            {"count_include_pad": 1 - words["count_include_pad"]},
        )

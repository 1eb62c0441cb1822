"""The one place where the detection bench meets the product's hypotheses: what they say of a blamed node."""

from __future__ import annotations

from typing import Any

try:
    from qverify.session.forensics import explain_blame  # type: ignore[attr-defined,import-not-found,unused-ignore]
except ImportError:
    explain_blame = None

NOTE = "" if explain_blame is not None else "qverify.session.forensics is not there: nothing was explained"


def explain(report: Any, subject: Any, prepared: Any, pull: Any) -> list[set[str]] | None:
    """The hypotheses that reproduce the board's bytes at the blamed node, those with equal bytes in one set; each by its
    family and its full name. None: the product explains nothing yet. WIRE HERE when it does."""
    if explain_blame is None:
        return None
    found = explain_blame(report, subject.models, prepared, pull)
    return [set(group) for group in found]


# Kind of fault (its longest fitting beginning) to the words a hypothesis of it may be called by.
CALLED = {
    "round_": {"rounding"},
    "acc_": {"accumulator", "saturation"},
    "zero_tail": {"tile", "dropped", "stale"},
    "zero_": {"zero_point"},
    "pad_value": {"zero_point", "padding", "pad_value"},
    "scales_": {"scales", "per_channel"},
    "bias_": {"bias"},
    "clamp_": {"clamp", "activation"},
    "sign_": {"signedness"},
    "layout_": {"layout"},
    "axes_swapped": {"layout", "transposed"},
    "channel_": {"channel_order", "channel_swap"},
    "group_order": {"channel_order", "group_order"},
    "stride_": {"stride"},
    "align_garbage": {"stride", "alignment"},
    "off_by_one": {"stride", "alignment", "off_by_one", "byte_offset"},
    "tile_": {"tile"},
    "row_": {"row", "tile"},
    "stale_": {"stale"},
    "window_offset": {"off_by_one", "padding"},
    "pool_count": {"off_by_one", "pool"},
    "resize_": {"resize", "off_by_one"},
    "lut_": {"lut"},
    "byte_order": {"byte_order"},
    "nan": {"nan_scrub", "nan"},
    "bit": {"bit_flips"},
    "stuck_bit": {"bit_flips", "stuck_bit"},
    "plus_one": {"rounding", "zero_point", "off_by_one"},
}


def names(kind: str) -> set[str]:
    fitting = [start for start in CALLED if kind.startswith(start)]
    return CALLED[max(fitting, key=len)] | {kind} if fitting else {kind}

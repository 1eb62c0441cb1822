"""The one place where the detection bench meets the product's hypotheses: what they say of a blamed node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from qverify.session.triage.board_experiments import BoardExperiments
from qverify.session.triage.explain_nodes import NodeEvidence, explain_blame

from benchmarks.detection_subjects import Judged, Subject

SECONDS = 20.0  # of a search


@dataclass(frozen=True, slots=True)
class Said:
    """families: of the causes that experiments on the board confirmed, those which are one answer in one set; of that
    node alone, others that fail have a fault of their own; empty: unexplained, or the board is not blamed. causes: each as a person reads it."""

    families: list[set[str]]
    causes: set[str]
    candidates: set[str]  # families that fit every byte and are not confirmed
    why: str  # they are not


def explain(subject: Subject, judged: Judged) -> Said:
    recordings = subject.host(judged.prepared).recordings | {"board": judged.board}
    earlier: dict[str, Any] = {}
    if judged.before is not None:
        earlier = {**subject.host(judged.before).recordings["simulator"].tensors, **judged.before.arrays()}
    previous = partial(_find, earlier)
    arrays = judged.prepared.arrays()
    found = explain_blame(
        judged.report,
        NodeEvidence(recordings, subject.graph, arrays, judged.pull, previous, BoardExperiments(judged.connected)),
        SECONDS,
    )
    first = [one.explanation for one in found if one.explanation and one.node == found[0].node]
    groups = [group for explanation in first if explanation.confirmed for group in explanation.exact]
    open_ones = [explanation for explanation in first if not explanation.confirmed]
    return Said(
        [{cause.family for cause in group} for group in groups],
        {cause.said for g in groups for cause in g},
        {cause.family for explanation in open_ones for group in explanation.exact for cause in group},
        next((explanation.unconfirmed for explanation in open_ones if explanation.unconfirmed), ""),
    )


def _find(tensors: Any, name: str) -> Any:
    return tensors.get(name)


# Kind of fault (its longest fitting beginning) to the families that name it.
CALLED = {
    "round_": {"rounding", "requantize-steps", "product-precision", "scale-precision", "add-terms"},
    "acc_": {"accumulator", "partial-sums"},
    "zero_tail": {"dropped-or-repeated", "stale"},
    "zero_": {"zero-point"},
    "pad_value": {"zero-point", "window", "padding", "pad-value"},
    "scales_": {"scales"},
    "bias_": {"bias", "bias-addition"},
    "clamp_": {"clamp"},
    "sign_": {"signedness"},
    "layout_": {"layout"},
    "layout_weight": {"layout", "kernel-order"},
    "axes_swapped": {"layout"},
    "channel_": {"channel-order"},
    "group_order": {"group-order", "channel-order"},
    "stride_": {"alignment", "stride"},
    "align_garbage": {"alignment", "vector-tail"},
    "off_by_one": {"element-offset"},
    "tile_": {"dropped-or-repeated"},
    "row_": {"dropped-or-repeated"},
    "stale_": {"stale", "stale-buffer", "stale-frame"},
    "window_offset": {"window", "window-words", "window-positions"},
    "pool_count": {"window", "pool"},
    "resize_": {"resize-mode"},
    "lut_": {"lookup-index", "lookup-entries", "lookup-table"},
    "byte_order": {"byte-order"},
    "nan": {"nan-scrub"},
    "bit": {"bit-flip"},
    "stuck_bit": {"bit-flip"},
    "plus_one": {"zero-point", "bit-flip", "rounding"},
    "tap_mirrored": {
        "kernel-order"
    },  # these four were thought up without a hypothesis; one turned out to make the same bytes
    "narrow_saturation": {"clamp"},
    "tiles_turned": {"layout", "tiles"},
    "dealt": {"group-order", "channel-order", "interleaving"},
}


def names(kind: str) -> set[str]:
    """Families that name a kind; none for a withheld one."""
    fitting = [start for start in CALLED if kind.startswith(start)]
    return CALLED[max(fitting, key=len)] if fitting else set()

"""Explains blamed nodes with the product's hypotheses. No other file of the detection bench uses them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from qverify.session.node_evidence import NodeEvidence
from qverify.session.triage.board_experiments import BoardExperiments
from qverify.session.triage.explain_nodes import explain_blame

from benchmarks.detection_subjects import JudgedRun, Subject

SEARCH_S = 20.0  # limit of one search


@dataclass(frozen=True, slots=True)
class BlameExplanation:
    """The conclusion of triage about the blamed node alone; other failing nodes may have a fault of their own.

    Attributes:
        families: families of the causes that experiments on the board confirmed; causes that belong to one answer are
            in one set; empty if nothing is confirmed or the board is not blamed.
        causes: the confirmed causes as text.
        candidates: families that fit every byte but are not confirmed.
        why: why the candidates are not confirmed.
    """

    families: list[set[str]]
    causes: set[str]
    candidates: set[str]
    why: str


def explain(subject: Subject, judged: JudgedRun) -> BlameExplanation:
    """Runs the search for causes of the blame, with experiments on the connected board."""
    recordings = subject.host(judged.prepared).recordings | {"board": judged.board}
    earlier: dict[str, Any] = {}
    if judged.before is not None:
        earlier = {**subject.host(judged.before).recordings["simulator"].tensors, **judged.before.arrays()}
    previous = partial(_find, earlier)
    arrays = judged.prepared.arrays()
    explained_nodes = explain_blame(
        judged.report,
        NodeEvidence(recordings, subject.graph, arrays, judged.pull, previous, BoardExperiments(judged.connected)),
        SEARCH_S,
    )
    blamed = explained_nodes[0].node if explained_nodes else ""
    first = [n.explanation for n in explained_nodes if n.explanation and n.node == blamed]
    groups = [group for explanation in first if explanation.confirmed for group in explanation.exact]
    open_ones = [explanation for explanation in first if not explanation.confirmed]
    return BlameExplanation(
        [{cause.family for cause in group} for group in groups],
        {cause.said for g in groups for cause in g},
        {cause.family for explanation in open_ones for group in explanation.exact for cause in group},
        next((explanation.unconfirmed for explanation in open_ones if explanation.unconfirmed), ""),
    )


def _find(tensors: Any, name: str) -> Any:
    return tensors.get(name)


# prefix of a kind of fault to the families that are the right explanation; the longest matching prefix counts
FAMILIES = {
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
    # these four were made up without a hypothesis in mind; hypotheses turned out to produce the same bytes
    "tap_mirrored": {"kernel-order"},
    "narrow_saturation": {"clamp"},
    "tiles_turned": {"layout", "tiles"},
    "dealt": {"group-order", "channel-order", "interleaving"},
}


def families_of(kind: str) -> set[str]:
    """Returns the families that are the right explanation of a kind of fault; an empty set for a withheld kind."""
    fitting = [start for start in FAMILIES if kind.startswith(start)]
    return FAMILIES[max(fitting, key=len)] if fitting else set()

"""The one graph of a page: all units of the network and their states as JSON, which graph.js lays out and draws."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from html import escape
from importlib.resources import files

from qverify.renderers.html_page import around
from qverify.renderers.html_page.elements import MARKS, element, text
from qverify.renderers.html_page.frame import Section
from qverify.report.document import Blame, Pair, TensorRow
from qverify.report.facts import FusedRegion

MAX_UNITS = 4000  # of a larger network, those around the first wrong one are drawn
SCRIPTS = ("vendored/dagre.min.js", "vendored/panzoom.min.js", "graph.js")
VERDICTS = ("PASSED", "FAILED", "INCONCLUSIVE")
KINDS = {
    "linear": ("conv", "matmul", "fully_connected", "gru", "lstm", "rnn"),
    "sum": ("add", "mul", "mod", "elementwise", "variadic", "where", "sub", "div"),
    "function": ("lookup", "softmax", "log_softmax", "cast", "quantize", "dequantize", "dynamic_quantize", "half"),
    "reduce": ("average_pool", "global_average", "max_pool", "reduce", "arg_", "top_k", "cum_sum", "non_max"),
    "norm": ("batch_norm", "group_norm", "layer_norm", "lp_norm", "lrn", "rms_norm", "normalize"),
    "move": (
        *("concat", "depth_to_space", "gather", "one_hot", "pad", "reshape", "resize", "scatter", "slice", "split"),
        *("tile", "transpose", "trilu", "unpack", "yuv"),
    ),
}  # beginnings of operators, by the sign that a box gets
LEGEND = (
    "Drag to move, Ctrl and wheel to zoom. Keys: arrows go to inputs and readers, Enter to the tensor's numbers, / to the "
    "search, + and - zoom, 0 shows all, Escape returns to the first wrong node."
)


def section(network: around.Network | None, blamed: Iterable[Blame]) -> Section:
    """Returns the section of the graph, which is hidden until a script shows it: without scripts the page has the
    drawings around each node instead."""
    if network is None or not network.units:
        return Section("network", "", "")
    first = _first_wrong(network, blamed)
    low = max(0, min(first - MAX_UNITS // 2, len(network.units) - MAX_UNITS))
    shown = range(low, min(low + MAX_UNITS, len(network.units)))
    data = json.dumps(_data(network, shown, first), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    left = len(network.units) - len(shown)
    rule = (
        f" {left} of {len(network.units)} nodes are not drawn: those farthest from the first wrong one." if left else ""
    )
    frame = network.pairs[0].frame
    of_frame = f" As of frame {frame}." if frame else ""
    inside = [
        element("template", escape(data, quote=False), class_="network-data"),
        element("p", text(LEGEND + of_frame + rule), class_="under"),
        element("div", class_="network-place"),
    ]
    return Section("network", "The network", element("div", *inside, class_="network"), script=_scripts())


def _scripts() -> str:
    """Returns the scripts of the graph: the layout, panning and zooming of others (vendored/README.md), and ours."""
    folder = files("qverify.renderers.html_page")
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS) + "\n"


def _first_wrong(network: around.Network, blamed: Iterable[Blame]) -> int:
    """Returns the number of the unit to show first: the first blamed one, else the first in the worst state."""
    named = [at for blame in blamed if (at := network.find(blame.node)) is not None]
    order = sorted(range(len(network.units)), key=lambda at: around.ORDER.index(network.unit_state(at)))
    agreeing = network.unit_state(order[0]) == "agrees"
    return min(named) if named else 0 if agreeing else order[0]


def _data(network: around.Network, shown: range, first: int) -> dict[str, object]:
    """Returns what graph.js draws. nodes: see _node. regions: the nodes that were recomputed as one. first: number of
    the node that is shown first, counted from the first one drawn, as all numbers here."""
    rows = [{row.name: (at, row) for at, row in enumerate(pair.tensors)} for pair in network.pairs]
    return {
        "pairs": [[pair.a, pair.b] for pair in network.pairs],
        "marks": MARKS,
        "signs": around.SIGNS,
        "words": around.WORDS,
        "low": shown.start,
        "first": first - shown.start,
        "nodes": [_node(network, at, shown, rows) for at in shown],
        "regions": _regions(network, shown),
    }


def _node(network: around.Network, at: int, shown: range, rows: list[dict[str, tuple[int, TensorRow]]]) -> list[object]:
    """Returns a unit as a list: its tensor; operator; kind; state in each pair, a letter of each; verdict in each pair,
    a letter, - without a row; lowest SQNR in dB, null if it is not known or infinite; ids of its rows; the units that it
    reads, or the name of an input; number of ONNX nodes; 1 if an output is final."""
    unit = network.units[at]
    found = [[of_pair[name] for name in unit.outputs if name in of_pair] for of_pair in rows]
    states = "".join(
        _worst([network.state(name)[pair] for name in unit.outputs])[0] for pair in range(len(network.pairs))
    )
    verdicts = "".join(min((row.verdict for _, row in f), key=_ORDER.index)[0] if f else "-" for f in found)
    reads = [network.makers.get(name, name) for name in dict.fromkeys(unit.inputs)]
    return [
        unit.outputs[0] if unit.outputs else unit.node,
        unit.op,
        _kind(unit.op),
        states,
        verdicts,
        _lowest_sqnr([row for f in found for _, row in f]),
        [next((network.ids[pair].get(row.name, "") for _, row in f), "") for pair, f in enumerate(found)],
        [maker - shown.start if isinstance(maker, int) else maker for maker in reads if _drawn(maker, shown)],
        len(unit.covers),
        int(any(row.final for f in found for _, row in f)),
    ]


_ORDER = ("FAILED", "INCONCLUSIVE", "PASSED")


def _drawn(maker: int | str, shown: range) -> bool:
    return isinstance(maker, str) or maker in shown


def _worst(states: list[str]) -> str:
    return next((state for state in around.ORDER if state in states), "unknown")


def _lowest_sqnr(rows: list[TensorRow]) -> float | None:
    values = [row.metrics.get("sqnr_db") for row in rows if not row.bit_equal]
    numbers = [float(v) for v in values if isinstance(v, (int, float)) and math.isfinite(v)]
    return round(min(numbers), 1) if numbers else None


def _kind(op: str) -> str:
    return next((kind for kind, starts in KINDS.items() if op.startswith(starts)), "other")


def _regions(network: around.Network, shown: range) -> list[list[object]]:
    """Returns each region once: its place in words, and the numbers of its units."""
    found = dict[str, list[int]]()
    for region in _regions_of(network.pairs):
        members = [_find(network, node) for node in region.nodes]
        units = sorted({at for at in members if at is not None and at in shown})
        if len(units) > 1:
            found[region.place] = [at - shown.start for at in units]
    return [[place, units] for place, units in found.items()]


def _find(network: around.Network, node: str) -> int | None:
    """Returns the unit of a region's node, which is written as OPERATOR NAME; both may contain blanks."""
    words = node.split(" ")
    found = (network.find(" ".join(words[at:])) for at in range(1, len(words)))
    return next((at for at in found if at is not None), None)


def _regions_of(pairs: list[Pair]) -> Iterable[FusedRegion]:
    for pair in pairs:
        if pair.first_divergence is not None and pair.first_divergence.region is not None:
            yield pair.first_divergence.region
        for row in pair.tensors:
            if row.forced is not None and row.forced.region is not None:
                yield row.forced.region

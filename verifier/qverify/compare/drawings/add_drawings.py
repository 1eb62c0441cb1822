"""Chooses which tensors are drawn, and for which pair (report.drawings.RULE). Tensors with the same bytes are drawn
once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from qverify.compare.drawings.draw_tensor import draw_tensor
from qverify.compare.judge import Judged
from qverify.compare.paired_values import PairedValues
from qverify.compare.pairing import NamePair
from qverify.model_bin.graph import Graph
from qverify.report.document import Blame, Forced, Pair, TensorRow
from qverify.report.drawings import MAX_DRAWN
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

ORDER = ("fails when it is recomputed", "the first that differs", "a final output that differs", "differs")
EQUAL = ("a final output", "equal, in running order")
Verdicts = Mapping[str, Forced]


@dataclass(slots=True)
class DrawingCandidate:
    """A tensor that could be drawn.

    Attributes:
        judged: the pair.
        name: name of the tensor.
        op: op of the node that computes it, or "".
        why: the reason to draw it, for the report.
        rank: sort key of the candidates, the most important first.
        key: key of the bytes of both sides, or None if they are not known.
    """

    judged: Judged
    name: str
    op: str
    why: str
    rank: tuple[int, float]
    key: tuple[str, str, str] | None


def add_drawings(
    pairs: Sequence[tuple[Judged, Verdicts]], graph: Graph | None, blame: Blame | None, draw_all: bool
) -> None:
    """Adds drawings to the pairs. draw_all: whether to draw the tensors that RULE describes; if not, only a tensor of
    the blamed node is drawn. pairs: judged pairs with their forced verdicts."""
    candidates = [c for judged, forced in pairs for c in _list_candidates(judged, forced, graph)]
    candidates.sort(key=lambda c: c.rank)
    if not draw_all:
        of_blame = [c for c in candidates if blame is not None and c.rank[0] == 0 and _is_made_by(c, graph, blame.node)]
        candidates = of_blame[:1]
    drawn, first_pair = 0, dict[tuple[str, str, str], Pair]()
    for c in candidates:
        pair = c.judged.pair
        if c.key is not None and c.key in first_pair:
            drawings = first_pair[c.key].drawings
            next(d for d in drawings if d.name == c.name).also.append(f"{pair.a} ~ {pair.b}")
        elif drawn < MAX_DRAWN and (make_values := _find_values(c, graph)) is not None:
            pair.drawings.append(draw_tensor(make_values, c.op, c.why))
            drawn += 1
            if c.key is not None:
                first_pair[c.key] = pair


def _is_made_by(candidate: DrawingCandidate, graph: Graph | None, node: str) -> bool:
    maker = graph.producers().get(candidate.name) if graph is not None else None
    return maker is not None and maker.name == node


def _list_candidates(judged: Judged, forced: Verdicts, graph: Graph | None) -> list[DrawingCandidate]:
    """Returns the tensors with a row in the report, and those that fail when recomputed."""
    makers = graph.producers() if graph is not None else {}
    rows = {row.name: row for row in judged.pair.tensors}
    names = dict.fromkeys([*rows, *(n for n, f in forced.items() if f.verdict == "FAILED")])
    candidates = []
    for at, name in enumerate(names):
        row, maker = rows.get(name), makers.get(name)
        rank = _compute_rank(judged.pair, name, row, forced.get(name), at)
        why = (*ORDER, *EQUAL)[rank[0]]
        candidates.append(DrawingCandidate(judged, name, maker.op if maker else "", why, rank, _make_key(judged, name)))
    return candidates


def _compute_rank(pair: Pair, name: str, row: TensorRow | None, forced: Forced | None, at: int) -> tuple[int, float]:
    if forced is not None and forced.verdict == "FAILED":
        return 0, at
    if pair.first_divergence is not None and pair.first_divergence.tensor == name:
        return 1, at
    if row is None or not row.bit_equal:
        sqnr = row.metrics.get("sqnr_db") if row is not None else None
        has_sqnr = isinstance(sqnr, (int, float)) and sqnr == sqnr
        return (2, at) if row is not None and row.final else (3, float(sqnr) if has_sqnr else float("-inf"))  # type: ignore[arg-type]
    return (4, at) if row.final else (5, at)


def _find_pair(judged: Judged, name: str) -> NamePair | None:
    """Returns the names of this tensor on both sides, whether it was judged or not, or None if one side does not
    declare it."""
    return judged.names.get(name) or next((p for p in judged.declared if p.name == name), None)


def _make_key(judged: Judged, name: str) -> tuple[str, str, str] | None:
    """Returns the tensor's name and the digests on both sides, or None if a digest is not known. Pairs of different
    sides with the same bytes have the same key."""
    p = _find_pair(judged, name)
    digest_a, digest_b = (judged.a.digest(p.a), judged.b.digest(p.b)) if p is not None else (None, None)
    return (name, digest_a, digest_b) if digest_a is not None and digest_b is not None else None


def _find_values(candidate: DrawingCandidate, graph: Graph | None) -> partial[PairedValues] | None:
    """Returns a function that makes the values of both sides, or None if they are not available or cannot be
    compared."""
    judged, name = candidate.judged, candidate.name
    p = _find_pair(judged, name)
    if p is None:
        return None
    a, b = judged.a.get_local(p.a), judged.b.get_local(p.b)
    if (a is None) != (b is None) and judged.a.digest(p.a) == judged.b.digest(p.b) is not None:
        a = b = b if a is None else a
    if a is None or b is None or not a.size:
        return None
    spec_a = judged.a.recording.specs.get(p.a) or (graph.tensors.get(p.a) if graph is not None else None)
    spec_b = judged.b.recording.specs.get(p.b) or (graph.tensors.get(p.b) if graph is not None else None)
    spec_a, spec_b = spec_a or _make_spec(p.a, a), spec_b or _make_spec(p.b, b)
    if a.shape != b.shape or not all(_fits(v, spec) for v, spec in ((a, spec_a), (b, spec_b))):
        return None
    return partial(PairedValues, a, b, spec_a, spec_b, judged.a.share_histograms(judged.b))


def _fits(value: Array, spec: TensorSpec) -> bool:
    """Returns whether the value has the type and shape that its side states. (If not, the tensor has already
    FAILED.)"""
    return value.dtype.kind in "biuf" and value.dtype == spec.numpy_dtype and value.shape == spec.shape


def _make_spec(name: str, value: Array) -> TensorSpec:
    return TensorSpec(name, value.dtype.name, value.shape)

"""Which tensors are drawn (report.drawings.RULE), and of which pair: the same bytes are drawn once."""

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
class Candidate:
    """A tensor that could be drawn. rank: by which candidates are ordered. key: of its bytes, None where not known."""

    judged: Judged
    name: str
    op: str
    why: str
    rank: tuple[int, float]
    key: tuple[str, str, str] | None


def draw(pairs: Sequence[tuple[Judged, Verdicts]], graph: Graph | None, blame: Blame | None, wanted: bool) -> None:
    """Adds drawings to the pairs. wanted: those of RULE; otherwise that of the blamed node alone, where there is one.
    pairs: with their forced verdicts."""
    found = [c for judged, forced in pairs for c in _candidates(judged, forced, graph)]
    found.sort(key=lambda c: c.rank)
    if not wanted:
        found = [c for c in found if blame is not None and c.rank[0] == 0 and _made_by(c, graph, blame.node)][:1]
    number, first = 0, dict[tuple[str, str, str], Pair]()
    for c in found:
        pair = c.judged.pair
        if c.key is not None and c.key in first:
            one = first[c.key]
            next(d for d in one.drawings if d.name == c.name).also.append(f"{pair.a} ~ {pair.b}")
        elif number < MAX_DRAWN and (made := _values(c, graph)) is not None:
            pair.drawings.append(draw_tensor(made, c.op, c.why))
            number += 1
            if c.key is not None:
                first[c.key] = pair


def _made_by(candidate: Candidate, graph: Graph | None, node: str) -> bool:
    maker = graph.producers().get(candidate.name) if graph is not None else None
    return maker is not None and maker.name == node


def _candidates(judged: Judged, forced: Verdicts, graph: Graph | None) -> list[Candidate]:
    """Returns the rows of the report, and what fails when it is recomputed."""
    makers = graph.producers() if graph is not None else {}
    rows = {row.name: row for row in judged.pair.tensors}
    names = dict.fromkeys([*rows, *(n for n, f in forced.items() if f.verdict == "FAILED")])
    candidates = []
    for at, name in enumerate(names):
        row, maker = rows.get(name), makers.get(name)
        rank = _rank(judged.pair, name, row, forced.get(name), at)
        why = (*ORDER, *EQUAL)[rank[0]]
        candidates.append(Candidate(judged, name, maker.op if maker else "", why, rank, _key(judged, name)))
    return candidates


def _rank(pair: Pair, name: str, row: TensorRow | None, forced: Forced | None, at: int) -> tuple[int, float]:
    if forced is not None and forced.verdict == "FAILED":
        return 0, at
    if pair.first_divergence is not None and pair.first_divergence.tensor == name:
        return 1, at
    if row is None or not row.bit_equal:
        sqnr = row.metrics.get("sqnr_db") if row is not None else None
        known = isinstance(sqnr, (int, float)) and sqnr == sqnr
        return (2, at) if row is not None and row.final else (3, float(sqnr) if known else float("-inf"))  # type: ignore[arg-type]
    return (4, at) if row.final else (5, at)


def _find_pair(judged: Judged, name: str) -> NamePair | None:
    """Returns what both sides call this tensor, whether it was judged or not; None where one does not declare it."""
    return judged.names.get(name) or next((p for p in judged.declared if p.name == name), None)


def _key(judged: Judged, name: str) -> tuple[str, str, str] | None:
    """Returns the tensor's name and the digests of both sides' bytes; equal bytes are one key whatever the sides."""
    p = _find_pair(judged, name)
    one, two = (judged.a.digest(p.a), judged.b.digest(p.b)) if p is not None else (None, None)
    return (name, one, two) if one is not None and two is not None else None


def _values(candidate: Candidate, graph: Graph | None) -> partial[PairedValues] | None:
    """Returns what makes the values of both sides; None where they are not here or cannot be compared."""
    judged, name = candidate.judged, candidate.name
    p = _find_pair(judged, name)
    if p is None:
        return None
    a, b = judged.a.held(p.a), judged.b.held(p.b)
    if (a is None) != (b is None) and judged.a.digest(p.a) == judged.b.digest(p.b) is not None:
        a = b = b if a is None else a
    if a is None or b is None or not a.size:
        return None
    spec_a = judged.a.recording.specs.get(p.a) or (graph.tensors.get(p.a) if graph is not None else None)
    spec_b = judged.b.recording.specs.get(p.b) or (graph.tensors.get(p.b) if graph is not None else None)
    spec_a, spec_b = spec_a or _spec(p.a, a), spec_b or _spec(p.b, b)
    if a.shape != b.shape or not all(_fits(v, spec) for v, spec in ((a, spec_a), (b, spec_b))):
        return None
    return partial(PairedValues, a, b, spec_a, spec_b, judged.a.histograms_with(judged.b))


def _fits(value: Array, spec: TensorSpec) -> bool:
    """Returns whether the value is of the type that its side states; the judge has failed it where it is not."""
    return value.dtype.kind in "biuf" and value.dtype == spec.numpy_dtype and value.shape == spec.shape


def _spec(name: str, value: Array) -> TensorSpec:
    return TensorSpec(name, value.dtype.name, value.shape)

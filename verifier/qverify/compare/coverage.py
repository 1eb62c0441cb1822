"""The coverage ledger: what had to be compared, what was, and what is missing; it fails closed."""

from __future__ import annotations

from qverify.compare.pairing import NamePair, pair_names
from qverify.model_bin.graph import Graph
from qverify.report.document import Coverage, MissingTensor, Pair, TensorRow
from qverify.tensors.recording import Recording


def expect_tensors(a: Recording, b: Recording, graph: Graph | None) -> tuple[list[NamePair], Coverage]:
    """The pairs of names to compare, and a ledger with what one side alone declares: a final output is missing,
    any other tensor is not offered."""
    pairs, only_a, only_b = pair_names(a, b, graph)
    outputs = {*a.finals, *b.finals, *(graph.outputs if graph is not None else ())}
    ledger = Coverage(expected=len(pairs))
    for name, holder, lacking in [(n, a, b) for n in only_a] + [(n, b, a) for n in only_b]:
        _book(ledger, name, holder, lacking, name in outputs)
    for name in sorted(outputs - {n for p in pairs for n in (p.name, p.a, p.b)} - {*only_a, *only_b}):
        _book(ledger, name, a, b, True)
    return pairs, ledger


def _book(ledger: Coverage, name: str, holder: Recording, lacking: Recording, final: bool) -> None:
    if final:
        ledger.expected += 1
        ledger.missing.append(
            MissingTensor(
                name, lacking.side, lacking.missing.get(name, f"a final output the {lacking.side} does not have")
            )
        )
    else:
        ledger.not_offered.append(MissingTensor(name, lacking.side, f"the {lacking.side} does not offer it"))


def count_tensor(ledger: Coverage, row: TensorRow, by_digest: bool) -> None:
    """Counts a compared tensor. by_digest: that it is equal is known by its digest alone."""
    ledger.compared += 1
    ledger.elements += row.elements
    ledger.by_digest += row.elements if by_digest else 0


def gap(pair: Pair) -> str:
    """Why this pair cannot be PASSED, or nothing."""
    ledger = pair.coverage
    if ledger.missing:
        first = ledger.missing[0]
        more = f" (and {len(ledger.missing) - 1} more)" if len(ledger.missing) > 1 else ""
        return f"{first.tensor} is missing on the {first.side}: {first.why}{more}"
    if ledger.compared == 0 or ledger.elements == 0:
        return "nothing was compared"
    if ledger.compared < ledger.expected:
        return f"{ledger.compared} of {ledger.expected} tensors were compared"
    return ""

"""The coverage ledger: what had to be compared, what was compared, and what is missing. A gap is never PASSED."""

from __future__ import annotations

from qverify.compare.pairing import NamePair, pair_names
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.report.document import Coverage, MissingTensor, Pair, TensorRow
from qverify.report.side_names import named, within
from qverify.tensors.recording import Recording


def expect_tensors(a: Recording, b: Recording, graph: Graph | None) -> tuple[list[NamePair], Coverage]:
    """Returns the pairs of names to compare, and the ledger. Of the tensors that only one side declares, final outputs
    are entered as missing, all others as not offered."""
    pairs, only_a, only_b = pair_names(a, b, graph)
    outputs = {*a.finals, *b.finals, *(graph.outputs if graph is not None else ())}
    ledger = Coverage(expected=len(pairs))
    for name, lacking in [(n, b) for n in only_a] + [(n, a) for n in only_b]:
        _add_gap(ledger, name, lacking, name in outputs)
    for name in sorted(outputs - {n for p in pairs for n in (p.name, p.a, p.b)} - {*only_a, *only_b}):
        _add_gap(ledger, name, b, True)
    return pairs, ledger


def _add_gap(ledger: Coverage, name: str, lacking: Recording, final: bool) -> None:
    """Enters a tensor in the ledger that the side `lacking` does not declare."""
    if final:
        ledger.expected += 1
        why = lacking.missing.get(name, f"a final output that {named(lacking.side)} does not have")
        ledger.missing.append(MissingTensor(name, lacking.side, why))
    else:
        ledger.not_offered.append(MissingTensor(name, lacking.side, f"{named(lacking.side)} does not offer it"))


def count_tensor(ledger: Coverage, row: TensorRow, by_digest: bool) -> None:
    """Adds a compared tensor to the ledger; its elements only if they could be compared, not if its type or shape is wrong.
    by_digest: whether its equality is known from the digests alone."""
    ledger.compared += 1
    ledger.elements += row.elements if row.metrics or row.bit_equal else 0
    ledger.by_digest += row.elements if by_digest else 0


def describe_gap(pair: Pair) -> str:
    """Returns the reason why the pair's coverage does not allow PASSED, or "" if it does."""
    ledger = pair.coverage
    if ledger.missing:
        first = ledger.missing[0]
        more = f" (and {len(ledger.missing) - 1} more)" if len(ledger.missing) > 1 else ""
        return f"{first.tensor} is missing {within(first.side)}: {first.why}{more}"
    if ledger.compared == 0 or ledger.elements == 0:
        return "nothing was compared"
    if ledger.compared < ledger.expected:
        return f"{ledger.compared} of {count(ledger.expected, 'tensor', 'was', 'were')} compared"
    return ""

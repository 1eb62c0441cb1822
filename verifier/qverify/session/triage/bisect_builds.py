"""Locates the first node that goes wrong on a board that gives final outputs only, by bisection over cuts that the user's
build command compiles (TRIAGE.md, bisection)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.report.document import Blame
from qverify.report.triage_document import Rung
from qverify.session.triage.built_cuts import BuiltCuts, CutResult

MOST_AROUND = 8  # cuts tried beside one that gives nothing
Tell = Callable[[str], None]


@dataclass(slots=True)
class Bisected:
    """What was found. node: the first node that goes wrong, "" where none was located. tensor: its output. lines:
    evidence, in order."""

    node: str = ""
    op: str = ""
    tensor: str = ""
    why: str = ""
    lines: list[str] = field(default_factory=list)


def bisect(cuts: BuiltCuts, graph: Graph, tell: Tell) -> Bisected:
    """Returns the first place after which a cut differs while the cut before it agrees."""
    found, low, high = Bisected(), -1, len(cuts.places) - 1
    if high < 0:
        return Bisected(lines=["--build-cmd: no tensor of the quantized ONNX is one that the compiled model has"])
    seen: dict[int, CutResult] = {}

    def look(place: int) -> CutResult:
        if place not in seen:
            seen[place] = cuts.after(place)
            result = seen[place]
            verdict = result.why or (f"differs at {next(iter(result.differing))}" if result.differs else "agrees")
            tell(f"cut after {cuts.places[place]} ({place + 1} of {len(cuts.places)}): {verdict}")
        return seen[place]

    whole = look(high)
    if whole.why or not whole.differs:
        said = f"gives nothing: {whole.why}" if whole.why else "agrees with the reference"
        hint = (
            ""
            if whole.why
            else ": the given board model was built from another ONNX, by another command, or it is not stable"
        )
        return Bisected(lines=[f"--build-cmd: the whole model, built by it, {said}{hint}", _effort(cuts)])
    while high - low > 1:
        place = _next(low, high, look)
        if place is None:
            break
        low, high = (low, place) if look(place).differs else (place, high)
    _conclude(found, cuts, graph, (low, high), seen)
    found.lines += [*_failed(cuts, seen), *_contradictions(cuts, seen), _effort(cuts)]
    return found


def _next(low: int, high: int, look: Callable[[int], CutResult]) -> int | None:
    """Returns the place nearest to the middle, within, whose cut gives something; None where none of those tried does."""
    middle = (low + high) // 2
    around = sorted(range(low + 1, high), key=lambda place: abs(place - middle))
    return next((place for place in around[:MOST_AROUND] if not look(place).why), None)


def _conclude(
    found: Bisected, cuts: BuiltCuts, graph: Graph, ends: tuple[int, int], seen: dict[int, CutResult]
) -> None:
    """Sets the node, or the line that says between which places it is."""
    low, high = ends
    before = f"up to {cuts.places[low]} the board agrees" if low >= 0 else "its inputs are those given"
    wrong = seen[high].differing
    tensor = cuts.places[high]
    if high - low > 1:
        some = f"{count(high - low, 'place')} from {cuts.places[low + 1]} to {tensor}"
        found.lines.append(
            f"bisection by --build-cmd: {before}, and the fault is in one of {some}: no cut between them gave a result"
        )
        return
    if tensor not in wrong:
        first = next(iter(wrong))
        found.lines.append(
            f"bisection by --build-cmd: {before}, and the cut after {tensor} differs at {first} alone, which agreed before: the "
            "difference depends on what is built, no node is located"
        )
        return
    node = graph.producers()[tensor]
    found.node, found.op, found.tensor, found.why = node.name, node.op, tensor, f"{node.op}: {wrong[tensor]}; {before}"
    found.lines.append(
        f"bisection by --build-cmd: {tensor} ({node.op}) is the first that differs: {wrong[tensor]}; {before}"
    )


def _failed(cuts: BuiltCuts, seen: dict[int, CutResult]) -> list[str]:
    failed = [(place, result.why) for place, result in seen.items() if result.why]
    if not failed:
        return []
    return [
        f"{count(len(failed), 'cut')} gave no result and was stepped around, first after {cuts.places[failed[0][0]]}: {failed[0][1]}"
    ]


def _contradictions(cuts: BuiltCuts, seen: dict[int, CutResult]) -> list[str]:
    """Returns a line where a tensor differs in one cut and agrees in another, so that the result may depend on the cut."""
    wrong = {name: place for place, result in sorted(seen.items()) for name in result.differing}
    for place, result in sorted(seen.items()):
        if name := next((n for n in wrong if n in result.agreeing), None):
            where = f"differs in the cut after {cuts.places[wrong[name]]} and agrees in that after {cuts.places[place]}"
            return [f"not monotonic: {name} {where}; what is built changes the result"]
    return []


def _effort(cuts: BuiltCuts) -> str:
    return f"{count(cuts.builds, 'build')} and {count(cuts.runs, 'run')} of the board for {count(len(cuts.places), 'place')}"


def add_to_rung(rung: Rung, found: Bisected) -> None:
    """Adds the evidence, and the blame where a node was located and nothing else is blamed."""
    rung.evidence += found.lines
    if found.node and rung.blame is None:
        rung.blame, rung.kind = Blame("board", found.node, found.why), "node"

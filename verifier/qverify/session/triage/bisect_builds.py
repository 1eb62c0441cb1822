"""Locates the first node that goes wrong on a board that offers only final outputs, by bisection over cuts of the
model, which the user's build command compiles (TRIAGE.md, bisection)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.report.document import Blame
from qverify.report.triage_document import Rung
from qverify.session.triage.built_cuts import BuiltCuts, CutResult

MAX_NEIGHBOURS = 8  # cuts that are tried in a step if those nearest to the middle give no result
OnLine = Callable[[str], None]  # receives a line of progress


@dataclass(slots=True)
class BisectionResult:
    """The result of a bisection. node, op: the first node that goes wrong, "" if none was located. tensor: its output.
    why: how it goes wrong. lines: the evidence, in order."""

    node: str = ""
    op: str = ""
    tensor: str = ""
    why: str = ""
    lines: list[str] = field(default_factory=list)


def bisect(cuts: BuiltCuts, graph: Graph, on_line: OnLine) -> BisectionResult:
    """Returns the first place after which a cut differs while the cut before it agrees."""
    bisection, low, high = BisectionResult(), -1, len(cuts.places) - 1
    if high < 0:
        return BisectionResult(
            lines=["--build-cmd: no tensor of the quantized ONNX is one that the compiled model has"]
        )
    results: dict[int, CutResult] = {}

    def examine(place: int) -> CutResult:
        if place not in results:
            results[place] = cuts.run_after(place)
            result = results[place]
            verdict = result.why or (f"differs at {next(iter(result.differing))}" if result.differs else "agrees")
            on_line(f"cut after {cuts.places[place]} ({place + 1} of {len(cuts.places)}): {verdict}")
        return results[place]

    whole = examine(high)
    if whole.why or not whole.differs:
        problem = f"gives nothing: {whole.why}" if whole.why else "agrees with the reference"
        hint = (
            ""
            if whole.why
            else ": the given board model was built from another ONNX, by another command, or it is not stable"
        )
        return BisectionResult(lines=[f"--build-cmd: the whole model, built by it, {problem}{hint}", _effort(cuts)])
    while high - low > 1:
        place = _choose_next(low, high, examine)
        if place is None:
            break
        low, high = (low, place) if examine(place).differs else (place, high)
    _conclude(bisection, cuts, graph, (low, high), results)
    bisection.lines += [*_list_failures(cuts, results), *_find_contradiction(cuts, results), _effort(cuts)]
    return bisection


def _choose_next(low: int, high: int, examine: Callable[[int], CutResult]) -> int | None:
    """Returns the place between `low` and `high`, nearest to their middle, whose cut gives a result; None if none of
    those tried does."""
    middle = (low + high) // 2
    around = sorted(range(low + 1, high), key=lambda place: abs(place - middle))
    return next((place for place in around[:MAX_NEIGHBOURS] if not examine(place).why), None)


def _conclude(
    bisection: BisectionResult, cuts: BuiltCuts, graph: Graph, ends: tuple[int, int], results: dict[int, CutResult]
) -> None:
    """Sets the located node, or adds a line that states between which places it is. ends: the last place where the
    board agrees (-1 for none), and the first where it differs."""
    low, high = ends
    before = f"up to {cuts.places[low]} the board agrees" if low >= 0 else "its inputs are those given"
    wrong = results[high].differing
    tensor = cuts.places[high]
    if high - low > 1:
        range_ = f"{count(high - low, 'place')} from {cuts.places[low + 1]} to {tensor}"
        bisection.lines.append(
            f"bisection by --build-cmd: {before}, and the fault is in one of {range_}: no cut between them gave a result"
        )
        return
    if tensor not in wrong:
        first = next(iter(wrong))
        bisection.lines.append(
            f"bisection by --build-cmd: {before}, and the cut after {tensor} differs at {first} alone, which agreed before: the "
            "difference depends on what is built, no node is located"
        )
        return
    node = graph.producers()[tensor]
    bisection.node, bisection.op, bisection.tensor, bisection.why = (
        node.name,
        node.op,
        tensor,
        f"{node.op}: {wrong[tensor]}; {before}",
    )
    bisection.lines.append(
        f"bisection by --build-cmd: {tensor} ({node.op}) is the first that differs: {wrong[tensor]}; {before}"
    )


def _list_failures(cuts: BuiltCuts, results: dict[int, CutResult]) -> list[str]:
    """Returns a line on the cuts that gave no result; [] without any."""
    failed = [(place, result.why) for place, result in results.items() if result.why]
    if not failed:
        return []
    return [
        f"{count(len(failed), 'cut')} gave no result and was stepped around, first after {cuts.places[failed[0][0]]}: {failed[0][1]}"
    ]


def _find_contradiction(cuts: BuiltCuts, results: dict[int, CutResult]) -> list[str]:
    """Returns a line if a tensor differs in one cut and agrees in another, so that the result may depend on the cut;
    else []."""
    wrong = {name: place for place, result in sorted(results.items()) for name in result.differing}
    for place, result in sorted(results.items()):
        if name := next((n for n in wrong if n in result.agreeing), None):
            where = f"differs in the cut after {cuts.places[wrong[name]]} and agrees in that after {cuts.places[place]}"
            return [f"not monotonic: {name} {where}; what is built changes the result"]
    return []


def _effort(cuts: BuiltCuts) -> str:
    return f"{count(cuts.builds, 'build')} and {count(cuts.runs, 'run')} of the board for {count(len(cuts.places), 'place')}"


def add_to_rung(rung: Rung, bisection: BisectionResult) -> None:
    """Adds the evidence to the rung, and the blame if a node was located and nothing else is blamed."""
    rung.evidence += bisection.lines
    if bisection.node and rung.blame is None:
        rung.blame, rung.kind = Blame("board", bisection.node, bisection.why), "node"

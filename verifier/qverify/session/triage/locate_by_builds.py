"""Runs the bisection by --build-cmd of triage on a board that runs something other than qvrt."""

from __future__ import annotations

from qverify.engines import ChosenSide
from qverify.errors import UsageError
from qverify.inputs.sources import prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.onnx_model.cut_written import WrittenModel
from qverify.report.triage_document import Rung
from qverify.session.host_sides import HostSides
from qverify.session.models import Models
from qverify.session.request import Request
from qverify.session.triage.bisect_builds import OnLine, add_to_rung, bisect
from qverify.session.triage.built_cuts import BuiltCuts
from qverify.sides.runner_board import RunnerBoard
from qverify.triage.ladder import RungGate


def locate(
    models: Models,
    failing: Request,
    board: ChosenSide,
    rung: Rung,
    gate: RungGate | None,
    build: str,
    on_line: OnLine,
) -> None:
    """Bisects the difference between reference and board in the first failing frame, and adds the result to the rung.
    The board must not be connected. failing: the request of that frame. board: what ran. build: the user's command. Raises UsageError if
    the ONNX cannot be cut."""
    if models.original is None:
        raise UsageError("--build-cmd needs the quantized ONNX in -m")
    written = WrittenModel(models.original, models.graph.tensors)
    if unmatched := sorted({*written.inputs} ^ {*models.graph.inputs}):
        raise UsageError(
            f"--build-cmd: input {unmatched[0]!r} is not one of both, the quantized ONNX and the compiled model"
        )
    prepared = prepared_inputs(models.graph, failing.inputs)
    reference = HostSides(models).reference().run(prepared)

    def open_board(name: str, data: bytes, part: Graph) -> object:
        return RunnerBoard(board, (name, data), part, failing.deadline_s)

    cuts = BuiltCuts(written, models.graph, prepared, reference, build, gate, open_board)
    add_to_rung(rung, bisect(cuts, models.graph, on_line))

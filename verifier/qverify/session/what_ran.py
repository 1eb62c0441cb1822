"""Notes on what a board ran: qvrt computes on its processor, and a planted fault may have changed nothing."""

from __future__ import annotations

from qverify_agents.boards.faulty_runtime import struck_nodes

from qverify.printable import printable
from qverify.report.document import ReportDocument
from qverify.tensors.recording import Recording


def describe_what_ran(report: ReportDocument, board: Recording | None) -> list[str]:
    """Returns the notes for a judged report. board: the board's recording, None without a board."""
    if board is None or board.runtime != "qvrt" or board.state == "did not run":
        return []
    name = printable(board.host)
    notes = [
        f"board: qvrt computed on the processor of {name}; an accelerator was not tested (`qverify chips` tells how one is)"
    ]
    if struck_nodes(board.host) and _is_simulated_exactly(report):
        notes.append(f"the planted fault changed no byte on these inputs: {name}")
    return notes


def _is_simulated_exactly(report: ReportDocument) -> bool:
    """Returns whether every tensor of the board has the simulator's bytes."""
    pairs = [pair for pair in report.pairs if (pair.a, pair.b) == ("simulator", "board")]
    return bool(pairs) and all(
        pair.coverage.compared and not pair.coverage.missing and all(row.bit_equal for row in pair.tensors)
        for pair in pairs
    )

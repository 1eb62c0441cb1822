"""Asks for what the device's application makes of the outputs, where the outputs agree and the task does not."""

from __future__ import annotations

from qverify.report.document import ReportDocument, TaskNumbers

COMMAND = "qverify outputs diff REFERENCE.npz DEVICE.json --decoder NAME"
TRIAGE = f"if the results on the device are wrong nevertheless, compare what its application makes of these outputs: `{COMMAND}`"


def ask_for_outputs(report: ReportDocument) -> str:
    """Returns a line with the command that finds mistakes after the network, "" unless the verdict is PASSED and a board's
    task numbers are below those of the host: the final outputs agree within their gate, and what is made of them does
    not. Outputs that passed by a weaker gate only are not said to agree."""
    worse = [task for task in report.tasks if _is_worse(task)]
    if report.verdict != "PASSED" or not worse:
        return ""
    loose = [pair for pair in report.pairs if pair.b == "board" and pair.relaxed and not pair.bit_equal]
    if loose:
        return (
            f"the board's {worse[0].metric} is worse: its final outputs are not those of the host, and PASSED by a weaker gate "
            f"only ({loose[0].relaxed[0]}); look for the node that differs, or judge by the default gate"
        )
    return (
        f"the final outputs agree (PASSED), but the board's {worse[0].metric} is worse: compare what its application makes of "
        f"them: {COMMAND} (`qverify infer` or a capture gives REFERENCE)"
    )


def _is_worse(task: TaskNumbers) -> bool:
    """Returns whether the board is below every side of the host in a number that counts what is right, or has frames that
    only it has wrong."""
    board = next((side for side in task.sides if side.side == "board" and side.frames), None)
    others = [side for side in task.sides if side.side in ("reference", "simulator") and side.frames]
    if board is None or not others:
        return False
    lower = task.right_or_wrong and any(
        all(board.values[name] < side.values.get(name, 0.0) for side in others) for name in board.values
    )
    return lower or bool(task.only_board_wrong)

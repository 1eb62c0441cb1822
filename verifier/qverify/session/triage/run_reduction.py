"""The reduction that follows triage: of the board that fails, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from qverify_agents.errors import LinkError

from qverify.errors import QVerifyError
from qverify.report.triage_document import Triage
from qverify.session.request import Request
from qverify.session.triage.reduce_model import Reduced, reduce


@dataclass(frozen=True, slots=True)
class Reduction:
    """folder: where its result goes, which does not exist yet. build: the command that compiles an ONNX to the board's
    model."""

    folder: str
    build: str | None = None


def run_reduction(
    triage: Triage, failing: Request | None, asked: Reduction, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Returns the outcome as plain values, of the fields of Reduced; a mistake or a link that fails is inconclusive.
    failing: the run whose board differs; None where there is none. tell: called with a line for each run of the board."""
    if failing is None:
        board = next((r for r in triage.rungs if r.b == "board"), None)
        if board is not None and board.verdict == "INCONCLUSIVE" and board.why:
            return asdict(Reduced("inconclusive", board.why))
        return asdict(Reduced("nothing", "nothing differs on the board"))
    try:
        return asdict(reduce(failing, asked.folder, asked.build, tell))
    except (QVerifyError, LinkError) as error:
        return asdict(Reduced("inconclusive", str(error)))

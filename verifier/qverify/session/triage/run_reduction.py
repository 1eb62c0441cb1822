"""Runs the reduction that follows triage, or states why there is nothing to reduce."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from qverify_agents.errors import LinkError

from qverify.errors import QVerifyError
from qverify.report.triage_document import TriageDocument
from qverify.session.request import Request
from qverify.session.triage.reduce_model import ReductionResult, reduce


@dataclass(frozen=True, slots=True)
class ReductionRequest:
    """A request for a reduction. folder: for its result, must not exist yet. build: the command that compiles an ONNX
    to the board's model; None to use qverify's compiler."""

    folder: str
    build: str | None = None


def run_reduction(
    triage: TriageDocument, failing: Request | None, reduction: ReductionRequest, on_line: Callable[[str], None]
) -> dict[str, Any]:
    """Returns the fields of the ReductionResult as plain values. A user's mistake or a link that fails makes it
    inconclusive. failing: the request whose board differs, None without one. on_line: called with a line for each run
    of the board."""
    if failing is None:
        board = next((r for r in triage.rungs if r.b == "board"), None)
        if board is not None and board.verdict == "INCONCLUSIVE" and board.why:
            return asdict(ReductionResult("inconclusive", board.why))
        return asdict(ReductionResult("nothing", "nothing differs on the board"))
    try:
        return asdict(reduce(failing, reduction.folder, reduction.build, on_line))
    except (QVerifyError, LinkError) as error:
        return asdict(ReductionResult("inconclusive", str(error)))

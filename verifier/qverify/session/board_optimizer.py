"""Names the optimization of a board's onnxruntime that changes the final outputs of the user's unchanged model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qverify_agents.errors import LinkError

from qverify.compare.untapped import OPTIMIZATION
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording


def name_optimization(board: Any, prepared: PreparedInputs, recordings: Mapping[str, Recording]) -> None:
    """Adds to the board's settings which optimization makes its outputs differ from the reference's, in words, if the
    board runs the unchanged model and the search finds one; if none does it, a note says so. board: the connected board; any other changes nothing."""
    recording, reference = recordings.get("board"), recordings.get("reference")
    search = getattr(board, "find_optimization", None)
    if search is None or recording is None or reference is None or recording.state != "complete":
        return
    wanted = {n: reference.tensors[n] for n in recording.tensors if n in reference.tensors}
    changed = {n: recording.tensors[n] for n in wanted}
    try:
        text, is_cause = search(prepared, changed, wanted) if wanted else ("", False)
    except LinkError:  # the run itself is complete, and a link that is broken shows at the next request
        return
    if is_cause:
        recording.settings[OPTIMIZATION] = text
    elif text:
        recording.notes.append(text)

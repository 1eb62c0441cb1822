"""What the sides gave in one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from qverify.session.run_evidence import Pull, board_values
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """The recordings of one run of a step, by label. pull: fetches tensors from the board; None without one. inputs: what
    every side got."""

    recordings: Mapping[str, Recording]
    pull: Pull | None
    inputs: PreparedInputs
    _outputs: dict[str, dict[str, Array]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def recording(self, side: str) -> Recording | None:
        """Returns the recording of a side, None if it did not take part."""
        return next((r for r in self.recordings.values() if r.side == side), None)

    def why(self, side: str) -> str:
        """Returns why a side's run is not complete, "" if it is."""
        recording = self.recording(side)
        return "it did not take part" if recording is None else recording.why

    def outputs(self, side: str) -> dict[str, Array]:
        """Returns the final outputs of a side that are at hand, by name. A board that did not run to its end has none."""
        if side not in self._outputs:
            self._outputs[side] = self._read_outputs(side)
        return dict(self._outputs[side])

    def _read_outputs(self, side: str) -> dict[str, Array]:
        recording = self.recording(side)
        if recording is None or recording.state != "complete":
            return {}
        values = board_values(self.recordings, self.pull, side)
        assert values is not None
        found = {name: values.get(name) for name in recording.finals}
        return {name: np.asarray(value) for name, value in found.items() if value is not None}

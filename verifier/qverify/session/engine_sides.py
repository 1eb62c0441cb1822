"""Engines on this host that are further sides of a job (--simulator ENGINE), such as a vendor's own simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qverify.engines import ChosenSide
from qverify.errors import UsageError
from qverify.session.chosen_sides import SIMULATOR, ChosenSides
from qverify.session.models import Models
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

if TYPE_CHECKING:
    from qverify.sides.runner_board import RunnerBoard


class EngineSides:
    """The engines of a job, each opened when it first runs. Raises UsageError for models without a file that they can run."""

    def __init__(self, sides: ChosenSides, models: Models, deadline_s: float):
        self._sides, self._models, self._deadline_s = sides.engines, models, deadline_s
        self._boards: dict[str, RunnerBoard] = {}
        if self._sides and (models.engine is not None or _file_of(models) is None):
            first = next(iter(self._sides))
            raise UsageError(f"{SIMULATOR} {first}: it runs the quantized ONNX or the .tflite; give it in -m")

    def run(
        self, prepared: PreparedInputs, watch: Callable[[str, int, int], None] | None = None
    ) -> dict[str, Recording]:
        """Runs every engine on the inputs. Returns the recordings by the name of the side; one that failed says why."""
        recordings = {}
        for number, side in enumerate(self._sides.values()):
            if watch is not None:
                watch("engines", number, len(self._sides))
            recordings[side.side] = self.run_side(side, prepared)
        return recordings

    def run_side(self, side: ChosenSide, prepared: PreparedInputs) -> Recording:
        """Runs one engine on the inputs and returns its recording."""
        board = self._boards.get(side.side) or self._open(side)
        return board.run(prepared)

    def file_of(self, side: ChosenSide) -> bytes:
        """Returns the bytes of the file that an engine runs."""
        data = _file_of(self._models, side)
        assert data is not None
        return data

    def _open(self, side: ChosenSide) -> RunnerBoard:
        from qverify.sides.runner_board import RunnerBoard
        from qverify.sides.tflite_tensors import tensors_by_name

        models, alone = self._models, self._models.alone
        data, ids = self.file_of(side), (models.binary_sha256, models.onnx_names)
        ending = ".onnx" if alone is None else ".tflite"
        file = next((str(row["path"]) for row in models.rows if str(row["path"]).endswith(ending)), f"model{ending}")
        tensors = tensors_by_name(data, alone.converted.tensors, models.graph) if alone is not None else None
        board = RunnerBoard(side, (file, data), models.graph, self._deadline_s, *ids, tensors)
        return self._boards.setdefault(side.side, board)

    def close(self) -> None:
        """Ends the connections."""
        for board in self._boards.values():
            board.close()
        self._boards.clear()


def _file_of(models: Models, side: ChosenSide | None = None) -> bytes | None:
    """Returns the file that an engine runs: the quantized ONNX, a .tflite without one, or the float ONNX that it quantizes
    itself."""
    if side is not None and side.file == "float":
        return models.float_onnx
    return models.original if models.alone is None else models.alone.data

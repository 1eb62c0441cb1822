"""Engines on this host that are further sides of a job (--simulator ENGINE), such as a vendor's own simulator."""

from __future__ import annotations

from collections.abc import Callable

from qverify.capture.rows import MAX_ENGINES
from qverify.engines import RunnerChoice, choose, split_engine
from qverify.errors import UsageError
from qverify.session.models import Models
from qverify.session.request import Request
from qverify.session.runner_options import check_options
from qverify.session.vendor_quantized import with_toolkit_files
from qverify.sides.runner_board import RunnerBoard
from qverify.sides.tflite_tensors import tensors_by_name
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

LOCAL = "local"
WHERE = "--simulator"


class EngineSides:
    """The engines of a request, each opened when it first runs. Raises UsageError for engines that do not exist, options
    that they do not have, and models without a file that they can run."""

    def __init__(self, request: Request, models: Models):
        self._choices = _choose_all(request.simulators)
        self._models, self._deadline_s, self._files = models, request.deadline_s, request.quantization
        self._boards: dict[str, RunnerBoard] = {}
        if self._choices and (_file_of(models) is None or models.engine is not None):
            raise UsageError(
                f"{WHERE} {request.simulators[0]}: it runs the quantized ONNX or the .tflite; give it in -m"
            )

    def __len__(self) -> int:
        return len(self._choices)

    def run(
        self, prepared: PreparedInputs, watch: Callable[[str, int, int], None] | None = None
    ) -> dict[str, Recording]:
        """Runs every engine on the inputs. Returns the recordings by the name of the side; one that failed says why."""
        recordings = {}
        for number, (side, choice) in enumerate(self._choices.items()):
            if watch is not None:
                watch("engines", number, len(self._choices))
            board = self._boards.get(side) or self._open(side, choice)
            recordings[side] = board.run(prepared)
        return recordings

    def _open(self, side: str, choice: RunnerChoice) -> RunnerBoard:
        models = self._models
        data, alone = _file_of(models, choice), models.alone
        assert data is not None
        ending = ".onnx" if alone is None else ".tflite"
        file = next((str(row["path"]) for row in models.rows if str(row["path"]).endswith(ending)), f"model{ending}")
        self._boards[side] = RunnerBoard(
            LOCAL,
            with_toolkit_files(choice, self._files),
            (file, data),
            models.graph,
            self._deadline_s,
            None,
            models.binary_sha256,
            models.onnx_names,
            side,
            tensors_by_name(data, alone.converted.tensors, models.graph) if alone is not None else None,
        )
        return self._boards[side]

    def close(self) -> None:
        """Ends the connections."""
        for board in self._boards.values():
            board.close()
        self._boards.clear()


def _file_of(models: Models, choice: RunnerChoice | None = None) -> bytes | None:
    """Returns the file that an engine runs: the quantized ONNX, a .tflite without one, or the float ONNX that it quantizes
    itself."""
    if models.float_onnx is not None and choice is not None and getattr(choice.page, "FROM_FLOAT", False):
        return models.float_onnx
    return models.original if models.alone is None else models.alone.data


def engine_sides(texts: tuple[str, ...]) -> list[str]:
    """Returns the names of the sides that these values of --simulator are. Raises UsageError as EngineSides does."""
    return [*_choose_all(texts)]


def _choose_all(texts: tuple[str, ...]) -> dict[str, RunnerChoice]:
    """Returns the engines by the name of their side: the engine's name, with a number if it is there before."""
    if len(texts) > MAX_ENGINES:
        raise UsageError(f"{WHERE}: {len(texts)} engines; at most {MAX_ENGINES}, since every two sides are compared")
    choices: dict[str, RunnerChoice] = {}
    for text in texts:
        choice = choose(split_engine(text), WHERE)
        if choice is None:
            raise UsageError(f"{WHERE} {text}: qvrt and the simulator are sides of their own; wanted another engine")
        check_options(choice)
        same = sum(side.split("-")[0] == choice.name for side in choices)
        choices[f"{choice.name}-{same + 1}" if same else choice.name] = choice
    return choices

"""Which runtime a captured board ran: told by the hash of its model, which is made again from the capture's own files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from qverify.compare.documented_rounding import NAMES
from qverify.errors import QVerifyError
from qverify.session.models import Models
from qverify.tensors.recording import Recording

OURS = "qvrt"


def identify_runtime(side: Recording, kernels: str, models: Models) -> None:
    """Sets the runtime of a captured side, and its kernels: of the reference by the models, of the board by the hash of
    what it ran (qvrt where none of the models makes it, or the board was opened as another engine). kernels: as the capture
    states them, which counts only where they are documented ones of that runtime."""
    if side.side == "reference" and models.alone is not None:
        side.runtime = "litert"
    if side.side == "board" and side.model_sha256:
        runtime = _runtime_of_model(models, side.model_sha256)
        side.runtime = runtime if runtime == side.engine else OURS
        side.kernels = kernels if kernels in NAMES and kernels.partition("-")[0] == side.runtime else ""


def _runtime_of_model(models: Models, sha256: str) -> str:
    """Returns the runtime whose board is sent a model of this hash: qvrt for model.bin, litert, onnxruntime; "" where none of
    these models makes it."""
    if sha256 == models.binary_sha256:
        return OURS
    return next((runtime for runtime, data in _sent(models) if hashlib.sha256(data).hexdigest() == sha256), "")


def _sent(models: Models) -> Iterator[tuple[str, bytes]]:
    """Yields (runtime, model) of what open_board would send to boards of other runtimes than qvrt."""
    if models.tflite is not None:
        from qverify.sides.litert_board import models_of_boards

        try:
            yield from (("litert", data) for data in models_of_boards(*models.tflite, models.graph))
        except QVerifyError:  # a map that does not fit: then no board ran by it
            return
    if models.original is None or models.compiled is None or models.graph.islands:
        return
    from qverify.sides.runtime_board import model_of_boards

    yield "onnxruntime", models.original
    yield "onnxruntime", model_of_boards(models.compiled.integer_model(), models.graph)

"""Identifies the runtime of a captured board by the hash of the model that it ran, which is computed again from the
capture's own files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from qverify.compare.documented_rounding import NAMES
from qverify.errors import QVerifyError
from qverify.session.models import Models
from qverify.tensors.recording import Recording

OURS = "qvrt"


def identify_runtime(side: Recording, kernels: str, models: Models) -> None:
    """Sets the runtime and the kernels of a captured side.

    The reference's runtime follows from the models, the board's from the hash of the model that it ran. It is qvrt if
    none of the models has that hash, or if the recording names another engine. kernels: those that the capture states;
    they count only if they are documented kernels of that runtime."""
    if side.side == "reference" and models.alone is not None:
        side.runtime = "litert"
    if side.side == "board" and side.model_sha256:
        runtime = _runtime_of_model(models, side.model_sha256)
        side.runtime = runtime if runtime == side.engine else OURS
        side.kernels = kernels if kernels in NAMES and kernels.partition("-")[0] == side.runtime else ""


def _runtime_of_model(models: Models, sha256: str) -> str:
    """Returns the runtime whose board would be sent a model of this hash: qvrt (model.bin), litert or onnxruntime; ""
    if no such model has it."""
    if sha256 == models.binary_sha256:
        return OURS
    candidates = _models_of_other_runtimes(models)
    return next((runtime for runtime, data in candidates if hashlib.sha256(data).hexdigest() == sha256), "")


def _models_of_other_runtimes(models: Models) -> Iterator[tuple[str, bytes]]:
    """Yields (runtime, model) for each model that open_board may send to a board of another runtime than qvrt."""
    if models.tflite is not None:
        from qverify.sides.litert_board import models_of_boards

        try:
            yield from (("litert", data) for data in models_of_boards(*models.tflite, models.graph))
        except QVerifyError:  # the map of tensors does not fit, so no board can have run by it
            return
    if models.original is None or models.compiled is None or models.graph.islands:
        return
    from qverify.sides.runtime_board import model_of_boards

    yield "onnxruntime", models.original
    yield "onnxruntime", model_of_boards(models.compiled.integer_model(), models.graph)

"""Identifies the runtime of a captured board by the hash of the model that it ran, which is computed again from the
capture's own files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from qverify.compare.documented_rounding import NAMES
from qverify.errors import QVerifyError
from qverify.session.models import Models
from qverify.tensors.recording import Recording, Untapped

OURS = "qvrt"


def identify_runtime(side: Recording, kernels: str, models: Models) -> None:
    """Sets the runtime and the kernels of a captured side.

    The reference's runtime follows from the models, the board's from the hash of the model that it ran. It is qvrt if
    none of the models has that hash, or if the recording names another engine. kernels: those that the capture states;
    they count only if they are documented kernels of that runtime."""
    if side.side == "reference" and models.alone is not None:
        side.runtime = "litert"
    if side.side == "board" and side.model_sha256:
        runtime, has_taps = _runtime_of_model(models, side.model_sha256)
        if has_taps and side.untapped is None and side.state != "did not run":
            side.untapped = Untapped(why="the capture has no run of the unchanged model")
        elif not has_taps:
            side.untapped = None
        side.runtime = runtime if runtime == side.engine else OURS
        side.kernels = kernels if kernels in NAMES and kernels.partition("-")[0] == side.runtime else ""


def _runtime_of_model(models: Models, sha256: str) -> tuple[str, bool]:
    """Returns the runtime whose board would be sent a model of this hash: qvrt (model.bin), litert or onnxruntime, and
    whether this model has taps, beside which the unchanged model runs; "" if no such model has it."""
    if sha256 == models.binary_sha256:
        return OURS, False
    candidates = _models_of_other_runtimes(models)
    found = ((runtime, taps) for runtime, data, taps in candidates if hashlib.sha256(data).hexdigest() == sha256)
    return next(found, ("", False))


def _models_of_other_runtimes(models: Models) -> Iterator[tuple[str, bytes, bool]]:
    """Yields (runtime, model, whether it has taps) for each model that open_board may send to a board of another runtime
    than qvrt."""
    if models.tflite is not None:
        from qverify.sides.litert_board import models_of_boards

        try:
            every_tensor, finals = models_of_boards(*models.tflite, models.graph)
            yield "litert", every_tensor, every_tensor != finals
            yield "litert", finals, False
        except QVerifyError:  # the map of tensors does not fit, so no board can have run by it
            return
    original = models.original
    if original is None or models.compiled is None or models.graph.islands:
        return
    from qverify.sides.runtime_board import model_of_boards

    yield "onnxruntime", original, False
    yield "onnxruntime", model_of_boards(models.compiled.integer_model(), models.graph), True

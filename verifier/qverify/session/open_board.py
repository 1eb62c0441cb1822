"""Opens the board side for a runtime that qverify drives itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from qverify_agents.connect import connect

from qverify.engines import QVRT, ChosenSide
from qverify.errors import UsageError
from qverify.session.chosen_sides import LITERT
from qverify.session.models import Models
from qverify.sides.board import Board
from qverify.sides.own_model_board import OwnModelBoard
from qverify.sides.struck_nodes import check_struck_nodes

if TYPE_CHECKING:
    from qverify.sides.untapped_model import UntappedModel


def open_board(models: Models, side: ChosenSide, deadline_s: float, spot_seed: int | None = None) -> Board:
    """Connects the board and returns the side that runs the model there: model.bin on qvrt, the .tflite on LiteRT, the
    quantized ONNX on onnxruntime. Raises LinkError if no agent answers, UsageError if -m has no model for the
    runtime."""
    runtime, uri, options = side.engine, side.where, side.reach
    if models.alone is not None and runtime not in (QVRT, LITERT):
        raise UsageError(f"a board whose runtime is {runtime} runs no .tflite; wanted qvrt or litert")
    if runtime == QVRT and models.no_simulator:
        raise UsageError(
            f"{models.rows[0]['path']}: {models.no_simulator}; so qvrt cannot run it, add --runtime litert"
        )
    if (runtime == LITERT) != (models.tflite is not None) and models.alone is None:
        raise UsageError(
            f"a board whose runtime is {runtime} runs no .tflite; add --runtime litert"
            if models.tflite is not None
            else "a board whose runtime is litert runs a .tflite; give it in -m, beside the quantized ONNX"
        )
    if models.tflite is not None and runtime == LITERT:
        from qverify.sides.litert_board import LiteRtBoard

        return LiteRtBoard(uri, *models.tflite, models.graph, deadline_s, options, spot_seed)
    if runtime == QVRT:
        return _open_qvrt_or_firmware(models, side, deadline_s, spot_seed)
    if side.file == "network":
        from qverify.sides.original_board import OriginalBoard

        original = models.original
        if original is None or models.islands is not None:
            raise UsageError("form=original runs the quantized ONNX as it is; give it in -m, too")
        untapped = partial(_open_untapped, models)
        return OriginalBoard(uri, original, models.graph, deadline_s, options, spot_seed, untapped)
    from qverify.sides.runtime_board import RuntimeBoard

    if models.compiled is None or models.source is None:
        raise UsageError(f"a board whose runtime is {runtime} runs the quantized ONNX; give it in -m, too")
    integer: Any = models.compiled.integer_model()
    model = _open_untapped(models)
    return RuntimeBoard(uri, integer, model.cut, models.graph, runtime, model, deadline_s, options, spot_seed)


def _open_qvrt_or_firmware(models: Models, side: ChosenSide, deadline_s: float, spot_seed: int | None) -> Board:
    """Returns the board that runs model.bin or, if its agent says so, a model of its own."""
    check_struck_nodes(side.where, models.graph)  # before the board is started
    agent = connect(side.where, deadline_s, side.reach)
    try:
        sha256 = models.binary_sha256
        where = side.where, models.content, models.graph, deadline_s, side.reach, spot_seed
        if agent.has_own_model:
            return OwnModelBoard(*where, sha256, agent)
        return Board(*where, models.islands, sha256, agent)
    except BaseException:
        agent.close()
        raise


def _open_untapped(models: Models) -> UntappedModel:
    """Returns the unchanged quantized ONNX, as a board runs it."""
    from qverify.sides.reference import Reference
    from qverify.sides.untapped_model import UntappedModel

    assert models.compiled is not None and models.original is not None
    integer: Any = models.compiled.integer_model()
    return UntappedModel(models.original, Reference(integer, models.graph, models.original))

"""Runs one side and writes its tensors to files."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace

from qverify.errors import FloatModelError, UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.islands import describe_islands
from qverify.session.chosen_sides import ChosenSides, choose_sides
from qverify.session.host_sides import HostSides
from qverify.session.models import Models
from qverify.session.request import Request
from qverify.session.runner import BoardModel, connect_board, open_with_board_model
from qverify.sides.dumps.write_arrays import check_writable_dump, write_arrays
from qverify.tensors.recording import Recording

ONNXRUNTIME = "onnxruntime"  # the engine that runs a float ONNX


@dataclass(frozen=True, slots=True)
class BoardAddress:
    """A board to connect. uri: its address. deadline_s: time limit of each reply in seconds. options: options of the
    address that were given separately. runner: what runs on the board, as in Request."""

    uri: str
    deadline_s: float = 120.0
    options: dict[str, str] = field(default_factory=dict)
    runner: tuple[tuple[str, str], ...] = ()


def _open(request: Request, side: str) -> tuple[Request, ChosenSides, tuple[Models, BoardModel | None]]:
    """Returns the request, its sides and the opened models. A float ONNX alone is run by this Python's onnxruntime. Raises
    UsageError for one that another side is to run."""
    sides = choose_sides(request)
    request = replace(request, allow_other_model=sides.runner is not None)
    try:
        return request, sides, open_with_board_model(request, sides, simulates=side != "reference")
    except FloatModelError as error:
        if len(request.models) > 1 or side == "board":
            raise
        if side != "reference":
            name = os.path.basename(request.models[0])
            raise UsageError(
                f"{name}: a float ONNX, which has no simulator; --side reference runs it on onnxruntime, `qverify quantize` makes "
                "a quantized one"
            ) from error
        request = replace(request, reference_engine=(ONNXRUNTIME,), reference_python=(sys.executable,))
        sides = choose_sides(request)
        return request, sides, open_with_board_model(request, sides, simulates=False)


def infer(
    paths: list[str],
    side: str,
    board: BoardAddress,
    inputs: InputRequest,
    output: str,
    shapes: dict[str, tuple[int, ...]] | None = None,
    dequantize: bool = False,
    engine: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
    arithmetic: str | None = None,
    quantization: tuple[str, ...] = (),
) -> tuple[Recording, int]:
    """Runs one side and writes its tensors to the folder `output`, as write_arrays() does. engine: the values of
    --reference-engine and --reference-python. arithmetic, quantization: as in Request. Returns the side's recording and the number of tensors written. Raises
    UsageError if the side cannot run with these models."""
    check_writable_dump(output)
    on_board = side == "board"
    if engine[0] and (side != "reference" or len(paths) > 1):
        raise UsageError("--reference-engine is for --side reference with one ONNX in -m")
    request = Request(
        paths,
        board.uri if on_board else None,
        deadline_s=board.deadline_s,
        shapes=shapes or {},
        reach=board.options,
        runner=board.runner if on_board else (),
        arithmetic="" if on_board else arithmetic,
        quantization=quantization,
        reference_engine=engine[0],
        reference_python=engine[1],
    )
    request, sides, (models, vendor) = _open(request, side)
    prepared = prepared_inputs(models.graph, inputs)
    if side == "simulator":
        from qverify.sides.simulator import Simulator

        recording = Simulator(models.graph, models.islands).run(prepared)
    elif side == "reference":
        if models.compiled is None and models.engine is None and models.alone is None:
            raise UsageError("--side reference needs the quantized ONNX in -m")
        recording = HostSides(models).reference().run(prepared)
    else:
        assert sides.board is not None
        connected = connect_board(request, sides.board, vendor, models)
        try:
            recording = connected.run(prepared)
            if recording.state == "complete":
                recording.tensors = {
                    **recording.tensors,
                    **connected.pull([n for n in recording.specs if n not in recording.tensors]),
                }
        finally:
            connected.close()
    by_host = {n for island in models.graph.islands for n in island.made}  # never compared, so not part of the dump
    recording.tensors = {n: recording.tensors[n] for n in recording.tensors if n not in by_host}
    scope = [describe_islands(models.graph.islands)] if by_host else []
    return recording, write_arrays(recording, [i.sha256 for i in prepared.inputs], output, scope, dequantize)

"""One side and its dumps."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qverify.errors import UsageError
from qverify.files import write_bytes, write_text
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.session.models import open_models
from qverify.sides.dumps.array_dump import manifest_files
from qverify.tensors.recording import Recording


@dataclass(frozen=True, slots=True)
class BoardAddress:
    """A board's address, seconds for each of its answers, and options of the address given beside it."""

    uri: str
    deadline_s: float = 120.0
    options: dict[str, str] = field(default_factory=dict)


def infer(
    paths: list[str],
    side: str,
    board: BoardAddress,
    inputs: InputRequest,
    output: str,
    shapes: dict[str, tuple[int, ...]] | None = None,
) -> tuple[Recording, int]:
    """Writes NNNN.npy and manifest.json (file to tensor name); the manifest says partial until all are there."""
    models = open_models(paths, shapes)
    prepared = prepared_inputs(models.graph, inputs)
    if side == "simulator":
        from qverify.sides.simulator import Simulator

        recording = Simulator(models.graph).run(prepared)
    elif side == "reference":
        if models.integer_onnx is None:
            raise UsageError("--side reference needs the quantized ONNX in -m")
        from qverify.sides.reference import Reference

        recording = Reference(models.integer_onnx, models.graph).run(prepared)
    else:
        from qverify.sides.board import Board

        there = Board(board.uri, models.binary, models.graph, board.deadline_s, board.options)
        try:
            recording = there.run(prepared)
            if recording.state == "complete":
                recording.tensors = {
                    **recording.tensors,
                    **there.pull([n for n in recording.specs if n not in recording.tensors]),
                }
        finally:
            there.close()
    return recording, _write(recording, [i.sha256 for i in prepared.inputs], output)


def _write(recording: Recording, inputs: list[str], output: str) -> int:
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror}") from error
    manifest: dict[str, Any] = {"side": recording.side, "state": "partial", "inputs": inputs}
    manifest |= {"outputs": list(recording.finals), "tensors": {}}
    former = manifest_files(output)
    _list(manifest, output)  # what a former run left there is none of this one's, and a cut-off run is seen
    for file in former:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(output, file))
    names = {}
    for i, name in enumerate(recording.tensors):
        held = io.BytesIO()
        np.save(held, recording.tensors[name])
        write_bytes(held.getbuffer(), os.path.join(output, f"{i:04d}.npy"))
        names[f"{i:04d}.npy"] = name
    _list(manifest | {"state": recording.state, "tensors": names}, output)
    return len(names)


def _list(manifest: dict[str, Any], output: str) -> None:
    write_text(json.dumps(manifest, indent=1) + "\n", os.path.join(output, "manifest.json"))

"""Runs one side and writes its tensors."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qverify.errors import UsageError
from qverify.files import check_folder_writable, write_bytes, write_text
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.islands import describe_islands
from qverify.session.models import open_models
from qverify.sides.dumps.array_dump import manifest_files
from qverify.tensors.recording import Recording


@dataclass(frozen=True, slots=True)
class BoardAddress:
    """A board to reach. uri: its address. deadline_s: for each of its answers. options: of the address, given
    separately."""

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
    """Writes NNNN.npy and manifest.json (file to tensor name), whose state is partial until all files are there.
    Returns the side's recording and the number of tensors."""
    check_folder_writable(output)
    models = open_models(paths, shapes)
    prepared = prepared_inputs(models.graph, inputs)
    if side == "simulator":
        from qverify.sides.simulator import Simulator

        recording = Simulator(models.graph, models.islands).run(prepared)
    elif side == "reference":
        if models.compiled is None:
            raise UsageError("--side reference needs the quantized ONNX in -m")
        from qverify.sides.reference import Reference

        recording = Reference(models.compiled.integer_model(), models.graph).run(prepared)
    else:
        from qverify.sides.board import Board

        connected = Board(board.uri, models.binary, models.graph, board.deadline_s, board.options, None, models.islands)
        try:
            recording = connected.run(prepared)
            if recording.state == "complete":
                recording.tensors = {
                    **recording.tensors,
                    **connected.pull([n for n in recording.specs if n not in recording.tensors]),
                }
        finally:
            connected.close()
    by_host = {n for island in models.graph.islands for n in island.made}  # never compared, so no part of the dump
    recording.tensors = {n: recording.tensors[n] for n in recording.tensors if n not in by_host}
    label = [describe_islands(models.graph.islands)] if by_host else []
    return recording, _write(recording, [i.sha256 for i in prepared.inputs], output, label)


def _write(recording: Recording, inputs: list[str], output: str, on_host: list[str]) -> int:
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror}") from error
    manifest: dict[str, Any] = {"side": recording.side, "state": "partial", "inputs": inputs}
    manifest |= {"outputs": list(recording.finals), "tensors": {}, **({"part": on_host} if on_host else {})}
    former = manifest_files(output)
    _write_manifest(manifest, output)  # lists none of a former run's files, and shows if this run is cut off
    for file in former:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(output, file))
    names = {}
    for i, name in enumerate(recording.tensors):
        buffer = io.BytesIO()
        np.save(buffer, recording.tensors[name])
        write_bytes(buffer.getbuffer(), os.path.join(output, f"{i:04d}.npy"))
        names[f"{i:04d}.npy"] = name
    _write_manifest(manifest | {"state": recording.state, "tensors": names}, output)
    return len(names)


def _write_manifest(manifest: dict[str, Any], output: str) -> None:
    write_text(json.dumps(manifest, indent=1) + "\n", os.path.join(output, "manifest.json"))

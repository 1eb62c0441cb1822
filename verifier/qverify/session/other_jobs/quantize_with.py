"""Quantizes a float ONNX by a vendor's toolkit: its engine builds the network once on this host, and the quantized ONNX is
written from what the toolkit leaves."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from qverify.engines import ChosenSide, RunnerChoice, choose, option
from qverify.errors import BoardError, UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.onnx_model.load import read_model
from qverify.session.chosen_sides import LOCAL, engine_words
from qverify.session.many_frames import frame_sources
from qverify.session.model_file import kind_of
from qverify.session.other_jobs.quantize import graph_of_inputs, quantize_as_stated
from qverify.sides.float_file import FloatFile
from qverify.sides.runner_board import RunnerBoard
from qverify.tensors.spec import TensorSpec
from qverify.vendor_quantization import Quantized

WITH, CACHE, CALIBRATION, BUILT_FOR_S = "--with", "cache", "calibration", 3600.0


@dataclass(frozen=True, slots=True)
class BuiltByToolkit:
    """A quantized ONNX, and the files of the toolkit that state its quantization."""

    quantized: Quantized
    files: list[str]


def quantize_with(path: str, text: str, inputs: InputRequest, output: str) -> BuiltByToolkit:
    """Writes to `output` the quantized ONNX that an engine's toolkit makes of the float ONNX at `path`. text: the engine with
    its options. inputs: one input, with which the toolkit calibrates unless the option calibration= gives others. The
    toolkit's files are kept in the folder of the option cache, or beside the output. Raises UsageError for an engine whose
    toolkit does not quantize, BoardError if it fails."""
    choice, data = _choose(text), read_model(path)
    if (kind := kind_of(path, data)) != "float.onnx":
        raise UsageError(f"{path}: got {kind}; wanted a float ONNX, which the toolkit quantizes")
    if not isinstance(inputs.files, str):
        raise UsageError("-i is missing: one input, with which the toolkit runs the network")
    if len(frame_sources(inputs.files) or []) > 1:
        raise UsageError(
            f"-i {inputs.files}: several frames; give one, and the others as {WITH} ...,calibration=FOLDER"
        )
    folder = _new_folder(choice, output)
    page = replace(choice, options={**_with_whole_paths(choice), CACHE: (folder,)})
    fed = graph_of_inputs(path, data, {})
    prepared = prepared_inputs(fed, inputs)
    values = FloatFile(data, path, os.path.dirname(os.path.abspath(path))).run(prepared.arrays())
    finals = {n: TensorSpec(n, str(v.dtype), v.shape) for n, v in values.items()}
    graph = Graph([], {**fed.tensors, **finals}, {}, fed.inputs, tuple(finals))
    board = RunnerBoard(
        ChosenSide(page.name, page.name, LOCAL, {}, page, "float"), (os.path.basename(path), data), graph, BUILT_FOR_S
    )
    try:
        recording = board.run(prepared, dump_all=False)
    finally:
        board.close()
    files = sorted(str(f) for pattern in choice.states for f in Path(folder).glob(pattern))
    if not files:
        why = recording.why or f"it left none of {', '.join(choice.states)} in {folder}"
        raise BoardError(f"{WITH} {choice.name}: {why}")
    return BuiltByToolkit(quantize_as_stated(path, files, output), files)


def _choose(text: str) -> RunnerChoice:
    choice = choose(engine_words(text), WITH)
    if choice is None or not choice.states:
        raise UsageError(f"{WITH} {text}: it quantizes nothing by itself; wanted rknn or sophgo, with python=PYTHON")
    return choice


def _with_whole_paths(choice: RunnerChoice) -> dict[str, tuple[str, ...]]:
    """Returns the engine's options with the path of its calibration set, which is of the user's folder, not of the run's."""
    options = dict(choice.options)
    if path := option(options, CALIBRATION):
        options[CALIBRATION] = (os.path.abspath(path),)
    return options


def _new_folder(choice: RunnerChoice, output: str) -> str:
    """Returns the path of the folder that keeps the toolkit's files. Raises UsageError if it has files."""
    folder = os.path.abspath(option(choice.options, CACHE, f"{output}.toolkit"))
    if os.path.isdir(folder) and os.listdir(folder):
        raise UsageError(f"{folder}: has files, perhaps of another build; remove it, or give another {CACHE}=FOLDER")
    return folder

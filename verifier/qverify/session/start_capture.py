"""--capture: starts the capture of a run with its options and models (CAPTURE.md)."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from qverify.capture.reader import MAP, MAP_ENDING
from qverify.capture.writer import CaptureWriter
from qverify.compare.criteria import GATES
from qverify.onnx_model.load import read_model
from qverify.session.chosen_sides import ChosenSides
from qverify.session.inventory_facts import facts_of_run
from qverify.session.models import Models
from qverify.session.runner import BOARD_MODEL_KIND

if TYPE_CHECKING:
    from qverify.session.request import Request

REWRITTEN_KINDS = ("float.onnx", "espdl")  # no side runs them: qverify wrote a quantized ONNX, which is stored


def start_capture(folder: str, request: Request, models: Models, sides: ChosenSides) -> CaptureWriter:
    """Creates the folder and stores the run's models in it. Raises UsageError if the folder exists and is not empty."""
    writer = CaptureWriter(folder, _describe_command(request, models, sides))
    paths = iter(request.models)
    for at, row in enumerate(models.rows):
        was_written = (
            models.float_onnx is not None and row["kind"] == "quant.onnx"
        )  # by qverify, from --quantization or an .espdl
        path = row["path"] if was_written else next(paths)
        if row["kind"] in (BOARD_MODEL_KIND, *REWRITTEN_KINDS):
            continue  # the board's own file may be of any kind and size; the report has its hash
        data = (models.original or b"") if was_written else read_model(path)
        ending = {"model.bin": "bin", "tflite": "tflite"}.get(row["kind"], "onnx")
        writer.add_model(f"{at}.{ending}", os.path.basename(path), row["kind"], row["sha256"], data)
        if row["kind"] == "quant.onnx" and models.tflite is not None:
            data = json.dumps(models.tflite[1]).encode()
            writer.add_model(f"{at}.{ending}{MAP_ENDING}", "", MAP, hashlib.sha256(data).hexdigest(), data)
    if len(models.content) and not any(row["kind"] == "model.bin" for row in models.rows):
        writer.add_model("compiled.bin", "", "model.bin", models.binary_sha256, models.binary)
    return writer


def _describe_command(request: Request, models: Models, sides: ChosenSides) -> dict[str, Any]:
    """Returns the options of the run on which its verdict depends (`command` of capture.json)."""
    options = request.options
    gates = {gate.option: getattr(options, gate.option) for gate in GATES}
    return {
        "digits": options.digits,
        "rule": options.rule,
        "digits_given": options.digits_given,
        "dump_all": options.dump_all,
        "nan_equal": options.nan_equal,
        "relax_board": options.relax_board,
        "strict": options.strict,
        "criteria": options.criteria,
        **{k: v for k, v in gates.items() if v is not None},
        **({"roles": {**options.roles}} if options.roles else {}),
        **({"role_gates": [*options.role_gates]} if options.role_gates else {}),
        **({"task_gates": [*options.task_gates]} if options.task_gates else {}),
        "run_sim": request.run_sim and not models.no_simulator,
        **({} if request.run_reference else {"run_reference": False}),
        "board": request.board,
        **({"runtime": runner.name} if (runner := sides.runner) is not None else {}),
        **({"engines": [*sides.engines]} if sides.engines else {}),
        **({"quantization": [os.path.basename(f) for f in request.quantization]} if request.quantization else {}),
        "seed": request.inputs.seed,
        **({"facts": facts} if (facts := facts_of_run(request)) else {}),
    }

"""The steps of `qverify demo`: compile the packaged example, verify it on this machine and on an emulated board, then
on a faulty board, which shows a FAILED.

Each step does the same as a command that the user could type in the example's folder; that command is shown with it."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from qverify_agents.emulation.user_mode import find_emulator

from qverify import example
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.session.job import JobOutcome, verify
from qverify.session.request import Request

FILES = ("digits_float.onnx", "digits_quant.onnx", "digits.npz")
SOURCE, MODEL, IMAGES = "digits_quant.onnx", "model.bin", "digits"
IMAGE = f"{IMAGES}/digit_3.npy"
EMULATED = "qemu-user:aarch64"
CULPRIT = "relu2_QuantizeLinear_Output"
FAULTY = f"faulty:local?fault=bitflip@{CULPRIT}"
COMPILE = f"qverify compile {SOURCE} -o {MODEL}"
QUANTIZE = f"qverify quantize digits_float.onnx -i {IMAGES} -o quant.onnx"


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run of the main job on a board. purpose: what the run shows, one line for the user."""

    board: str
    purpose: str

    @property
    def command(self) -> str:
        return f"qverify -m {SOURCE},{MODEL} -b {shlex.quote(self.board)} -i {IMAGE} -r True"

    def run(self) -> JobOutcome:
        """Runs the main job on the files of the current folder."""
        request = Request([SOURCE, MODEL], self.board, inputs=InputRequest(IMAGE), options=Options(dump_all=True))
        return verify(request)

    def is_expected(self, outcome: JobOutcome) -> bool:
        """Returns whether the verdict, and the blame of the faulty board, are the expected ones."""
        report = outcome.report
        if self.board != FAULTY:
            return report.verdict == "PASSED"
        blame = report.blame
        return report.verdict == "FAILED" and blame is not None and (blame.side, blame.node) == ("board", CULPRIT)


def demo_runs() -> list[DemoRun]:
    """Returns the runs that this machine can do. That on the emulated board is included if its emulator is
    installed."""
    arm = [DemoRun(EMULATED, "verify it on an emulated board, 64-bit ARM")] if find_emulator("aarch64") else []
    return [
        DemoRun("local", "verify it on this machine: onnxruntime, the simulator and the board's program agree"),
        *arm,
        DemoRun(FAULTY, "verify it on a board that computes one bit of one node wrongly: FAILED, and the node"),
    ]


def check_folder(folder: str) -> None:
    """Raises UsageError unless the folder does not exist yet, or is empty."""
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UsageError(f"{folder}: there is something already; give a folder that does not exist yet")


def write_example(folder: str) -> None:
    """Writes the float network, the quantized network and ten images to the folder, which is created if necessary.
    Raises UsageError if they cannot be written."""
    packaged, target = Path(example.__file__).parent, Path(folder)
    try:
        (target / IMAGES).mkdir(parents=True)
        for name in FILES:
            shutil.copyfile(packaged / name, target / name)
        with np.load(packaged / "digits.npz") as digits:
            for name, image in digits.items():
                np.save(target / IMAGES / f"{name}.npy", image)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error


def compile_example() -> tuple[Graph, int]:
    """Compiles the quantized network in the current folder to MODEL, as the command COMPILE does. Returns the graph and
    the size of the file in bytes."""
    graph = compile_model(Path(SOURCE).read_bytes(), SOURCE, CompilerOptions()).graph
    data = encode(graph)
    return graph, Path(MODEL).write_bytes(data)

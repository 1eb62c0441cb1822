"""The packaged example, step by step: compiled, PASSED on this machine and an emulated one, then what FAILED looks like.

Each step is a command that can be typed in the example's folder, and does what this command does there."""

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
from qverify.session.job import Outcome, verify
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
class Verification:
    """One run of the main job. says: what it shows, one line."""

    board: str
    says: str

    @property
    def command(self) -> str:
        return f"qverify -m {SOURCE},{MODEL} -b {shlex.quote(self.board)} -i {IMAGE} -r True"

    def run(self) -> Outcome:
        """Runs it on the files of the current folder."""
        request = Request([SOURCE, MODEL], self.board, inputs=InputRequest(IMAGE), options=Options(dump_all=True))
        return verify(request)

    def is_expected(self, outcome: Outcome) -> bool:
        report = outcome.report
        if self.board != FAULTY:
            return report.verdict == "PASSED"
        blame = report.blame
        return report.verdict == "FAILED" and blame is not None and (blame.side, blame.node) == ("board", CULPRIT)


def verifications() -> list[Verification]:
    """Returns the runs that this machine can do; that of the emulated board where its emulator is installed."""
    arm = [Verification(EMULATED, "verify it on an emulated board, 64-bit ARM")] if find_emulator("aarch64") else []
    return [
        Verification("local", "verify it on this machine: onnxruntime, the simulator and the board's program agree"),
        *arm,
        Verification(FAULTY, "verify it on a board that computes one bit of one node wrongly: FAILED, and the node"),
    ]


def check_folder(folder: str) -> None:
    """Raises UsageError unless there is no such folder yet, or an empty one."""
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UsageError(f"{folder}: there is something already; give a folder that does not exist yet")


def write_example(folder: str) -> None:
    """Makes the folder, if need be, with the float network, the quantized one, and ten images. Raises UsageError where that
    cannot be written."""
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
    """Compiles the quantized network of the current folder to MODEL, as COMPILE does. Returns the graph and the file's
    size in bytes."""
    graph = compile_model(Path(SOURCE).read_bytes(), SOURCE, CompilerOptions()).graph
    data = encode(graph)
    return graph, Path(MODEL).write_bytes(data)

"""Verifies a random graph: reference, simulator and board, and the boards of other architectures."""

from __future__ import annotations

import subprocess
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import QVerifyError
from qverify.inputs.sources import InputRequest
from qverify.model_bin.records import encode
from qverify.session.job import verify
from qverify.session.request import Request
from qverify_agents.binaries import runtime_path
from qverify_agents.emulation.user_mode import find_emulator

from tests.graphs.random_graph import Array

BAD = ("FAILED", "INCONCLUSIVE", "crash", "architecture")


@dataclass(frozen=True, slots=True)
class Outcome:
    """word: PASSED, host (PASSED with a part on the host), refused, or one of BAD. said: why."""

    word: str
    said: str = ""

    @property
    def bad(self) -> bool:
        return self.word in BAD


def judge(
    model: onnx.ModelProto,
    feed: dict[str, Array],
    folder: Path,
    architectures: tuple[str, ...] = (),
    board: str = "local",
) -> Outcome:
    """Verifies the model on these inputs in this folder. architectures: of boards that have to give the local board's
    bytes, too."""
    path, inputs = folder / "graph.onnx", folder / "inputs.npz"
    path.write_bytes(model.SerializeToString())
    np.savez(inputs, **feed)
    try:
        report = verify(Request([str(path)], board, inputs=InputRequest(str(inputs)))).report
        if report.verdict != "PASSED":
            return Outcome(report.verdict, str(report.blame or report.not_run))
        if report.on_host:
            return Outcome("host", str(report.on_host))
        return _on_others(model, feed, folder, architectures)
    except QVerifyError as error:
        internal = type(error).__name__ == "InternalError"
        return Outcome("crash" if internal else "refused", f"{type(error).__name__}: {error}")
    except Exception:
        return Outcome("crash", traceback.format_exc())


def _on_others(model: onnx.ModelProto, feed: dict[str, Array], folder: Path, architectures: tuple[str, ...]) -> Outcome:
    if not architectures:
        return Outcome("PASSED")
    graph = compile_model(model.SerializeToString(), "graph.onnx", CompilerOptions(check=False)).graph
    (folder / "model.bin").write_bytes(encode(graph))
    for i, name in enumerate(graph.inputs):
        (folder / f"{i}.bin").write_bytes(np.ascontiguousarray(feed[name]).tobytes())
    files = ",".join(f"{i}.bin" for i in range(len(graph.inputs)))
    words = ["infer", "--model_file=model.bin", f"--input_file={files}", "--digests"]
    wanted = _digests([str(runtime_path("x86_64")), *words], folder)
    if len(wanted) < len(graph.nodes) // 2:
        return Outcome("architecture", f"x86_64 gave {len(wanted)} digests of {len(graph.nodes)} nodes: {wanted[:1]}")
    for architecture in architectures:
        found = _digests([str(find_emulator(architecture)), str(runtime_path(architecture)), *words], folder)
        if found != wanted:
            return Outcome("architecture", f"{architecture}: {sorted(set(found) ^ set(wanted))[:4]}")
    return Outcome("PASSED")


def _digests(command: list[str], folder: Path) -> list[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        return [f"status {done.returncode}: {done.stderr[:300]}"]
    lines = [line.split() for line in done.stdout.splitlines()]
    return [f"{words[0]} {words[1]}" for words in lines if len(words) == 3 and len(words[0]) == 16]

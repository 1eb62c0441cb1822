"""Measures what a run of a small model costs beside importing onnxruntime, loading the model and running it once: processor
and wall seconds of the whole processes, children included, taken in turn in one run."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.measure import good_models, show_figures

ALONE = """
import sys
import numpy as np, onnxruntime as ort
session = ort.InferenceSession(sys.argv[1])
types = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}
feed = {i.name: np.zeros([d if isinstance(d, int) else 1 for d in i.shape], types[i.type]) for i in session.get_inputs()}
session.run(None, feed)
"""
_ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # modules are compiled once
DEFAULT = ("kws_dscnn_u8s8_qdq.onnx", "mbv1_025_224_u8s8_qdq.onnx")


def _cost(words: Sequence[str]) -> tuple[float, float]:
    """Returns processor and wall seconds of a command and its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - start


def measure(model: str, rounds: int) -> dict[str, Any]:
    """Returns the median seconds of each command on the model, and how many times those of onnxruntime they are."""
    verify = [sys.executable, "-m", "qverify", "-m", model, "-q"]
    commands = {
        "onnxruntime": [sys.executable, "-c", ALONE, model],
        "-m": verify,
        "-m -b local": [*verify, "-b", "local"],
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for words in commands.values():
        _cost(words)  # not counted
    for _ in range(rounds):
        for name, words in commands.items():
            found[name].append(_cost(words))
    cpu, wall = ({n: statistics.median(t[at] for t in times) for n, times in found.items()} for at in (0, 1))
    return {
        name: {
            "cpu_s": round(cpu[name], 2),
            "wall_s": round(wall[name], 2),
            "times": round(cpu[name] / cpu["onnxruntime"], 1),
        }
        for name in commands
    }


def main(argv: list[str]) -> int:
    """Prints the figures; --json writes them to a file."""
    parser = argparse.ArgumentParser(prog="scripts/bench start", description=__doc__)
    parser.add_argument("--model", action="append", help="a quantized ONNX; by default two of ../shared/models")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(argv)
    models = options.model or [str(p) for p in good_models() if p.name in DEFAULT]
    show_figures({os.path.basename(m): measure(m, options.rounds) for m in models}, options.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

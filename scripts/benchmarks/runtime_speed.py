"""Measures native qvrt and onnxruntime with one thread on one model."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import median_s, peak_mb


def onnxruntime_s(model: str, repeat: int) -> float:
    """Returns the median seconds of a run of onnxruntime."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    return median_s(lambda: session.run(None, feed), repeat)


def runtime_s(model: str, repeat: int) -> float:
    """Returns the mean seconds of a frame that `qvrt perf` prints."""
    from qverify.compiler.compile_model import CompilerOptions, compile_model
    from qverify.model_bin.records import encode
    from qverify_agents.binaries import runtime_path

    compiled = compile_model(Path(model).read_bytes(), Path(model).name, CompilerOptions(check=False))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bin"
        path.write_bytes(encode(compiled.graph))
        done = subprocess.run(
            [str(runtime_path("x86_64")), "perf", f"--model_file={path}", f"--frame_count={repeat}"],
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
    line = next(text for text in done.stdout.splitlines() if "average latency" in text.lower())
    return float(line.split(":")[1].split()[0]) / 1000


if __name__ == "__main__":
    seconds = {"onnxruntime": onnxruntime_s, "qvrt": runtime_s}[sys.argv[2]](sys.argv[1], int(sys.argv[3]))
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb()}))

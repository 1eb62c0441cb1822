"""An engine that every machine has: a program that runs the quantized ONNX by onnxruntime and writes its final outputs.

Its arguments are the model, the input (.npy), the folder of its outputs, and a file to which each run adds a letter."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def engine_command(log: Path) -> str:
    """Returns the command line of the engine. log: receives one letter for each run."""
    return f"{shlex.quote(sys.executable)} {Path(__file__).resolve()} {{model}} {{npy}} {{out}} --log={log}"


def main(model: str, npy: str, out: str, log: str) -> None:
    import numpy as np
    import onnxruntime

    with open(log.removeprefix("--log="), "a", encoding="utf-8") as file:
        file.write("x")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    values = session.run(names, {session.get_inputs()[0].name: np.load(npy)})
    for name, value in zip(names, values, strict=True):
        np.save(f"{out}/{name}.npy", value)


if __name__ == "__main__":
    main(*sys.argv[1:])

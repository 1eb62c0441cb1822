"""A tool of the tests: runs engine_of_tests on the board, and spoils one tensor on request, with what follows from it."""

import argparse
from pathlib import Path

import numpy as np
from engine_of_tests import half

words = argparse.ArgumentParser()
for name in ("input", "out", "spoil", "by"):
    words.add_argument(f"--{name}", default="")
given = words.parse_args()
values = {"x": np.load(given.input)}
steps = {
    "a": lambda: half(values["x"]),
    "b": lambda: values["a"] + np.float32(1),
    "y": lambda: half(values["b"]),
}
for name, step in steps.items():
    values[name] = step() + np.float32((given.by or 40) if name == given.spoil else 0)
    np.save(Path(given.out) / f"{name}.npy", values[name])
print("done")

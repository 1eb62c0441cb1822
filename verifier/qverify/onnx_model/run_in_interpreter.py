"""Runs the reference in another Python interpreter, which is started as `run_in_interpreter.py FOLDER`.

FOLDER contains job.json, {"runs": [{"model", "feed", "level", "threads", "inputs": [names], "outputs": [names]}]}, the
models, and .npz files with the feeds, whose arrays are called 0, 1, ... in the order of the names. This script writes
ran.json (the versions), then run-N.npz for every run; files get their final names only when they are complete.

This script imports nothing from qverify. It must work with Python 3.8 and old versions of onnxruntime."""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Any

del sys.path[0]  # the folder of this file, whose modules must not be imported
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as in engine.py
import numpy as np  # noqa: E402
import onnxruntime as ort  # noqa: E402

LEVELS = {
    "disable_all": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def session(path: str, level: str, threads: int) -> ort.InferenceSession:
    """Returns a session with the same settings as in engine.py."""
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    return ort.InferenceSession(
        path, options, providers=["CPUExecutionProvider"], disabled_optimizers=["WeightBiasQuantization"]
    )


def main(folder: str) -> None:
    """Runs the job in this folder and writes its results there."""
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    ort.set_default_logger_severity(4)
    ran = {"onnxruntime": ort.__version__, "python": platform.python_version(), "machine": platform.machine()}
    with open(os.path.join(folder, "ran.json"), "w", encoding="utf-8") as file:
        json.dump(ran, file)
    for number, run in enumerate(job["runs"]):
        with np.load(os.path.join(folder, run["feed"]), allow_pickle=False) as arrays:
            feed = {name: native_bytes(arrays[str(at)]) for at, name in enumerate(run["inputs"])}
        opened = session(os.path.join(folder, run["model"]), run["level"], run["threads"])
        wanted = run["outputs"]  # onnxruntime would return all outputs for an empty list
        values = opened.run(wanted, {i.name: feed[i.name] for i in opened.get_inputs()}) if wanted else []
        write(os.path.join(folder, "run-%d.npz" % number), values)  # noqa: UP031


def write(path: str, values: list[Any]) -> None:
    """Writes the arrays to an .npz file, which gets its final name only when it is complete."""
    arrays = {str(at): np.asarray(value) for at, value in enumerate(values)}  # type: dict[str, Any]
    np.savez(path + ".part.npz", **arrays)
    os.replace(path + ".part.npz", path)


def native_bytes(value: Any) -> Any:
    """Returns the array in this machine's byte order."""
    return value.astype(value.dtype.newbyteorder("="), copy=False)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Exception as error:  # onnxruntime's own types; the user is shown the last line of stderr
        text = " ".join(str(error).split()) or type(error).__name__
        if len(text) > 260:  # keep both ends; the reason is at the end
            text = text[:70].rpartition(" ")[0] + " ... " + text[-180:].partition(" ")[2]
        sys.exit("onnxruntime %s: %s" % (ort.__version__, text))  # noqa: UP031

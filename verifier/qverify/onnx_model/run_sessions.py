"""Runs models on onnxruntime with the options that each request states and no other, which may be none at all. It is
started as `run_sessions.py FOLDER`, and ends when its input ends.

A request is a line of JSON: {"model": file, "feed": .npz, "inputs": [names], "outputs": [names], "level": "" or one of
LEVELS, "disabled": [names of optimizers], "config": {key: value}, "result": file}. Arrays of the .npz are called 0, 1, ...
in the order of the names. The answer is a line: {"arrays": [[dtype, shape], ...]} once the elements of the outputs are in
the file, one output after the other, or {"why": text}.

This script imports nothing from qverify, so that it starts quickly."""

from __future__ import annotations

import ctypes
import json
import os
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


def session(request: dict[str, Any]) -> ort.InferenceSession:
    """Returns a session with the options of the request; without any, the call has no argument but the model."""
    if not (request["level"] or request["disabled"] or request["config"]):
        return ort.InferenceSession(request["model"])
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if request["level"]:
        options.graph_optimization_level = LEVELS[request["level"]]
    for key, value in request["config"].items():
        options.add_session_config_entry(key, value)
    return ort.InferenceSession(request["model"], options, disabled_optimizers=request["disabled"])


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Runs one request, writes its result, and returns the answer."""
    with np.load(request["feed"], allow_pickle=False) as arrays:
        feed = {name: arrays[str(at)] for at, name in enumerate(request["inputs"])}
    opened = session(request)
    given = {i.name: feed[i.name] for i in opened.get_inputs()}
    texts = {i.name for i in opened.get_inputs() if i.type == "tensor(string)"}
    given = {n: v.astype(object) if n in texts else v for n, v in given.items()}
    values = [np.asarray(v) for v in opened.run(request["outputs"], given)]
    result = [v.astype(str) if v.dtype.kind == "O" else v for v in values]
    with open(request["result"], "wb") as file:
        file.writelines(v.tobytes() for v in result)
    return {"arrays": [[v.dtype.str, v.shape] for v in result]}


def _return_free_memory() -> None:
    """Returns the memory of the last session to the system, where the C library (glibc) supports it: the next request may
    come late."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def main() -> None:
    """Answers requests until there are no more. What libraries print goes to the error output."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    ort.set_default_logger_severity(4)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # onnxruntime raises its own types
            reply = {"why": " ".join(str(error).split()) or type(error).__name__}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        _return_free_memory()


if __name__ == "__main__":
    main()

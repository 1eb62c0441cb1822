"""Runs a reference engine in a Python interpreter, which is started as `run_reference_engine.py FOLDER`.

FOLDER contains job.json, {"callable": "module:name" or "", "libraries": [paths], "model", "inputs": [names],
"most_memory": bytes, "path": folder of modules}, the model, and inputs.npz, whose arrays are called 0, 1, ... in the
order of the names. If there is a callable, it is called as name(model_path, {input name: array}) and returns {tensor
name: array}. Otherwise the model is run on onnxruntime with these libraries of custom operators.

This script writes names.json ({"names": [...], "engine", "version", "python"}), then result.npz, whose arrays are
called 0, 1, ... as well; result.npz gets its final name only when it is complete.

This script imports nothing from qverify. It must work with Python 3.8 and old versions of onnxruntime; with a callable,
numpy is the only library it needs."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import sys
from typing import Any

del sys.path[0]  # the folder of this file, whose modules must not be imported
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as in engine.py
import numpy as np  # noqa: E402


def limit_memory(most: int) -> None:
    """Limits this process's address space to `most` bytes, if the system supports that."""
    if sys.platform == "win32":
        return
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (OSError, ValueError):
        pass


def entry_point(text: str) -> Any:
    """Imports and returns the object named by `module:name` or `file.py:name`."""
    module, _, name = text.rpartition(":")
    if module.endswith(".py"):
        spec = importlib.util.spec_from_file_location("reference_engine", module)
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules["reference_engine"] = loaded
        sys.path.insert(0, os.path.dirname(module))
        spec.loader.exec_module(loaded)
    else:
        loaded = importlib.import_module(module)
    return getattr(loaded, name)


def call(job: Any, model: str, feed: Any) -> Any:
    """Returns the tensors that the callable returns, its name and its version."""
    function = entry_point(job["callable"])
    tensors = function(model, feed)
    if not isinstance(tensors, dict) or not all(isinstance(n, str) for n in tensors):
        raise TypeError("it returned %s, wanted a dict of arrays by tensor name" % type(tensors).__name__)  # noqa: UP031
    module = sys.modules.get(function.__module__)
    return tensors, job["callable"], str(getattr(module, "__version__", ""))


def run_onnxruntime(job: Any, model: str, feed: Any) -> Any:
    """Returns the tensors that onnxruntime computes, its name and its version. The settings are those of engine.py."""
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads = 2, 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for library in job["libraries"]:
        options.register_custom_ops_library(library)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs() if o.type.startswith("tensor(") and o.type != "tensor(string)"]
    values = session.run(names, {i.name: feed[i.name] for i in session.get_inputs()})
    return dict(zip(names, values)), "onnxruntime", ort.__version__  # noqa: B905


def main(folder: str) -> None:
    """Runs the job in this folder and writes its results there."""
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    limit_memory(job["most_memory"])
    sys.path.insert(0, job["path"])
    with np.load(os.path.join(folder, "inputs.npz"), allow_pickle=False) as arrays:
        feed = {name: arrays[str(at)] for at, name in enumerate(job["inputs"])}
    model = os.path.join(folder, job["model"])
    tensors, engine, version = (call if job["callable"] else run_onnxruntime)(job, model, feed)
    stated = {"names": list(tensors), "engine": engine, "version": version, "python": platform.python_version()}
    result = {str(at): np.asarray(value) for at, value in enumerate(tensors.values())}  # type: dict[str, Any]
    with open(os.path.join(folder, "names.json"), "w", encoding="utf-8") as file:
        json.dump(stated, file)
    path = os.path.join(folder, "result.npz")
    np.savez(path + ".part.npz", **result)
    os.replace(path + ".part.npz", path)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Exception as error:  # any engine's error; the user is shown the last line of stderr
        text = " ".join(str(error).split())
        if len(text) > 300:  # keep both ends; the reason is at the end
            text = text[:90].rpartition(" ")[0] + " ... " + text[-200:].partition(" ")[2]
        sys.exit("%s%s" % (type(error).__name__, ": " + text if text else ""))  # noqa: UP031

"""Runs .tflite files with LiteRT, every tensor kept, for a parent process that must outlive LiteRT. It ends when its input
ends. Every run starts from the state that the file states for its variables.

A request is a line of JSON: {"model": file, "kernels": one of RESOLVERS, "keep": whether it stays open for further requests,
"feed": .npz, "wanted": [indices of tensors], "result": file, or null for none}. Arrays of the .npz are
called by the index of their tensor. The answer is a line: {"arrays": [[dtype, shape], ...]} once the elements of the wanted
tensors are in the file, one tensor after the other, or [dtype, shape, SHA-256] without a file, with null for a tensor that LiteRT
does not give; or {"why": text, "refused": whether LiteRT did not open the file}.

This script imports nothing from qverify, so that it starts quickly."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

del sys.path[0]  # the folder of this file, whose modules must not be imported
import numpy as np  # noqa: E402
from ai_edge_litert import interpreter as litert  # noqa: E402

RESOLVERS = {"reference": "BUILTIN_REF", "optimized": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "xnnpack": "BUILTIN"}
RESOURCES = ("VAR_HANDLE", "HASHTABLE")  # operators whose state only a new interpreter resets


def open_model(path: str, kernels: str) -> Any:
    """Returns the file, opened."""
    opened = litert.Interpreter(
        model_path=path,
        num_threads=1,
        experimental_op_resolver_type=getattr(litert.OpResolverType, RESOLVERS[kernels]),
        experimental_preserve_all_tensors=True,
    )
    opened.allocate_tensors()
    return opened


def may_be_kept(opened: Any) -> bool:
    """Returns whether the state of the file can be reset without opening it again."""
    return all(operator["op_name"] not in RESOURCES for operator in opened._get_ops_details())


def run(opened: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Runs one request, writes its result, and returns the answer."""
    opened.reset_all_variables()
    with np.load(request["feed"], allow_pickle=False) as arrays:
        for detail in opened.get_input_details():
            opened.set_tensor(detail["index"], np.asarray(arrays[str(detail["index"])], order="C"))
    opened.invoke()
    if request["result"] is None:
        return {"arrays": [describe(opened, i) for i in request["wanted"]]}
    values = [opened.get_tensor(i) for i in request["wanted"]]
    with open(request["result"], "wb") as file:
        file.writelines(v.tobytes() for v in values)
    return {"arrays": [[v.dtype.str, v.shape] for v in values]}


def describe(opened: Any, index: int) -> Any:
    """Returns type, shape and digest of a tensor after a run; None for one that has no values."""
    try:
        value = opened.get_tensor(index)
    except (ValueError, RuntimeError):
        return None
    return [value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()]


def answer(request: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer to one request. kept: the open files by path."""
    path, kernels, is_open = request["model"], request["kernels"], False
    key = f"{kernels} {path}"
    try:
        opened = kept.get(key) or open_model(path, kernels)
        is_open = True
        if request["keep"] and may_be_kept(opened):
            kept[key] = opened
        return run(opened, request)
    except Exception as error:  # one that LiteRT raises; those that end the process are the parent's to report
        return {"why": " ".join(str(error).split()) or type(error).__name__, "refused": not is_open}


def main() -> None:
    """Answers requests until there are no more. What libraries print goes to the error output."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    kept: dict[str, Any] = {}
    for line in sys.stdin:
        replies.write(json.dumps(answer(json.loads(line), kept)) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()

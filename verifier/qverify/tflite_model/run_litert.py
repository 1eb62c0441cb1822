"""Runs .tflite files with LiteRT's reference kernels, every tensor kept, for a parent process that must outlive LiteRT.
It ends when its input ends.

A request is a line of JSON: {"model": file, "keep": whether it stays open for further requests, "feed": .npz, "wanted":
[indices of tensors], "result": file}. Arrays of the .npz are called by the index of their tensor. The answer is a line:
{"arrays": [[dtype, shape], ...]} once the elements of the wanted tensors are in the file, one tensor after the other, or
{"why": text, "refused": whether LiteRT did not open the file}.

This script imports nothing from qverify, so that it starts quickly."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

del sys.path[0]  # the folder of this file, whose modules must not be imported
import numpy as np  # noqa: E402
from ai_edge_litert import interpreter as litert  # noqa: E402


def open_model(path: str) -> Any:
    """Returns the file, opened."""
    opened = litert.Interpreter(
        model_path=path,
        num_threads=1,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    opened.allocate_tensors()
    return opened


def run(opened: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Runs one request, writes its result, and returns the answer."""
    with np.load(request["feed"], allow_pickle=False) as arrays:
        for detail in opened.get_input_details():
            opened.set_tensor(detail["index"], np.ascontiguousarray(arrays[str(detail["index"])]))
    opened.invoke()
    values = [opened.get_tensor(i) for i in request["wanted"]]
    with open(request["result"], "wb") as file:
        file.writelines(v.tobytes() for v in values)
    return {"arrays": [[v.dtype.str, v.shape] for v in values]}


def answer(request: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer to one request. kept: the open files by path."""
    path, is_open = request["model"], False
    try:
        opened = kept.get(path) or open_model(path)
        is_open = True
        if request["keep"]:
            kept[path] = opened
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

"""Runs .tflite files with TFLM's Python package, every tensor kept, for a parent process. A request is a line of JSON:
{"model": file, "feed": .npz of the inputs by number, "tensors": [[index, dtype, shape], ...], "outputs": how many,
"arena": bytes, "result": .npz to write}. The answer is a line: {} or {"why": text}."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
from tflite_micro import runtime


def run(request: dict[str, Any]) -> None:
    with open(request["model"], "rb") as file:
        data = file.read()
    keep = runtime.InterpreterConfig.kPreserveAllTensors
    opened = runtime.Interpreter.from_bytes(data, arena_size=request["arena"], intrepreter_config=keep)
    with np.load(request["feed"]) as feed:
        for name in feed.files:
            opened.set_input(feed[name], int(name))
    opened.invoke()
    found = {f"output {k}": opened.get_output(k) for k in range(request["outputs"])}
    for index, dtype, shape in request["tensors"]:
        value = np.ascontiguousarray(opened.GetTensor(index, 0)["tensor_data"])
        if value.size == np.prod(shape, dtype=np.int64):
            found[str(index)] = value.view(dtype).reshape(shape)
    np.savez(request["result"], **found)


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            run(json.loads(line))
            answer: dict[str, str] = {}
        except Exception as error:  # what TFLM raises
            answer = {"why": " ".join(str(error).split()) or type(error).__name__}
        replies.write(json.dumps(answer) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()

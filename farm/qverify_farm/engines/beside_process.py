"""python -m qverify_farm.engines.beside_process: the process of beside.BesideEngine. It reads lines of JSON from standard
input, first the settings {"boards", "cache"}, then requests, and ends when standard input does."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from qverify_farm.engines.beside import take_standard_output
from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.engines.in_process import InProcessEngine
from qverify_farm.work.job_task import JobTask
from qverify_farm.work.worker import JobWorker


def main() -> None:
    answers = os.fdopen(take_standard_output(), "wb")
    lock = threading.Lock()

    def answer(key: str, values: dict[str, Any]) -> None:
        with lock:
            answers.write(json.dumps({"key": key, **values}).encode() + b"\n")
            answers.flush()

    settings = json.loads(sys.stdin.buffer.readline())
    boards = {row["name"]: ReachedBoard(**row) for row in settings["boards"]}
    engine = InProcessEngine(boards, JobWorker(Path(settings["cache"]) if settings["cache"] else None))
    for line in sys.stdin.buffer:
        request: dict[str, Any] = json.loads(line)
        key = str(request.get("key", ""))
        if "start" in request:
            task = JobTask.from_json(request["start"])
            engine.start(task, lambda _, result, key=key: answer(key, {"result": result.to_json()}))  # type: ignore[misc]
        elif "check" in request:
            engine.check_board(request["check"], lambda _, why, key=key: answer(key, {"why": why}))  # type: ignore[misc]
        elif "cancel" in request:
            engine.cancel(request["cancel"])
        elif "close" in request:
            engine.close(float(request["close"]))
    engine.close(1.0)
    os._exit(0)  # a normal exit would wait for the thread of a board that hangs


if __name__ == "__main__":
    main()

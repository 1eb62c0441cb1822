"""A process for work/child.py that answers, hangs or crashes as requested."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from qverify_farm.work.child import serve


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if "signal" in request:
        os.kill(os.getpid(), getattr(signal, request["signal"]))
    time.sleep(request.get("sleep", 0))
    print("what a library prints is no answer")
    return {"process": os.getpid(), **request}


def always_crash(request: dict[str, Any]) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


if __name__ == "__main__":
    serve(always_crash if os.environ.get("ALWAYS_CRASH") else answer)

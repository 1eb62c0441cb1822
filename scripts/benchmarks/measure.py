"""Measures time and peak memory for the benchmarks: the median of repeated calls, and the peak memory of a child
process."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def median_s(call: Callable[[], Any], repeat: int) -> float:
    """Returns the median wall seconds of `repeat` calls, after one call that is not counted."""
    call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_mb() -> float:
    """Returns the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_child(module: str, *words: str, timeout_s: float = 1800) -> dict[str, Any]:
    """Runs `python -m module words...` and returns the JSON object that it prints last. In a process of its own, the
    peak memory of one side does not include that of another."""
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=Path(__file__).resolve().parents[1],
    )
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def show_figures(figures: dict[str, Any], path: str | None) -> None:
    """Prints figures as JSON, and writes them to a file if there is one."""
    text = json.dumps(figures, indent=1)
    print(text)
    if path:
        Path(path).write_text(text + "\n")


def good_models() -> list[Path]:
    """Returns the 28 real quantized models in ../shared/models, or an empty list if they are missing."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "models"
    return sorted(p for p in folder.glob("*/*_q*.onnx") if p.parent.name != "bad")

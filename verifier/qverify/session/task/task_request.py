"""What --labels and --task-metric ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """labels: the path of the file, None without one. metric: FILE.py:FUNCTION or MODULE:FUNCTION, None for
    classification. float_model: the path of the float ONNX, None without one."""

    labels: str | None = None
    metric: str | None = None
    float_model: str | None = None

"""The request for task numbers (--labels and --task-metric)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A request for task numbers. labels: path of the file of labels, None without one. metric: FILE.py:FUNCTION or
    MODULE:FUNCTION, None for classification. float_model: path of the float ONNX to measure as well, None without
    one."""

    labels: str | None = None
    metric: str | None = None
    float_model: str | None = None

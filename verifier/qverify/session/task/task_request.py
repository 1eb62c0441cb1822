"""The request for task numbers (--task, --labels, --decoder and --task-metric)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A request for task numbers. labels: path of the file or folder of labels, None without one. metric: FILE.py:FUNCTION
    or MODULE:FUNCTION, None for a task or classification. float_model: path of the float ONNX to measure as well, None
    without one. kind: `KIND,KEY=VALUE,...` of --task, "" for classification. decoder: text of --decoder, "" for none."""

    labels: str | None = None
    metric: str | None = None
    float_model: str | None = None
    kind: str = ""
    decoder: str = ""

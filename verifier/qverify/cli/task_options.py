"""--labels and --task-metric: measures how well each side performs the network's own task."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

OPTIONS = (
    click.option(
        "--labels",
        metavar="FILE",
        help="labels of the frames of -i: lines `file,label`, one label per line, or JSON. Adds top-1 and top-5 of every side, "
        "also of a float ONNX in -m; never part of the verdict",
    ),
    click.option(
        "--task-metric",
        "task_metric",
        metavar="FILE.py:FUNCTION",
        help="instead of top-1 and top-5: function(outputs, label, file) returns a number, or True or False (or MODULE:FUNCTION)",
    ),
)


def task_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options. The command receives them as one `task` (session.task.task_request.TaskRequest), None without
    them. They are a usage error without -i."""

    @wraps(command)
    def wrapper(labels: str | None, task_metric: str | None, **others: Any) -> int:
        from qverify.session.task.task_request import TaskRequest

        if labels is None and task_metric is None:
            return command(task=None, **others)
        option_name = "--task-metric" if labels is None else "--labels"
        if labels == "" or task_metric == "":
            raise click.UsageError("an empty --labels or --task-metric (an unset shell variable?)")
        if others["inputs"].files is None:
            raise click.UsageError(f"{option_name} is about frames; give them with -i (a file, a folder or a list)")
        return command(task=TaskRequest(labels, task_metric), **others)

    for option in reversed(OPTIONS):
        wrapper = option(wrapper)
    return wrapper

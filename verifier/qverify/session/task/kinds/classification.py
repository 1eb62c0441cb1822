"""Classification: the share of frames whose labelled class is first, and among the first five."""

from __future__ import annotations

from qverify.session.task.kinds import TaskContext
from qverify.session.task.metrics import Classification, Metric

NAME = "classification"
LABELS = "lines `file,label`, one label a line, or JSON; a label is the number of a class, or one of names=A;B;..."
SUMMARY = "top-1 and top-5"
DEFAULTS = {"names": ""}


def Evaluator(context: TaskContext) -> Metric:
    """Returns the metric that --labels alone gives."""
    metric = Classification(context.graph, context.names, context.labels)
    if context.options["names"]:
        metric.name_classes(context.options["names"])
    return metric

"""Keyword spotting: the accuracy of the spoken word."""

from __future__ import annotations

from qverify.session.task.kinds import TaskContext
from qverify.session.task.metrics import Classification, Metric

NAME = "keyword"
LABELS = "lines `file,label`, one label a line, or JSON; a label is the number of a class, or one of names=A;B;..."
SUMMARY = "accuracy and top-5"
DEFAULTS = {"names": ""}


def Evaluator(context: TaskContext) -> Metric:
    """Returns the rank of the labelled word."""
    metric = Classification(context.graph, context.names, context.labels, "accuracy")
    metric.name = NAME
    if context.options["names"]:
        metric.name_classes(context.options["names"])
    return metric

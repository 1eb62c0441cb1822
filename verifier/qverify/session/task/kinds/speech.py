"""Speech recognition: word and character error rates, and the share of frames with the right text."""

from __future__ import annotations

from qverify.session.task.kinds import TaskContext
from qverify.session.task.metrics import Metric
from qverify.session.task.transcripts import Transcripts

NAME = "speech"
LABELS = "lines `file,text`, one text a line, or JSON"
SUMMARY = "WER and CER over all frames (smaller is better), right texts"
DEFAULTS: dict[str, str] = {}


def Evaluator(context: TaskContext) -> Metric:
    """Returns the metric of texts."""
    return Transcripts(context, NAME)

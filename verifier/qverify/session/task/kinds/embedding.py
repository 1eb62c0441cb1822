"""Embeddings: recall at k of the frames with the same label among the nearest others."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from qverify.arithmetic.norms import norm
from qverify.errors import TaskError
from qverify.session.task.kinds import Outputs, TaskContext
from qverify.session.task.labels import Label
from qverify.session.task.metrics import Means, Score

NAME = "embedding"
LABELS = "lines `file,label`, one label a line, or JSON; frames of one identity have the same label"
SUMMARY = "recall@1 and recall@5 by cosine, of frames whose label another frame has"
DEFAULTS: dict[str, str] = {}
AT = (1, 5)
BLOCK = 256  # frames whose similarities are computed at once


class Evaluator(Means):
    name, names = NAME, tuple(f"recall@{k}" for k in AT)

    def __init__(self, context: TaskContext):
        super().__init__(context.labels)
        shapes = {n: context.graph.spec(n).shape for n in context.names}
        vectors = [n for n, shape in shapes.items() if max(shape, default=1) == prod(shape) > 1]
        if len(vectors) != 1:
            raise TaskError(
                f"--task {NAME}: the outputs are {context.say_shapes()}; wanted one with a single dim above 1"
            )
        self.output = vectors[0]

    def score(self, outputs: Outputs, label: Label, frame: str, side: str) -> Score:
        vector = np.asarray(outputs[self.output], np.float64).reshape(-1)
        length = norm(vector)
        whole = np.isfinite(length) and length > 0
        kept = (str(label), vector / length if whole else None)
        return Score({}, None, f"norm {length:.4g}", None, kept)

    def summarize(self, scores: Sequence[Score], base: Sequence[Score | None]) -> dict[str, float]:
        """Returns the share of frames that have one of their label among the k nearest others; a frame whose embedding is
        zero or not finite is never found and finds none. NaN if no label is of two frames."""
        labels = np.array([score.kept[0] for score in scores])
        usable = np.array([score.kept[1] is not None for score in scores], bool)
        width = next((len(s.kept[1]) for s in scores if s.kept[1] is not None), 1)
        rows = [np.zeros(width) if score.kept[1] is None else score.kept[1] for score in scores]
        vectors = np.stack(rows) if rows else np.zeros((0, width))
        asked = [at for at, label in enumerate(labels) if (labels == label).sum() > 1]
        if not asked:
            return dict.fromkeys(self.names, float("nan"))
        found = dict.fromkeys(AT, 0)
        for start in range(0, len(asked), BLOCK):
            block = asked[start : start + BLOCK]
            near = vectors[block] @ vectors.T
            near[:, ~usable] = -np.inf
            for row, at in zip(near, block, strict=True):
                row[at] = -np.inf
                order = (
                    [i for i in np.argsort(-row, kind="stable")[: max(AT)] if row[i] > -np.inf] if usable[at] else []
                )
                for k in AT:
                    found[k] += bool((labels[order[:k]] == labels[at]).any())
        return {f"recall@{k}": found[k] / len(asked) for k in AT}

"""The metrics of text: word and character error rates, and the share of texts that are right."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.decoders import Text
from qverify.errors import TaskError
from qverify.extras import import_extra
from qverify.printable import printable
from qverify.session.task.kinds import Outputs, TaskContext
from qverify.session.task.labels import Label
from qverify.session.task.metrics import Means, Score

MAX_LENGTH = 1 << 16  # characters of a text


class Transcripts(Means):
    """Word and character error rates over all frames together, and the share of texts that are equal."""

    names: tuple[str, ...] = ("accuracy", "wer", "cer")
    smaller: frozenset[str] | None = frozenset({"wer", "cer"})

    def __init__(self, context: TaskContext, name: str):
        super().__init__(context.labels)
        self.name, self._context = name, context
        self._jiwer = import_extra("jiwer", f"--task {name}")
        self._decoder = context.find_decoder("ctc", ("text",))
        context.check_decoder(self._decoder)
        self.decoder = self._decoder.name

    def check(self, label: Label, frame: str) -> None:
        if (
            not isinstance(label, (str, int))
            or isinstance(label, bool)
            or not str(label).strip()
            or len(str(label)) > MAX_LENGTH
        ):
            raise TaskError(
                f"--labels {self._path}: {printable(frame)}: wanted the text, of at most {MAX_LENGTH} characters"
            )

    def score(self, outputs: Outputs, label: Label, frame: str, side: str) -> Score:
        found = self._context.decode(self._decoder, outputs, frame, side)
        if not isinstance(found, Text):
            raise TaskError(f"--decoder {self.decoder}: gives {type(found).__name__}, wanted a Text")
        text, truth = " ".join(found.text.split()), " ".join(str(label).split())
        right = text == truth
        level = -float(self._jiwer.cer(truth, text))
        return Score({"accuracy": float(right)}, None, f'"{printable(text[:60])}"', level, (truth, text))

    def summarize(self, scores: Sequence[Score], base: Sequence[Score | None]) -> dict[str, float]:
        if not scores:
            return {}
        truths, texts = [s.kept[0] for s in scores], [s.kept[1] for s in scores]
        wer, cer = float(self._jiwer.wer(truths, texts)), float(self._jiwer.cer(truths, texts))
        return {**super().summarize(scores, base), "wer": wer, "cer": cer}

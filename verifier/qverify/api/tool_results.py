"""The results of quantize(), inputs_diff(), report_diff() and suite()."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from qverify.api.results import Judgement, Result
from qverify.renderers import difference_text, inputs_difference
from qverify.renderers.text_view import TextView
from qverify.report.difference import ReportDifference
from qverify.report.document import Verdict

if TYPE_CHECKING:
    from qverify.session.inputs.compare_inputs import ComparedFrame


@dataclass(frozen=True, slots=True, repr=False)
class Quantized:
    """The result of quantize: a quantized ONNX that was written. path: path of the file."""

    path: str
    _made: Any

    @property
    def changes(self) -> list[str]:
        """The changes that a vendor's toolkit made in its own quantization, a line each; [] for onnxruntime's."""
        return [str(line) for line in getattr(self._made, "changes", ())]

    @property
    def calibrated_on(self) -> int:
        """The number of frames that were used; 0 where a toolkit's files state the ranges."""
        return int(getattr(self._made, "used", 0))

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """Name and reason of each frame that could not be prepared."""
        return [*getattr(self._made, "left_out", ())]

    @property
    def cosines(self) -> dict[str, float]:
        """The cosine similarity of each output with that of the float model, over the compared frames."""
        return {loss.name: loss.cosine for loss in getattr(self._made, "losses", ())}

    @property
    def blocker(self) -> str:
        """The reason why qverify cannot compile the result; "" if it can."""
        return str(getattr(self._made, "blocker", ""))

    def __repr__(self) -> str:
        return f"<qverify.Quantized {self.path}>"


@dataclass(frozen=True, slots=True, repr=False)
class InputsDiff:
    """The result of inputs_diff. a, b: the paths. frames: the difference of each frame."""

    a: str
    b: str
    frames: list[ComparedFrame]

    @property
    def equal(self) -> bool:
        """Whether every frame has the intended bytes."""
        return all(frame.difference.equal for frame in self.frames)

    @property
    def mistakes(self) -> list[str]:
        """The known mistakes that reproduce every frame that differs, in words; [] if none does."""
        from qverify.session.inputs.compare_inputs import common_mistakes

        return [explanation.said for group in common_mistakes(self.frames) for explanation in group]

    def to_json(self) -> list[dict[str, Any]]:
        """Returns the frames as plain values, as `frames` of qverify.inputs_diff/1."""
        return [{"a": f.intended, "b": f.captured, **inputs_difference.to_json(f.difference)} for f in self.frames]

    def __str__(self) -> str:
        return "\n".join(f"{f.captured}: {inputs_difference.verdict(f.difference)}" for f in self.frames)

    def __repr__(self) -> str:
        return f"<qverify.InputsDiff {'EQUAL' if self.equal else 'DIFFERENT'}>"


class ReportDiff(Result):
    """The result of report_diff. document: a report.difference.ReportDifference. str() returns the text that the command
    prints."""

    _writer = "write_difference"

    def __init__(self, result: ReportDifference):
        self.document = result

    @property
    def change(self) -> Literal["better", "same", "worse", "not known"]:
        """The change of the verdict from a to b."""
        change: Literal["better", "same", "worse", "not known"] = self.document.change
        return change

    @property
    def verdict(self) -> Verdict:
        """The verdict of b, the later run."""
        verdict: Verdict = self.document.b.verdict
        return verdict

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0 same or better, 1 worse, 3 not known."""
        return int(self.document.exit_status)

    def __str__(self) -> str:
        return difference_text.render(self.document, TextView())

    def __repr__(self) -> str:
        return f"<qverify.ReportDiff {self.change}>"


@dataclass(frozen=True, repr=False)
class Suite(Judgement):
    """The result of suite. document: a SuiteReport of qverify_farm, with `jobs`, `boards`, `counts` and `past`; to_json() as
    `qverify suite schema` describes it."""

    document: Any

    def __repr__(self) -> str:
        return f"<qverify.Suite {self.document.name}: {self.verdict}>"

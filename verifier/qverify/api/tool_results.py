"""The results of quantize(), inputs_diff(), outputs_diff(), report_diff() and suite()."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from qverify.api.results import Judgement, Result
from qverify.renderers import difference_text, inputs_difference, matrix_text, outputs_difference
from qverify.renderers.text_view import TextView
from qverify.report.difference import ReportDifference
from qverify.report.document import Verdict
from qverify.report.matrix.document import MatrixDocument

if TYPE_CHECKING:
    from qverify.outputs.difference import ComparedPart
    from qverify.session.inputs.compare_inputs import ComparedFrame
    from qverify.session.outputs.compare_outputs import OutputsRequest


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


@dataclass(frozen=True, slots=True, repr=False)
class OutputsDiff:
    """The result of outputs_diff. reference, device: the paths. parts: the difference of the results, or of each output."""

    reference: str
    device: str
    _request: OutputsRequest
    parts: list[ComparedPart]

    @property
    def equal(self) -> bool:
        """Whether the device wrote what was intended."""
        return outputs_difference.is_equal(self.parts)

    @property
    def mistakes(self) -> list[str]:
        """The known mistakes that reproduce what differs, in words; [] if nothing differs, or not every part is explained."""
        differing = [part.difference for part in self.parts if not part.difference.equal]
        if not all(difference.exact for difference in differing):
            return []
        said = [e.said for difference in differing for group in difference.exact for e in group]
        return list(dict.fromkeys(said))

    def to_json(self) -> dict[str, Any]:
        """Returns the document qverify.outputs_diff/1 as plain values."""
        return outputs_difference.to_document(self.reference, self.device, self._request.decoder, self.parts)

    def __str__(self) -> str:
        return "\n".join(outputs_difference.render(self.parts))

    def __repr__(self) -> str:
        return f"<qverify.OutputsDiff {'EQUAL' if self.equal else 'DIFFERENT'}>"


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


class ReportMatrix(Result):
    """The result of report_matrix. document: a report.matrix.document.MatrixDocument, with `rows`, `columns` and `cells`. str()
    returns the text that the command prints."""

    _writer = "write_matrix"

    def __init__(self, result: MatrixDocument):
        self.document = result

    @property
    def verdicts(self) -> Literal["same", "changed", "not known"]:
        """Whether every row has one verdict in all its columns."""
        verdicts: Literal["same", "changed", "not known"] = self.document.verdicts
        return verdicts

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0 same, 1 changed, 3 not known."""
        return int(self.document.exit_status)

    def __str__(self) -> str:
        return matrix_text.render(self.document, TextView())

    def __repr__(self) -> str:
        return f"<qverify.ReportMatrix {self.verdicts}>"


@dataclass(frozen=True, repr=False)
class Suite(Judgement):
    """The result of suite. document: a SuiteReport of qverify_farm, with `jobs`, `boards`, `counts` and `past`; to_json() as
    `qverify suite schema` describes it."""

    document: Any

    def __repr__(self) -> str:
        return f"<qverify.Suite {self.document.name}: {self.verdict}>"

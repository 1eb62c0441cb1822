"""Compares final outputs with what a device's application made of them (OUTPUTS.md section 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders import Decoder
from qverify.decoders.parts.levels import find_size, squeeze_batch
from qverify.decoders.parts.settings import Settings
from qverify.errors import UsageError
from qverify.outputs.agreement import Agreement
from qverify.outputs.device import DeviceResult, Rows, Written
from qverify.outputs.difference import ComparedPart, OutputDifference, explain_outputs
from qverify.outputs.forms import FORMS, order_corners
from qverify.outputs.recipe import DeviceEvidence, Output, OutputRecipe
from qverify.outputs.reproduction import Reproduction
from qverify.outputs.trial import ArraysTrial, RowsTrial, TextTrial, Trial
from qverify.plural import count
from qverify.printable import printable
from qverify.session.outputs.conventions import list_conventions, say_convention
from qverify.session.outputs.exchanged_bytes import explain_exchanged
from qverify.session.outputs.read_sides import BYTES, Quantization, read_device, read_reference
from qverify.session.outputs.settle_activation import settle_activation

Watch = Callable[[str, int, int], None]
CORNERS = 8  # numbers of the four corners of a turned box


@dataclass(frozen=True, slots=True)
class OutputsRequest:
    """What to compare.

    Attributes:
        reference: path of the final outputs.
        device: path of what the device wrote.
        decoder: the decoder, None for arrays of outputs.
        written: how results are written.
        form: what arrays of the device are, "" for what their names and shapes say.
        side, frame: of a capture as reference.
        names: names of the final outputs, () for those that the reference states.
        quantized: scale and zero point of outputs.
        seconds: time limit.
    """

    reference: str
    device: str
    decoder: Decoder | None = None
    written: Written = field(default_factory=Written)
    form: str = ""
    side: str = ""
    frame: int = 0
    names: tuple[str, ...] = ()
    quantized: dict[str, Quantization] = field(default_factory=dict)
    seconds: float = 60.0


def compare(request: OutputsRequest, watch: Watch | None = None) -> list[ComparedPart]:
    """Returns the difference of every output that the device wrote as an array, or that of its results. Raises UsageError
    or BadFileError if a file cannot be read, or does not fit the decoder."""
    outputs = read_reference(request.reference, request.side, request.frame, request.names, request.quantized)
    result = read_device(request.device, request.decoder, outputs, request.written, request.form)
    if request.form != "decoded" and result.arrays and all(name in outputs for name in result.arrays):
        _check_complete(outputs, result, request.device)
        return _compare_outputs(outputs, result, request, watch)
    decoder = request.decoder
    if decoder is None:
        raise UsageError(f"{request.device}: results need --decoder")
    decoder, assumed = settle_activation(decoder, outputs)
    trial, intended = _prepare(outputs, result, decoder, request)
    others = list_conventions(decoder, intended)
    difference = explain_outputs(trial, intended, request.seconds, watch, others=others)
    if difference.base is not None:
        assumed = [*assumed, say_convention(decoder, difference.base)]
    difference.notes = [*assumed, *difference.notes]
    return [ComparedPart("", difference)]


def _check_complete(outputs: dict[str, Output], result: DeviceResult, path: str) -> None:
    """Raises UsageError if the device's file lacks an output: what is not there is never equal."""
    if lacking := [name for name in outputs if name not in result.arrays]:
        known = ",".join(printable(name) for name in result.arrays)
        raise UsageError(
            f"{path}: lacks {printable(lacking[0])} of {count(len(outputs), 'output')}; "
            f"wanted all, or --outputs {known} to compare these alone"
        )


def _compare_outputs(
    outputs: dict[str, Output], result: DeviceResult, request: OutputsRequest, watch: Watch | None
) -> list[ComparedPart]:
    reproduction = Reproduction(None, request.written)

    def prepare(name: str, theirs: npt.NDArray[Any]) -> tuple[Trial, OutputRecipe]:
        evidence = DeviceEvidence("arrays", outputs, target=name)
        return ArraysTrial({name: theirs}, reproduction, "arrays"), OutputRecipe(Settings(), evidence)

    if request.device.lower().endswith(BYTES):
        exchanged = explain_exchanged(result.arrays, prepare)
        if exchanged is not None:
            return exchanged
    parts: dict[str, OutputDifference] = {}
    deadline, likely = monotonic() + request.seconds, set[str]()
    for name in sorted(
        result.arrays, key=lambda n: result.arrays[n].size
    ):  # what small ones tell helps with large ones
        share = (deadline - monotonic()) / (len(result.arrays) - len(parts))
        parts[name] = explain_outputs(*prepare(name, result.arrays[name]), share, watch, likely=likely)
        if not parts[name].equal and not parts[name].exact:
            from qverify.session.outputs.near_scales import find_near_scale

            parts[name].near = find_near_scale(name, result.arrays[name], outputs)
        likely |= {cause.family for group in parts[name].exact for e in group for cause in e.causes}
    return [ComparedPart(name, parts[name]) for name in result.arrays]


def _prepare(
    outputs: dict[str, Output], result: DeviceResult, decoder: Decoder, request: OutputsRequest
) -> tuple[Trial, OutputRecipe]:
    """Returns what compares recipes with the device's result, and the recipe without mistakes."""
    written, rows = request.written, result.rows
    form = written.form or (rows.form if rows is not None else "") or "xyxy"
    if form not in FORMS:
        raise UsageError(f"boxes {form!r}: wanted one of {', '.join(FORMS)}")
    kind = decoder.result or "boxes"
    if kind == "boxes" and decoder.candidates is None:
        kind = "plain boxes"
    size = _find_size(outputs, decoder)
    corners = decoder.name == "ppocr-det" and rows is not None and rows.numbers.shape[1] == CORNERS
    if rows is not None and corners:
        rows = replace(rows, numbers=order_corners(rows.numbers.reshape(-1, 4, 2)).reshape(-1, CORNERS))
    evidence = _describe(DeviceEvidence(kind, outputs, size, corners=corners), rows)
    agreement = None if rows is None else Agreement(rows, written.digits, written.cut)
    if agreement is not None and kind == "boxes":
        evidence = replace(evidence, most=agreement.find_highest())
    intended = OutputRecipe(decoder.settings, evidence, form)
    reproduction = Reproduction(decoder, written)
    if kind == "classes" and rows is None:
        count_of = next(iter(result.arrays.values())).size
        of_vector = replace(evidence, kind="vector", classes=(0, count_of - 1))
        return ArraysTrial(result.arrays, reproduction, "vector"), replace(intended, evidence=of_vector)
    if result.text is not None:
        return TextTrial(result.text, reproduction), intended
    if agreement is not None:
        return RowsTrial(reproduction, agreement, kind == "boxes"), intended
    if kind == "mask":
        return ArraysTrial(result.arrays, reproduction, "mask"), intended
    if kind != "boxes":
        raise UsageError(f"{request.device}: arrays of {', '.join(result.arrays)}; wanted results of {decoder.name}")
    intended = replace(intended, evidence=replace(evidence, kind="decoded"), form=written.form or "xyxy")
    return ArraysTrial(result.arrays, reproduction, "decoded"), intended


def _describe(evidence: DeviceEvidence, rows: Rows | None) -> DeviceEvidence:
    """Returns the evidence with what the device's rows show."""
    if rows is None or not len(rows):
        return evidence
    classes = None if rows.classes is None else (int(rows.classes.min()), int(rows.classes.max()))
    least = float("nan") if rows.scores is None else float(rows.scores.min())
    return replace(evidence, rows=len(rows), least=least, classes=classes)


def _find_size(outputs: dict[str, Output], decoder: Decoder) -> tuple[int, int]:
    """Returns the size of the network's input, as stated or as the decoder finds it; (0, 0) if neither tells."""
    real = {name: output.real() for name, output in outputs.items()}
    if decoder.candidates is not None:
        return decoder.candidates(real, decoder.settings).size
    if decoder.settings.size != (0, 0):
        return decoder.settings.size
    try:
        plain = squeeze_batch(real)
        return find_size(plain, decoder.settings)
    except UsageError:
        shapes = [np.squeeze(v).shape for v in real.values()]
        stride = decoder.settings.strides[0] if len(decoder.settings.strides) == 1 else 1
        return (shapes[0][-1] * stride, shapes[0][-2] * stride) if shapes and len(shapes[0]) >= 2 else (0, 0)

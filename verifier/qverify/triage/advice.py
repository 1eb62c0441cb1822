"""The next step, chosen by the gate that fails and the kind of evidence; and the kind of evidence that the losses
give."""

from __future__ import annotations

from qverify.plural import count
from qverify.report.triage_document import TensorLoss, WhatIf
from qverify.triage.what_if import MAX_TENSORS

CLIPPED = 0.01  # share of a tensor's elements beyond its range, above which it counts as clipped
UNUSED = 0.1  # share of a range that the values reach, below which most of it counts as unused
HARD = 0.1  # share of clipped elements, above which a tensor counts as clipped hard
WIDESPREAD = 0.1  # share of the tensors: if more are clipped hard, the calibration was wrong
LOST = 0.1  # share of output channels with lost weights, above which the weights are blamed

_ROUNDING = "no node is wrong, rounding errors add up: judge by another gate (--gate)"
_STATED = "correct the scale or zero point that the dump states: the integers are right"
_OTHER_INPUTS = "give -i what the device was given, or dump again from this input"
_WRITTEN = "correct the names or the order of axes of the files, as what was found says; no node is known to be wrong"
_INPUT = "compare what the device was fed with -i: `qverify inputs diff`; if the bytes are equal, report the first node"
_OTHER_ROUNDING = "the board rounds in another way than the reference, the same one everywhere: {why}"
_NOT_JUDGED = "give inputs whose values onnxruntime can compute in float32: {why}"
_NOT_FINITE = "find where the first NaN or Inf comes from: {why}"
_REGION = (
    "the nodes between two tensors that it gives, and these tensors, reproduce the fault ({why}); what it gives of the "
    "tensors between them narrows it down"
)
_CONTAINER = "let that runtime write its tensors in the model's shapes and types: {why}"
ADVICE = {  # by the upper stage of the rung, then by the kind of evidence, where "" is any other kind
    "inputs": {"": "fix preprocessing: `qverify inputs diff` names what was done differently"},
    "float": {
        "node": "report to the converter or optimizer team: both float files, this input, and the nodes that fail when forced",
        "": "no tensor in both files differs by itself: report what only one file contains to the converter or optimizer team",
    },
    "quantized": {
        "random": "give real inputs with -i: on noise even a good network loses accuracy ({why})",
        "quiet": "give inputs that the network responds to with -i; if no input makes an output loud, its scale is too large: {why}",
        "too_small": "give inputs that the network responds to with -i, several if possible: {why}",
        "input_range": "fix preprocessing: calibrate with inputs prepared as for inference, and quantize again",
        "clipped": "recalibrate: most ranges are too narrow for these inputs; calibrate with data like them",
        "clipped_output": "recalibrate {tensors} with data like these inputs: {why}",
        "few_clipped": "recalibrate {tensors}: the range is too narrow; or raise these layers to 16 bit with a new range",
        "weights": "quantize the weights per channel, or raise these layers to 16 bit: {tensors}",
        "few": "raise these layers to 16 bit: {tensors}",
        "spread": "recalibrate with more representative data or another method; otherwise use 16 bit or quantization-aware training",
        "": "the loss is not located ({why}): give float and quantized ONNX in -m, without --loss never",
    },
    "integer": {
        "node": "report to the compiler team: the node, model.bin and this input",
        "accumulated_rounding": f"{_ROUNDING}, or compile with another --rounding",
        "does_not_run": "get this side to run first: {why}",
        "coverage": "get this side to produce every output first: {why}",
        "not_judged": _NOT_JUDGED,
        "not_finite": _NOT_FINITE,
        "": "repeat the run; if the difference persists, report it to the compiler team with model.bin and this input",
    },
    "board": {
        "not_deterministic": "the board differs from run to run: look for races, buffers that keep earlier contents, power supply "
        "and clock; `--repeat N` and `qverify soak` show how often, and which bits",
        "node": "report to the team of the board's driver or runtime: the node and its inputs reproduce the fault",
        "region": f"report to the team of the board's driver or runtime: {_REGION}",
        "accumulated_rounding": _ROUNDING,
        "other_rounding": _OTHER_ROUNDING,
        "input_or_first_node": _INPUT,
        "written_order": _WRITTEN,
        "stated_scale": _STATED,
        "other_inputs": _OTHER_INPUTS,
        "optimization": "{why}; leave it out, and report it to the runtime's team with this model and input",
        "untapped": "{why}; its nodes do not show the fault, because reading them changes what the board's runtime computes: run the "
        "unchanged model alone (onnxruntime: -b 'BOARD?form=original'), and leave out or report what changes it; where the QDQ form only rounds "
        "apart, judge its outputs by another gate (--gate)",
        "does_not_run": "reach the board first: {why}",
        "precision": "let the runner print more decimals, or judge by a coarser gate ({why})",
        "container": _CONTAINER,
        "coverage": "get the board to finish its run and send what is missing: {why}",
        "not_judged": _NOT_JUDGED,
        "not_finite": _NOT_FINITE,
        "": "outputs differ, and no node was found that does so by itself; let the board dump its nodes, mend the command of "
        "--build-cmd where it failed, or repeat the run",
    },
    "dump": {
        "does_not_run": "get that runtime to run first: {why}",
        "coverage": "let that runtime also dump what is missing: {why}",
        "not_finite": _NOT_FINITE,
        "container": _CONTAINER,
        "other_model": "dump the same model as -m, with its tensors as it stores them: {why}",
        "input_or_first_node": _INPUT,
        "written_order": _WRITTEN,
        "stated_scale": _STATED,
        "other_inputs": "dump again from these same inputs, or give that dump's inputs with -i",
        "node": "report to the vendor of this runtime: the node computes differently from its own inputs",
        "region": f"report to the vendor of this runtime: {_REGION}",
        "accumulated_rounding": _ROUNDING,
        "other_rounding": _OTHER_ROUNDING,
        "": "let that runtime dump every tensor from these same inputs: {why}",
    },
    "application": {
        "": "fix the application's reading of the outputs or its post-processing: `qverify outputs diff` names what was done differently "
        "(layout, strides, type, scale, order, decoder)"
    },
}


def advice(rung: str, kind: str, tensors: list[str] | None = None, why: str = "") -> str:
    """Returns the next step in one sentence. rung: a key of ADVICE. kind: kind of evidence. tensors: those to blame.
    why: details that some sentences contain."""
    named = ", ".join(tensors or []) or "the tensors above"
    return ADVICE[rung].get(kind, ADVICE[rung][""]).format(tensors=named, why=why or "see above")


def loss_kind(losses: list[TensorLoss], tested: WhatIf | None, network_inputs: list[str]) -> str:
    """Returns the kind of evidence (a key of ADVICE["quantized"]) for a failed gate between float and quantized.
    losses: the worst first."""
    ranked = [row for row in losses if row.single is not None]
    if not ranked:
        return "outputs"
    first = ranked[0]
    if first.tensor in network_inputs and (first.clipped > CLIPPED or first.used < UNUSED):
        return "input_range"
    if sum(row.clipped > HARD for row in losses) > max(MAX_TENSORS, WIDESPREAD * len(losses)):
        return "clipped"
    if first.weights_one_scale and first.channels_lost > LOST:
        return "weights"
    few = tested.steps[-1].tensors if tested is not None and tested.holds and tested.steps else []
    if not few:
        return "spread"
    clipped = {row.tensor for row in losses if row.clipped > CLIPPED / 10}
    return "few_clipped" if all(name in clipped for name in few) else "few"


def loss_evidence(losses: list[TensorLoss]) -> list[str]:
    """Returns the facts about the most sensitive tensor and the losses of all, one per line."""
    ranked = [row for row in losses if row.single is not None]
    if not ranked:
        return []
    first = ranked[0]
    assert first.single is not None
    lines = [
        f"{first.tensor} ({first.op or 'input'}) quantized alone: {first.single.worst_output} has cosine {first.single.cosine:.4f}"
    ]
    covers = f"its quantized range is {first.low:.4g} .. {first.high:.4g}, its float values {first.float_low:.4g} .. {first.float_high:.4g}"
    if first.clipped > 0:
        lines.append(f"{covers}: {first.clipped:.2%} of its elements are clipped")
    elif first.used < UNUSED:
        lines.append(f"{covers}: {first.used:.1%} of its range is used")
    if first.weights_one_scale and first.channels_lost > 0:
        lines.append(
            f"its weights have one scale for all channels: {first.channels_lost:.0%} of the channels are below 20 dB"
        )
    clipped = sum(row.clipped > CLIPPED for row in losses)
    if clipped > 1:
        lines.append(
            f"{clipped} of {count(len(losses), 'tensor')} have more than {CLIPPED:.0%} of their elements clipped"
        )
    drops = [(row.drop_db, row.tensor, row.op) for row in losses if row.drop_db is not None and row.drop_db > 6]
    if drops:
        most, tensor, op = max(drops)
        lines.append(f"largest step of the accumulated loss: {most:.1f} dB at {tensor} ({op})")
    return lines

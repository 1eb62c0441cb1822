"""The next step, from the rung that breaks and the kind of evidence; and which kind the losses are."""

from __future__ import annotations

from qverify.report.triage_document import TensorLoss, WhatIf
from qverify.triage.what_if import MOST

CLIPPED, UNUSED = 0.01, 0.1  # shares: of elements beyond the range, of the range that is reached
HARD, WIDESPREAD = (
    0.1,
    0.1,
)  # share of a tensor's elements, and of the tensors: clipped in so many, calibration was wrong
LOST = 0.1  # share of output channels whose weights are lost

_ROUNDING = "no node is wrong, rounding adds up: judge by another gate (--gate)"
_NOT_FINITE = "find where the first NaN or Inf comes from: {why}"
ADVICE = {  # what the upper stage is, then the kind of evidence; "" is for any other kind
    "inputs": {"": "fix preprocessing: `qverify inputs diff` names what was done otherwise"},
    "float": {
        "node": "report to the converter or optimizer team: both float files, this input, the nodes that fail forced",
        "": "no tensor of both files differs by itself: report what only one has to the converter or optimizer team",
    },
    "quantized": {
        "random": "give real inputs with -i: on noise a good network loses, too ({why})",
        "quiet": "give inputs that the network answers to, with -i; if no input makes an output loud, its scale is too large: {why}",
        "too_small": "give inputs that the network answers to, with -i, more of them at best: {why}",
        "input_range": "fix preprocessing: calibrate with inputs prepared as the network is fed, and quantize again",
        "clipped": "recalibrate: most ranges are too narrow for these inputs; calibrate with data like them",
        "few_clipped": "recalibrate {tensors}: the range is too narrow; or raise these layers to 16 bit with a new range",
        "weights": "quantize the weights per channel, or raise these layers to 16 bit: {tensors}",
        "few": "raise these layers to 16 bit: {tensors}",
        "spread": "recalibrate with more representative data or another method; else 16 bit or quantization-aware training",
        "": "the loss is not located ({why}): give float and quantized ONNX in -m, without --loss never",
    },
    "integer": {
        "node": "report to the compiler team: the node, model.bin and this input",
        "accumulated_rounding": f"{_ROUNDING}, or compile with another --rounding",
        "does_not_run": "make this side run first: {why}",
        "coverage": "make this side give every output first: {why}",
        "not_finite": _NOT_FINITE,
        "": "repeat the run; if it stays, report to the compiler team with model.bin and this input",
    },
    "board": {
        "not_deterministic": "the board is not the same from run to run: look for races, buffers that keep what was there before, supply "
        "and clock; `--repeat N` and `qverify soak` show how often and which bits",
        "node": "report the driver or the runtime of the board: the node and its inputs reproduce it",
        "accumulated_rounding": _ROUNDING,
        "does_not_run": "reach the board first: {why}",
        "coverage": "make the board run to its end and send what is missing: {why}",
        "not_finite": _NOT_FINITE,
        "": "report the driver: outputs differ, but no node does by itself; let the board dump its nodes, or repeat the run",
    },
    "dump": {
        "coverage": "let that runtime dump what is missing, too: {why}",
        "not_finite": _NOT_FINITE,
        "other_model": "dump the very model of -m, as it stores its tensors: {why}",
        "other_inputs": "dump once more from these very inputs, or give that dump's own with -i",
        "node": "report to the vendor of this runtime: the node computes otherwise from its own inputs",
        "accumulated_rounding": _ROUNDING,
        "": "let that runtime dump every tensor, from these very inputs: {why}",
    },
    "application": {
        "": "fix the application's reading of the outputs or its post-processing: layout, strides, type, scale, order"
    },
}


def advice(rung: str, kind: str, tensors: list[str] | None = None, why: str = "") -> str:
    """rung: a key of ADVICE. tensors: the culprits."""
    named = ", ".join(tensors or []) or "the tensors above"
    return ADVICE[rung].get(kind, ADVICE[rung][""]).format(tensors=named, why=why or "see above")


def loss_kind(losses: list[TensorLoss], tested: WhatIf | None, network_inputs: list[str]) -> str:
    """What the losses say of a broken float ~ quantized rung. losses: ranked, the worst first."""
    ranked = [row for row in losses if row.single is not None]
    if not ranked:
        return "outputs"
    first = ranked[0]
    if first.tensor in network_inputs and (first.clipped > CLIPPED or first.used < UNUSED):
        return "input_range"
    if sum(row.clipped > HARD for row in losses) > max(MOST, WIDESPREAD * len(losses)):
        return "clipped"
    if first.weights_one_scale and first.channels_lost > LOST:
        return "weights"
    few = tested.steps[-1].tensors if tested is not None and tested.holds and tested.steps else []
    if not few:
        return "spread"
    clipped = {row.tensor for row in losses if row.clipped > CLIPPED / 10}
    return "few_clipped" if all(name in clipped for name in few) else "few"


def loss_evidence(losses: list[TensorLoss]) -> list[str]:
    """The facts of the most sensitive tensor, a line each."""
    ranked = [row for row in losses if row.single is not None]
    if not ranked:
        return []
    first = ranked[0]
    assert first.single is not None
    lines = [
        f"{first.tensor} ({first.op or 'input'}) quantized alone: {first.single.worst_output} has cosine {first.single.cosine:.4f}"
    ]
    covers = f"quantized it covers {first.low:.4g} .. {first.high:.4g}, in float it is {first.float_low:.4g} .. {first.float_high:.4g}"
    if first.clipped > 0:
        lines.append(f"{covers}: {first.clipped:.2%} of its elements are clipped")
    elif first.used < UNUSED:
        lines.append(f"{covers}: {first.used:.1%} of its range is used")
    if first.weights_one_scale and first.channels_lost > 0:
        lines.append(f"its weights have one scale for all channels: {first.channels_lost:.0%} of these are below 20 dB")
    clipped = sum(row.clipped > CLIPPED for row in losses)
    if clipped > 1:
        lines.append(f"{clipped} of {len(losses)} tensors have more than {CLIPPED:.0%} of their elements clipped")
    drops = [row for row in losses if row.drop_db is not None and row.drop_db > 6]
    if drops:
        most = max(drops, key=lambda row: (row.drop_db or 0.0, row.tensor))
        lines.append(f"largest step of the accumulated loss: {most.drop_db:.1f} dB at {most.tensor} ({most.op})")
    return lines

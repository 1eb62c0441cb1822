"""The next step, from the rung that breaks and the kind of evidence; and which kind the losses are."""

from __future__ import annotations

from qverify.report.triage import TensorLoss, WhatIf

CLIPPED, UNUSED = 0.01, 0.1  # shares: of elements beyond the range, of the range that is reached
WIDESPREAD = 0.25  # share of tensors that are clipped
LOST = 0.1  # share of output channels whose weights are lost

ADVICE = {
    ("inputs", "differ"): "fix preprocessing: `qverify inputs diff` names what was done otherwise",
    (
        "float",
        "outputs",
    ): "report to the converter or optimizer team, with both float files, this input and the first divergence",
    (
        "quantized",
        "input_range",
    ): "fix preprocessing: calibrate with inputs prepared as the network is fed, and quantize again",
    ("quantized", "clipped"): "recalibrate: most ranges are too narrow for these inputs; calibrate with data like them",
    (
        "quantized",
        "few_clipped",
    ): "recalibrate {tensors}: the range is too narrow; or raise these layers to 16 bit with a new range",
    ("quantized", "weights"): "quantize the weights per channel, or raise these layers to 16 bit: {tensors}",
    ("quantized", "few"): "raise these layers to 16 bit: {tensors}",
    (
        "quantized",
        "spread",
    ): "recalibrate with more representative data or another method; if that does not help, 16 bit or quantization-aware training",
    ("quantized", "outputs"): "the loss could not be located: {why}",
    ("integer", "node"): "report to the compiler team: the node, model.bin and this input",
    (
        "integer",
        "accumulated_rounding",
    ): "no node is wrong, rounding adds up: judge by another gate (--gate), or compile with another --rounding",
    ("integer", "unlocated"): "repeat the run; if it stays, report to the compiler team with model.bin and this input",
    ("integer", "does_not_run"): "make this side run first: {why}",
    ("board", "node"): "report the driver or the runtime of the board: the node and its inputs reproduce it",
    ("board", "accumulated_rounding"): "no node is wrong, rounding adds up: judge by another gate (--gate)",
    (
        "board",
        "unlocated",
    ): "report the driver: outputs differ, but no node could be recomputed alone; let the board dump its nodes, or repeat the run",
    ("board", "does_not_run"): "reach the board first: {why}",
    ("dump", "node"): "report to the vendor of this runtime: the node computes otherwise from its own inputs",
    (
        "application",
        "outputs",
    ): "fix the application's reading of the outputs or its post-processing: layout, strides, type, scale, order",
}
DEFAULT = "read the evidence above; report it with the models and this input"


def advice(rung: str, kind: str, tensors: list[str] | None = None, why: str = "") -> str:
    """rung: inputs, float, quantized, integer, board, dump, application: what the upper stage is."""
    named = ", ".join(tensors or []) or "the tensors above"
    return ADVICE.get((rung, kind), ADVICE.get((rung, "outputs"), DEFAULT)).format(
        tensors=named, why=why or "see above"
    )


def loss_kind(losses: list[TensorLoss], tested: WhatIf | None, network_inputs: list[str]) -> str:
    """What the losses say of a broken float ~ quantized rung. losses: ranked, the worst first."""
    ranked = [row for row in losses if row.single is not None]
    if not ranked:
        return "outputs"
    first = ranked[0]
    if first.tensor in network_inputs and (first.clipped > CLIPPED or first.used < UNUSED):
        return "input_range"
    if sum(row.clipped > CLIPPED for row in losses) > WIDESPREAD * len(losses):
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

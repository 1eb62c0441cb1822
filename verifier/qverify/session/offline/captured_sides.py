"""The sides of a captured run: read, checked against the models and inputs, and completed by what the host computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from qverify.capture.layouts import check_layouts
from qverify.capture.reader import Capture
from qverify.capture.rows import MAX_ENGINES, SIDES, is_engine_side
from qverify.plural import count
from qverify.session.captured_runtime import OURS, identify_runtime
from qverify.session.models import Models
from qverify.sides.host_islands import compute_islands
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import NO_VALUES, NOT_LISTED, Array, Recording, Tensors


def read_sides(
    capture: Capture, number: int, models: Models, prepared: PreparedInputs, run_sim: bool
) -> dict[str, Recording]:
    """Returns the captured sides of a frame. A side that ran another model or other inputs counts as not run, and so
    does a side of the run that the capture lacks."""
    sides = {n: r for n, r in capture.recordings(number).items() if run_sim or r.side != "simulator"}
    for name in captured_sides(capture):
        if name not in sides and (run_sim or name != "simulator"):
            sides[name] = Recording(name, "", capabilities=frozenset({"per_node"}), state="did not run")
            sides[name].is_engine = name not in SIDES
            sides[name].why = f"the capture contains no {name}, though the run had one"
    for side in sides.values():
        _drop_island_tensors(side, models)
        if side.state == "partial" and not side.missing:
            side.missing = {n: side.why or "its run broke off" for n in side.finals}
            side.tensors, side.digests = Tensors({}), {}
        identify_runtime(side, capture.stated_kernels(number, side.side), models)
        if why := _find_mismatch(side, capture, models, prepared):
            side.state, side.why, side.tensors, side.digests = "did not run", why, {}, {}
            side.missing = dict.fromkeys(side.specs, why)
        else:
            check_layouts(capture, side, models.graph, capture.stated_forms(number, side.side))
    _add_missing(sides, models)
    for side in sides.values():
        _compute_islands(side, models, prepared)
    return sides


def captured_sides(capture: Capture) -> list[str]:
    """Returns the names of the sides that the captured run had."""
    kinds = {row["kind"] for row in capture.models.values()}
    is_present = {
        "reference": not kinds.isdisjoint(("quant.onnx", "tflite")) and capture.command.get("run_reference", True),
        "simulator": capture.command.get("run_sim", True),
        "board": capture.command.get("board"),
    }
    stated = capture.command.get("engines")
    engines = [n for n in stated[:MAX_ENGINES] if is_engine_side(n)] if isinstance(stated, list) else []
    return [*(name for name, present in is_present.items() if present), *engines]


def _drop_island_tensors(side: Recording, models: Models) -> None:
    """Removes from a captured side the tensors that host islands compute, and notes it. A capture does not store such
    tensors: they are computed again from the islands' inputs."""
    made = {n for island in models.graph.islands for n in island.made}
    present = [n for n in dict.fromkeys((*side.tensors, *side.digests)) if n in made]
    if present:
        tensors = count(len(present), "tensor")
        side.notes.append(f"not used: {present[0]} in the capture ({tensors} that the host computes)")
    side.tensors = Tensors({n: partial(side.tensors.__getitem__, n) for n in side.tensors if n not in made})
    side.specs, side.digests, side.missing = (
        {n: v for n, v in side.specs.items() if n not in made},
        {n: v for n, v in side.digests.items() if n not in made},
        {n: v for n, v in side.missing.items() if n not in made},
    )


def _compute_islands(side: Recording, models: Models, prepared: PreparedInputs) -> None:
    """Adds the tensors that the host islands compute from a captured side's tensors. If onnxruntime fails, they are
    missing and the side is partial."""
    if models.islands is None:
        return
    computed, failed = compute_islands(models.graph, models.islands, prepared.arrays(), side.tensors)
    side.tensors = Tensors({**{n: partial(side.tensors.__getitem__, n) for n in side.tensors}, **_loaders(computed)})
    side.missing |= failed
    if failed and side.state == "complete":
        name, why = next(iter(failed.items()))
        side.state, side.why = "partial", f"{name}: {why}"


def _loaders(values: Mapping[str, Array]) -> dict[str, Callable[[], Array]]:
    return {name: partial(values.__getitem__, name) for name in values}


def _find_mismatch(side: Recording, capture: Capture, models: Models, prepared: PreparedInputs) -> str:
    """Returns why a captured side is not a run of these models on these inputs; "" if it is."""
    if side.inputs_sha256 != prepared.sha256 and side.state not in NO_VALUES:
        return f"the captured {side.side} was computed from other inputs (their hash differs)"
    kind = "model.bin" if side.side != "reference" else "quant.onnx" if models.alone is None else "tflite"
    if side.side == "board" and side.runtime != OURS:
        return ""  # identify_runtime found the runtime by the hash of the model, so that it is one of these models
    ran = {row["sha256"] for row in capture.models.values() if row["kind"] == kind}
    now = {row["sha256"] for row in models.rows if row["kind"] == kind}
    if kind == "model.bin":
        now = {models.binary_sha256}
        ran = {side.model_sha256} if side.model_sha256 else ran
    if ran != now:
        return f"the captured {side.side} ran another {kind}; run it again (--rerun reference,simulator, -b BOARD)"
    return ""


def _add_missing(sides: dict[str, Recording], models: Models) -> None:
    """Marks every tensor that a side should have, but the capture does not list, as missing, so that the comparison
    counts it."""
    graph = models.graph
    for side in sides.values():
        side.finals = graph.outputs
        expected = (
            graph.observable()
            if "per_node" in side.capabilities
            else [n for n in graph.outputs if n not in graph.inputs]
        )
        for name in expected:
            if name not in side.specs:
                side.specs[name] = graph.spec(name)
                side.missing[name] = NOT_LISTED
        if side.missing and side.state == "complete":
            side.state, side.why = "partial", f"{count(len(side.missing), 'tensor', 'is', 'are')} not in the capture"

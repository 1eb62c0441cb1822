"""Writes every network in every style."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from . import blockwise, styles_files, styles_onnxruntime, styles_tools
from .builder import Array, Inputs
from .networks import NETWORKS, Network, half_of
from .rewrite import sort
from .subject import NotApplicable, Style, Subject, session

STYLES: list[Style] = [*styles_onnxruntime.STYLES, *styles_tools.STYLES, *blockwise.STYLES, *styles_files.STYLES]
INTEGER_OPERATORS = {
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul",
    "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul", "QGemm", "MatMulNBits", "QAttention",
}  # fmt: skip


def is_quantized(model: onnx.ModelProto) -> bool:
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return any(node.op_type in INTEGER_OPERATORS for node in nodes)


def save(model: onnx.ModelProto, path: Path, style: Style) -> None:
    """Writes the file, and for external data all weights above 256 bytes beside it, as torch does."""
    data = path.with_name(f"{path.name}.data")
    data.unlink(missing_ok=True)
    if style.external_data:
        onnx.save(model, path, save_as_external_data=True, location=data.name, size_threshold=256)
    else:
        onnx.save(model, path)


def check(path: Path, style: Style) -> None:
    """onnx.checker, on a sorted copy where the order of nodes is wrong on purpose."""
    if style.sorted_nodes:
        onnx.checker.check_model(path)
        return
    model = onnx.load(path)
    known = {item.name for item in [*model.graph.initializer, *model.graph.input]}
    nodes = sort(list(model.graph.node), known)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model)


def distance(wanted: list[Array], got: list[Array]) -> float:
    """Greatest difference of the float outputs, relative to their greatest value; for the reader, not a test."""
    pairs = [
        (a, b) for a, b in zip(wanted, got, strict=True) if a.dtype == np.float32 and a.shape == b.shape and a.size
    ]
    return max((float(np.abs(a - b).max() / (np.abs(a).max() + 1e-6)) for a, b in pairs), default=0.0)


def write(subject: Subject, style: Style, inputs: Inputs, wanted: list[Array], folder: Path) -> dict[str, object]:
    """One file, checked and run; the row says what came of it."""
    path = folder / f"{subject.name}.{style.name}.onnx"
    row: dict[str, object] = {"network": subject.name, "style": style.name, "half": half_of(subject.name)}
    try:
        model = style.apply(subject)
        if not is_quantized(model):
            raise NotApplicable("the tool finds nothing to quantize")
        save(model, path, style)
        check(path, style)
        got = session(str(path)).run(None, inputs)
    except NotApplicable as reason:
        return {**row, "skipped": str(reason)}
    except Exception as error:  # whatever a tool or the runtime raises is a row of the table
        for rest in (path, path.with_name(f"{path.name}.data")):
            rest.unlink(missing_ok=True)
        return {**row, "failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    size = path.stat().st_size
    return {**row, "bytes": size, "nodes": len(model.graph.node), "distance": round(distance(wanted, got), 4)}


def network_rows(network: Network, styles: list[Style], folder: Path) -> list[dict[str, object]]:
    subject = Subject(network)
    inputs = network.test_inputs()
    np.savez(folder / f"{network.name}.npz", allow_pickle=False, **inputs)
    wanted = session(subject.raw).run(None, inputs)
    rows = []
    for style in styles:
        rows.append(write(subject, style, inputs, wanted, folder))
        print("  ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    return rows


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the files")
    parser.add_argument("--only", action="append", help="a network; may be repeated")
    parser.add_argument("--style", action="append", help="a style; may be repeated")
    options = parser.parse_args(argv)
    for asked, known in [(options.only, [n.name for n in NETWORKS]), (options.style, [s.name for s in STYLES])]:
        unknown = sorted(set(asked or []) - set(known))
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    onnxruntime.set_default_logger_severity(4)
    options.out.mkdir(parents=True, exist_ok=True)
    styles = [style for style in STYLES if not options.style or style.name in options.style]
    started = time.process_time()
    rows = []
    for network in NETWORKS:
        if not options.only or network.name in options.only:
            rows += network_rows(network, styles, options.out)
    if not options.only and not options.style:
        (options.out / "MADE.json").write_text(json.dumps(rows, indent=1) + "\n")
    counts = {word: sum(word in row for row in rows) for word in ("bytes", "skipped", "failed")}
    print(f"{counts['bytes']} files, {counts['skipped']} not applicable, {counts['failed']} failed, "
          f"{time.process_time() - started:.0f} s of processor time")  # fmt: skip

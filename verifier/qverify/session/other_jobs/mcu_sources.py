"""Writes the C sources of an agent for a microcontroller, with the ops of some models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qverify_agents.emulation.mcu_sources import known_ops, sources_root, write_firmware, write_sources

from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.compiler.firmware_network import network_text
from qverify.errors import UsageError
from qverify.model_bin.records import decode
from qverify.onnx_model.load import read_file
from qverify.session.model_file import kind_of


@dataclass(frozen=True, slots=True)
class McuSources:
    """The sources that were written. ops: names of the ops that the agent has. files: number of C files. flash_bytes: size of the
    models that are linked into the program."""

    ops: tuple[str, ...]
    files: int
    flash_bytes: int


def write_mcu_sources(folder: str, models: Sequence[str], every_op: bool, in_flash: bool) -> McuSources:
    """Writes the sources into a folder that does not exist or is empty. models: paths of model.bin files. every_op: the
    agent has all ops, not only those of the models. in_flash: the models are linked into the program. Raises UsageError,
    BadFileError."""
    path = _empty(folder)
    if not models and not every_op:
        raise UsageError("qverify mcu: no model; give --model M.bin, or --every-op")
    contents = {model: read_file(model) for model in models}
    for model, data in contents.items():
        if (kind := kind_of(model, data)) != "model.bin":
            raise UsageError(f"{model}: {kind}; wanted a model.bin. Next: qverify compile {model} -o M.bin")
    known = known_ops(sources_root())
    ops = set(known) if every_op else {node.op for data in contents.values() for node in decode(data).nodes}
    if unknown := sorted(ops - set(known)):
        raise UsageError(f"{models[0]}: the agent has no op {unknown[0]}")
    path.mkdir(parents=True, exist_ok=True)
    files = write_sources(path, sorted(ops), {Path(m).name: data for m, data in contents.items()} if in_flash else {})
    flash_bytes = sum(map(len, contents.values())) if in_flash else 0
    return McuSources(tuple(sorted(ops)), len(files), flash_bytes)


def write_example_firmware(folder: str, onnx: str, fault: str) -> int:
    """Writes the sources of the example firmware with the network of a quantized ONNX, and returns the number of C files.
    fault: name of a tensor whose layer gets a wrong bias, or "". Raises UsageError, BadFileError."""
    path, data = _empty(folder), read_file(onnx)
    if (kind := kind_of(onnx, data)) != "quant.onnx":
        raise UsageError(f"{onnx}: {kind}; wanted a quantized ONNX")
    graph = compile_model(data, Path(onnx).name, CompilerOptions(check=False)).graph
    network = network_text(graph, fault)
    path.mkdir(parents=True, exist_ok=True)
    return len(write_firmware(path, network))


def _empty(folder: str) -> Path:
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{folder}: wanted a folder that does not exist or is empty")
    return path

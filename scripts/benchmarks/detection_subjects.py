"""The networks of the detection bench: each opened once, its host sides kept for a few seeded inputs, boards judged
against them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs import picture
from qverify.inputs.prepare import quantization_of, random_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import Unit, units
from qverify.report.document import Report
from qverify.session.host_sides import HostSides, SideResults
from qverify.session.models import Models, open_models
from qverify.session.report import make_report
from qverify.sides.board import Board
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Recording

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT.parent / "shared" / "models"
PHOTOS = REAL / "inputs" / "images"
WANTED = {
    "digits": ROOT / "verifier" / "qverify" / "example" / "digits_quant.onnx",
    "ad_toycar_s8s8": REAL / "ad_toycar" / "ad_toycar_s8s8_qdq.onnx",
    "ad_toycar_tfl": REAL / "ad_toycar" / "ad_toycar_tfl_int8_qdq.onnx",
    "kws_u8s8": REAL / "kws_dscnn" / "kws_dscnn_u8s8_qdq.onnx",
    "kws_s8s8": REAL / "kws_dscnn" / "kws_dscnn_s8s8_qdq.onnx",
    "kws_tfl": REAL / "kws_mlperf_int8" / "kws_mlperf_int8_tfl_int8_qdq.onnx",
    "resnet8_u8s8": REAL / "resnet8_cifar10" / "resnet8_cifar10_u8s8_qdq.onnx",
    "resnet8_tfl": REAL / "resnet8_cifar10" / "resnet8_cifar10_tfl_int8_qdq.onnx",
    "vww_u8s8": REAL / "vww_96" / "vww_96_u8s8_qdq.onnx",
    "vww_tfl": REAL / "vww_96" / "vww_96_tfl_int8_qdq.onnx",
    "mbv1_025_128_qat": REAL / "mbv1_025_128_qat" / "mbv1_025_128_qat_tfl_int8_qdq.onnx",
    "yunet_u8s8": REAL / "yunet_n_320" / "yunet_n_320_u8s8_qdq.onnx",
    "mbv1_025_224_u8s8": REAL / "mbv1_025_224" / "mbv1_025_224_u8s8_qdq.onnx",
}
DEADLINE_S = 30.0
KEPT_BYTES = 100_000_000  # of a network's host runs; the oldest go


@dataclass(frozen=True, slots=True)
class Judged:
    """A report with what it was made from, the board still there."""

    report: Report
    prepared: PreparedInputs
    board: Recording
    pull: Any
    before: PreparedInputs | None
    connected: Board


Explain = Callable[["Subject", Judged], Any]


@dataclass
class Subject:
    """rounding: of its model.bin; the reference is onnxruntime's integer kernels always."""

    name: str
    path: Path
    rounding: str = "ref-exact"
    models: Models = field(init=False)
    units: list[Unit] = field(init=False)

    def __post_init__(self) -> None:
        self.models = _opened(self.path, self.rounding)
        self.units = units(self.models.graph)
        self._host = HostSides(self.models)
        self._ran: dict[str, SideResults] = {}

    @property
    def graph(self) -> Graph:
        return self.models.graph

    def unit_of(self, node: str) -> str:
        """The name a blame must give."""
        return next(u.name for u in self.units if any(n.name == node for n in u.nodes))

    def inputs(self, source: str) -> PreparedInputs:
        """`random:SEED`, or a photo's name; a photo fills the range of each float input of four dims."""
        kind, _, seed = source.partition(":")
        made = random_inputs(self.graph, int(seed or 0))
        if kind == "random":
            return made
        return PreparedInputs(tuple(_photo(self.graph, item, PHOTOS / source) for item in made.inputs))

    def sources(self, seeds: int) -> list[str]:
        """What the bench feeds it."""
        spec = self.graph.spec(self.graph.inputs[0])
        photos = sorted(p.name for p in PHOTOS.glob("*.jpg")) if len(spec.shape) == 4 and spec.shape[1] == 3 else []
        return [f"random:{i}" for i in range(seeds)] + photos

    def host(self, prepared: PreparedInputs) -> SideResults:
        key = prepared.sha256
        if key not in self._ran:
            size = 2 * sum(self.graph.spec(n).elements for n in self.graph.observable())
            while len(self._ran) * size > KEPT_BYTES:
                del self._ran[next(iter(self._ran))]
            self._ran[key] = self._host.run(prepared, True)
        kept = self._ran[key]
        return replace(kept, recordings=dict(kept.recordings))

    def judge(self, prepared: PreparedInputs, board: Recording, pull: Any = None) -> Report:
        ran = self.host(prepared)
        ran.recordings["board"] = board
        return make_report(self.models, prepared, ran, Options(dump_all=True), pull)

    def on(
        self, uri: str, prepared: PreparedInputs, before: PreparedInputs | None = None, explain: Explain | None = None
    ) -> tuple[Report, Recording, Any]:
        """before: the frame that the board ran first. explain: asked while the board can still be reached."""
        there = Board(uri, self.models.binary, self.graph, DEADLINE_S)
        try:
            if before is not None:
                there.run(before)
            recording = there.run(prepared)
            report = self.judge(prepared, recording, there.pull)
            said = explain(self, Judged(report, prepared, recording, there.pull, before, there)) if explain else None
            return report, recording, said
        finally:
            there.close()


def _opened(path: Path, rounding: str) -> Models:
    if rounding == "ref-exact":
        return open_models([str(path)])
    with tempfile.TemporaryDirectory(prefix="qverify-detection-") as folder:
        binary = Path(folder) / "model.bin"
        options = CompilerOptions(rounding=rounding, check=False)
        binary.write_bytes(encode(compile_model(path.read_bytes(), path.name, options).graph))
        return open_models([str(path), str(binary)])


def _photo(graph: Graph, item: PreparedInput, photo: Path) -> PreparedInput:
    """Cut to size by nearest pixels and spread over the input's quantized range."""
    known = quantization_of(graph, item.spec.name)
    if known is None or item.spec.dtype != "float32" or len(item.spec.shape) != 4:
        return item
    limits, scale = np.iinfo(known.dtype), known.scale[0]
    _, channels, height, width = item.spec.shape
    rgb = picture.read(str(photo))
    rows, columns = (np.arange(size) * have // size for size, have in zip((height, width), rgb.shape[:2], strict=True))
    pixels = rgb[rows][:, columns, :channels].transpose(2, 0, 1)[None].astype(np.float32)
    low = (limits.min - known.zero_point[0]) * scale
    values = (low + pixels * scale * (limits.max - limits.min) / 255).astype(np.float32)
    return PreparedInput(item.spec, item.spec.aligned_bytes(values), photo.name)


def subjects(only: list[str] | None = None) -> tuple[list[Subject], dict[str, str]]:
    """Those that are there, and why the others are not."""
    chosen = {n: p for n, p in WANTED.items() if not only or n in only}
    there = [Subject(n, p) for n, p in chosen.items() if p.is_file()]
    return there, {n: f"{p} is not there" for n, p in chosen.items() if not p.is_file()}

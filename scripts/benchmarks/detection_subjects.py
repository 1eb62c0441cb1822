"""The networks of the detection bench. Each is opened once; its host sides are run once per input, and boards are
compared with them."""

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
from qverify.inputs.random_inputs import quantization_of, random_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import Unit, units
from qverify.report.document import ReportDocument
from qverify.session.host_sides import HostSides, SideResults
from qverify.session.make_report import make_report
from qverify.session.models import Models, open_models
from qverify.sides.board import Board
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Recording

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT.parent / "shared" / "models"
PHOTOS = REAL / "inputs" / "images"
MODELS = {
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
MAX_KEPT_BYTES = 100_000_000  # of a network's host runs; the oldest are dropped


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A report with what it was made from, while the board is still connected.

    before: the inputs that the board ran first, None if none.
    """

    report: ReportDocument
    prepared: PreparedInputs
    board: Recording
    pull: Any
    before: PreparedInputs | None
    connected: Board


Explain = Callable[["Subject", JudgedRun], Any]


@dataclass
class Subject:
    """One network.

    rounding: the rounding mode of its model.bin; the reference always uses onnxruntime's integer kernels.
    """

    name: str
    path: Path
    rounding: str = "ref-exact"
    models: Models = field(init=False)
    units: list[Unit] = field(init=False)

    def __post_init__(self) -> None:
        self.models = _open(self.path, self.rounding)
        self.units = units(self.models.graph)
        self._host = HostSides(self.models)
        self._ran: dict[str, SideResults] = {}

    @property
    def graph(self) -> Graph:
        return self.models.graph

    def unit_of(self, node: str) -> str:
        """Returns the unit of a node, which is the name in a blame."""
        return next(u.name for u in self.units if any(n.name == node for n in u.nodes))

    def inputs(self, source: str) -> PreparedInputs:
        """Returns the inputs named `random:SEED` or after a photo. A photo fills the range of each float input of four
        dims."""
        kind, _, seed = source.partition(":")
        prepared = random_inputs(self.graph, int(seed or 0))
        if kind == "random":
            return prepared
        return PreparedInputs(tuple(_photo(self.graph, item, PHOTOS / source) for item in prepared.inputs))

    def sources(self, seeds: int) -> list[str]:
        """Returns the names of the inputs that the bench uses."""
        spec = self.graph.spec(self.graph.inputs[0])
        photos = sorted(p.name for p in PHOTOS.glob("*.jpg")) if len(spec.shape) == 4 and spec.shape[1] == 3 else []
        return [f"random:{i}" for i in range(seeds)] + photos

    def host(self, prepared: PreparedInputs) -> SideResults:
        """Returns the results of reference and simulator, computed once per input."""
        key = prepared.sha256
        if key not in self._ran:
            size = 2 * sum(self.graph.spec(n).elements for n in self.graph.observable())
            while len(self._ran) * size > MAX_KEPT_BYTES:
                del self._ran[next(iter(self._ran))]
            self._ran[key] = self._host.run(prepared, True)
        kept = self._ran[key]
        return replace(kept, recordings=dict(kept.recordings))

    def judge(self, prepared: PreparedInputs, board: Recording, pull: Any = None) -> ReportDocument:
        """Compares a board's recording with the host sides."""
        ran = self.host(prepared)
        ran.recordings["board"] = board
        return make_report(self.models, prepared, ran, Options(dump_all=True), pull)

    def run_board(
        self, uri: str, prepared: PreparedInputs, before: PreparedInputs | None = None, explain: Explain | None = None
    ) -> tuple[ReportDocument, Recording, Any]:
        """Runs a board and returns the report, the recording and the result of `explain`.

        before: inputs that the board runs first. explain: called while the board is still connected."""
        board = Board(uri, self.models.binary, self.graph, DEADLINE_S)
        try:
            if before is not None:
                board.run(before)
            recording = board.run(prepared)
            report = self.judge(prepared, recording, board.pull)
            judged = JudgedRun(report, prepared, recording, board.pull, before, board)
            return report, recording, explain(self, judged) if explain else None
        finally:
            board.close()


def _open(path: Path, rounding: str) -> Models:
    if rounding == "ref-exact":
        return open_models([str(path)])
    with tempfile.TemporaryDirectory(prefix="qverify-detection-") as folder:
        binary = Path(folder) / "model.bin"
        options = CompilerOptions(rounding=rounding, check=False)
        binary.write_bytes(encode(compile_model(path.read_bytes(), path.name, options).graph))
        return open_models([str(path), str(binary)])


def _photo(graph: Graph, item: PreparedInput, photo: Path) -> PreparedInput:
    """Returns the photo resized by nearest pixels and scaled to the input's quantized range."""
    quantization = quantization_of(graph, item.spec.name)
    if quantization is None or item.spec.dtype != "float32" or len(item.spec.shape) != 4:
        return item
    limits, scale = np.iinfo(quantization.dtype), quantization.scale[0]
    _, channels, height, width = item.spec.shape
    rgb = picture.read(str(photo))
    rows, columns = (
        np.arange(size) * source // size for size, source in zip((height, width), rgb.shape[:2], strict=True)
    )
    pixels = rgb[rows][:, columns, :channels].transpose(2, 0, 1)[None].astype(np.float32)
    low = (limits.min - quantization.zero_point[0]) * scale
    values = (low + pixels * scale * (limits.max - limits.min) / 255).astype(np.float32)
    return PreparedInput(item.spec, item.spec.aligned_bytes(values), photo.name)


def subjects(only: list[str] | None = None) -> tuple[list[Subject], dict[str, str]]:
    """Returns the networks whose files exist, and for each other one the reason why it is skipped."""
    chosen = {n: p for n, p in MODELS.items() if not only or n in only}
    existing = [Subject(n, p) for n, p in chosen.items() if p.is_file()]
    return existing, {n: f"{p} is not there" for n, p in chosen.items() if not p.is_file()}

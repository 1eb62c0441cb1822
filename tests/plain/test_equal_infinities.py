"""Equal infinities inside a network, such as those of an attention mask, agree; everything else that is not finite does what it
did: NaN is never PASSED, nor an infinity in a final output, on one side, of the other sign or elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.report.document import ReportDocument
from qverify.session.job import verify
from qverify.session.request import Request
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording

from tests.ops.qdq import Qdq
from tests.plain.three_sides import ALL, floats, spec

INF, NAN = np.inf, np.nan
Tensors = dict[str, list[float]]
GRAPH = Graph(
    [Node("m", "add", ("x",), ("m",)), Node("y", "add", ("m",), ("y",))],
    {n: spec(n, "float32", (3,)) for n in "xmy"},
    {},
    ("x",),
    ("y",),
)


def side(name: str, digests: bool, tensors: Tensors) -> Recording:
    specs, arrays = floats(**tensors)
    sent = {n: tensor_digest(v) for n, v in arrays.items()} if digests else {}
    return Recording(name, "test", specs=specs, finals=("y",), tensors=arrays, digests=sent, capabilities=ALL)


def judged(
    a: Tensors, b: Tensors, options: Options, digests: bool, sides: tuple[str, str] = ("reference", "board")
) -> ReportDocument:
    recordings = {name: side(name, digests, held) for name, held in zip(sides, (a, b), strict=True)}
    return judge_all(recordings, GRAPH, [], options, {}, None, {"x": np.zeros(3, np.float32)})


def verdict(m: list[float], other: list[float] | None = None, **options: object) -> str:
    """With this inner tensor on both sides, or another one on the second; equal with and without digests."""
    y, every = [1.0, 2.0, 3.0], Options(dump_all=True, **options)  # type: ignore[arg-type]
    found = {
        judged({"m": m, "y": y}, {"m": m if other is None else other, "y": y}, every, digests).verdict
        for digests in (False, True)
    }
    assert len(found) == 1
    return found.pop()


def test_they_agree_inside() -> None:
    assert verdict([0, -INF, 1]) == verdict([INF, -INF, 1]) == verdict([-INF] * 3) == "PASSED"
    assert verdict([0, -INF, 1], [0.000001, -INF, 1]) == "PASSED"


@pytest.mark.parametrize("other", [[0, INF, 1], [-INF, 0, 1], [0, 1, 1], [0, -3e38, 1], [0, NAN, 1], [-INF, -INF, 1]])
def test_others_fail(other: list[float]) -> None:
    for options in ({}, {"nan_equal": True}):
        assert verdict([0, -INF, 1], other, **options) == verdict(other, [0, -INF, 1], **options) == "FAILED"


def test_the_elements_beside_them_are_judged() -> None:
    assert verdict([0, -INF, 1], [0, -INF, 1.001]) == "FAILED"
    assert verdict([0, -INF, 1], [0, -INF, -1], digits=5, min_cosine=0.9) == "FAILED"


def test_nan_is_never_passed() -> None:
    assert verdict([0, NAN, 1]) == "INCONCLUSIVE" and verdict([0, NAN, 1], nan_equal=True) == "PASSED"
    (pair,) = judged(*({"m": [-INF, NAN, 1], "y": [1, 2, 3]},) * 2, Options(dump_all=True), False).pairs
    assert pair.verdict == "INCONCLUSIVE"
    assert pair.why == "m: 1 element is NaN or Inf on both sides; --nan-equal accepts this"


@pytest.mark.parametrize("digests", [False, True])
@pytest.mark.parametrize("sides", [("reference", "board"), ("simulator", "board"), ("reference", "simulator")])
def test_in_a_final_output_they_show_nothing(sides: tuple[str, str], digests: bool) -> None:
    held = {"m": [0.0, 1.0, 2.0], "y": [1.0, INF, 2.0]}
    assert judged(held, held, Options(dump_all=True), digests, sides).verdict == "INCONCLUSIVE"
    held = {"m": held["y"], "y": held["m"]}
    assert judged(held, held, Options(dump_all=True), digests, sides).verdict == "PASSED"


def test_a_masked_softmax_passes_with_every_tensor(tmp_path: Path) -> None:
    m = Qdq("uint8")
    mask = np.triu(np.full((4, 4), -np.inf, np.float32), 1)
    masked = m.op("Add", [m.quantize(m.input((4, 4))), m.constant("mask", mask)])
    m.output(m.quantize(m.op("Softmax", [masked], axis=-1)))
    path = tmp_path / "masked.onnx"
    path.write_bytes(m.model().SerializeToString())
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    tensors = {row.name for pair in report.pairs for row in pair.tensors if row.dtype == "float32"}
    assert masked in tensors and report.verdict == "PASSED"

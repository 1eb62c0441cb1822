"""Right elements in another container (flat, another type) blame nobody and pass nothing; wrong ones stay a fault of their
node."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.containers import unwrap, unwrap_differing
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.units import units
from qverify.report.document import ReportDocument
from qverify.tensors.codes import restore_codes, store_as
from qverify.tensors.recording import Recording, Tensors
from qverify.tensors.spec import TensorSpec

from tests.plain.test_compare_locates import MODEL, RELU1, blamed, board, compare, host, plus, save
from tests.plain.test_documented_rounding import REFERENCE, inputs, run
from tests.plain.three_sides import record

__all__ = ["host"]
Array = Any
Change = Callable[[Array], Array]
H = REFERENCE.spec("h")


def bits(value: Array) -> Array:
    return value.view(np.uint8)


CONTAINERS: Mapping[str, tuple[Change, str]] = {
    "flat": (lambda v: v.reshape(-1), "given as int8[128], wanted int8[4, 32]"),
    "int32": (lambda v: v.astype(np.int32), "given as int32[4, 32], read by value, wanted int8[4, 32]"),
    "flat int32": (lambda v: v.astype(np.int32).ravel(), "given as int32[128], read by value, wanted int8[4, 32]"),
    "bits": (bits, "given as uint8[4, 32], read by bits, wanted int8[4, 32]"),
    "shifted": (lambda v: bits(v) ^ 128, "given as uint8[4, 32], read with 128 added, wanted int8[4, 32]"),
    "float16": (
        lambda v: H.dequantized(v).astype(np.float16),
        "given as float16[4, 32], read as real values, wanted int8[4, 32]",
    ),
    "stored integers as floats": (
        lambda v: v.astype(np.float32),
        "given as float32[4, 32], read as stored integers, wanted int8[4, 32]",
    ),
    "flat float32": (
        lambda v: H.dequantized(v).astype(np.float32).ravel(),
        "given as float32[128], wanted int8[4, 32]",
    ),
}


def report_on(change: Change, spoil: Change = lambda v: v, **options: Any) -> ReportDocument:
    """Returns the report on a runner that gives h in another container. spoil: changes the values of h before."""
    x, sides = inputs(), {n: run(REFERENCE) for n in ("reference", "simulator")}
    recordings = {name: record(name, made, graph=REFERENCE, x=x) for name, made in sides.items()}
    board = recordings["board"] = record("board", run(REFERENCE, spoil), graph=REFERENCE, x=x)
    board.runtime, value = "runner", change(board.tensors["h"])
    board.tensors = {**board.tensors, "h": value}
    board.digests.pop("h")
    board.specs["h"] = TensorSpec("h", value.dtype.name, value.shape)
    given = Options(dump_all=True, **options)
    return judge_all(recordings, REFERENCE, units(REFERENCE), given, sides, None, {"x": x})


def spoilt(value: Array) -> Array:
    value = value.copy()
    value[2, 7] = np.clip(int(value[2, 7]) + 9, -128, 127)
    value[3, 9] = np.clip(int(value[3, 9]) - 9, -128, 127)
    return value


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("gate", [{}, {"min_cosine": 0.5}])
def test_right_elements_in_another_container_blame_nobody_and_pass_nothing(kind: str, gate: dict[str, Any]) -> None:
    change, given = CONTAINERS[kind]
    report = report_on(change, **gate)
    assert report.blame is None and report.verdict == "INCONCLUSIVE"
    for pair in report.pairs[:2]:
        row = next((r for r in pair.tensors if r.name == "h"), None)
        if pair.b == "board":
            assert (pair.verdict, pair.cause) == ("INCONCLUSIVE", "container")
            assert pair.why == f"h: {given}: the elements are right" and not pair.bit_equal
            assert row is not None and (row.verdict, row.bit_equal) == ("INCONCLUSIVE", False)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_wrong_elements_in_another_container_are_a_fault_of_their_node(kind: str) -> None:
    change, given = CONTAINERS[kind]
    report = report_on(change, spoilt)
    assert report.verdict == "FAILED" and (report.blame.side, report.blame.node) == ("board", "h")
    assert "computes 2 of 128 elements differently, up to 9 LSB" in report.blame.why
    assert any(given in note and "the elements are right" not in note for note in report.pairs[1].notes)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.reshape(-1)[:-1],
        lambda v: np.concatenate([v.reshape(-1), v.reshape(-1)[:1]]),
        lambda v: v[:3],
        lambda v: v.astype(np.int32) * 1000,
        lambda v: np.zeros((0,), np.int8),
    ],
)
@pytest.mark.parametrize("gate", [{}, {"min_cosine": 0.01}])
def test_another_number_of_elements_is_no_container(change: Change, gate: dict[str, Any]) -> None:
    report = report_on(change, **gate)
    assert report.verdict == "FAILED" and report.pairs[1].cause != "container"
    assert "the elements are right" not in str(report)


def test_floats_of_other_widths_are_no_faults_of_their_nodes() -> None:
    """float64 holds every float32; from float16 nothing is recomputed."""
    spec = TensorSpec("t", "float32", (3,))
    value = np.array([1.5, 1 / 3, np.inf])
    assert (store_as(value, None, spec) == value.astype(np.float32)).all()  # type: ignore[comparison-overlap]
    assert store_as(value.astype(np.float16), None, spec) == "float16, which does not hold float32"
    whole = TensorSpec("t", "int64", (3,))
    assert store_as(np.array([1, 2, 3], np.int32), None, whole).dtype == np.int64  # type: ignore[union-attr]
    assert store_as(np.array([1, 2, 3.5]), None, whole).dtype == np.float64  # type: ignore[union-attr]


def test_integers_with_a_scale_of_their_own_are_stored_by_their_real_values() -> None:
    ours = TensorSpec("t", "int8", (3,), scale=(0.5,), zero_point=(-128,))
    own = TensorSpec("t", "uint8", (3,), scale=(0.5,), zero_point=(0,))
    stored = store_as(np.array([0, 3, 255], np.uint8), own, ours)
    assert isinstance(stored, np.ndarray) and stored.tolist() == [-128, -125, 127]


def test_float16_shows_integers_only_where_its_spacing_is_below_half_a_step() -> None:
    spec = TensorSpec("t", "int16", (2,), scale=(1.0,), zero_point=(0,))
    assert restore_codes(np.array([100, -7], np.float16), spec).tolist() == [100, -7]  # type: ignore[union-attr]
    assert "no whole step" in restore_codes(np.array([100, 3000], np.float16), spec)  # type: ignore[operator]


def test_arrays_that_are_loaded_on_access_stay_so() -> None:
    loads = []

    def load() -> Array:
        loads.append(1)
        return np.arange(4, dtype=np.int32)

    lazy = Recording("dump", "d", specs={"t": TensorSpec("t", "int32", (4,))}, tensors=Tensors({"t": load}))
    spec = TensorSpec("t", "int8", (2, 2), scale=(0.5,), zero_point=(0,))
    read = unwrap(lazy, {"t": spec}, [])
    assert isinstance(read.tensors, Tensors) and read.specs["t"] == spec and len(loads) == 1
    assert read.tensors["t"].tolist() == [[0, 1], [2, 3]] and read.tensors["t"].dtype == np.int8
    assert unwrap_differing(lazy, lazy, {"t": spec}) == (lazy, lazy)  # alike in both: compared as they are


@pytest.mark.parametrize("change", [lambda v: v.reshape(-1), lambda v: v.astype(np.int32), lambda v: v.view(np.int8)])
def test_compare_names_the_container_and_blames_nobody(host: dict[str, Array], change: Change) -> None:
    for a, b in (("host", save({**host, RELU1: change(host[RELU1])})), ("b.npz", "host")):
        report = compare(a, b)
        assert report["verdict"] == "INCONCLUSIVE" and report["blame"] is None
        assert "wanted uint8[1, 8, 8, 8]: the elements are right" in report["pairs"][0]["why"]
    wrong = board(host, {RELU1: plus(3)})
    assert blamed(compare("host", save({**wrong, RELU1: change(wrong[RELU1])}))) == [("B", RELU1)]


def test_triage_of_a_dump_in_another_container_says_so(
    host: dict[str, Array], capsys: pytest.CaptureFixture[str]
) -> None:
    for value, said in (
        (host["prob"].reshape(-1), "given as float32[10], wanted float32[1, 10]: the elements are right"),
        (host["prob"].reshape(-1)[:-1], "float32[9] recorded, float32[1, 10] computed"),
    ):
        path = save({**host, "prob": value})
        assert main(["triage", "-m", f"digits_float.onnx,{MODEL},{path}"]) == 3
        shown = capsys.readouterr().out
        assert said in shown and "TRIAGE: INCONCLUSIVE" in shown


@pytest.mark.parametrize("form", ["", ".reshape(-1)", ".astype('int32')"])
def test_a_replay_of_a_runner_reads_its_containers(host: dict[str, Array], form: str) -> None:
    """It is read as the board of a runner; as one that runs qvrt, the tensor is missing."""
    names = json.loads(Path("host/manifest.json").read_text())["tensors"]
    file = next(f for f, n in names.items() if n == RELU1)
    Path("tool.py").write_text(
        "import os, sys, numpy as np\n"
        "for f in [f for f in os.listdir(sys.argv[1]) if f.endswith('.npy')]:\n"
        "    v = np.load(sys.argv[1] + '/' + f)\n"
        f"    np.save(sys.argv[2] + '/' + f, v{form} if f == {file!r} else v)\n"
    )
    line = f"{sys.executable} {Path('tool.py').resolve()} {Path('host').resolve()} {{out}}; : {{model}} {{input}}"
    words = ["-m", MODEL, "-b", "local", "--runner", line, "-r", "True"]
    status = main([*words, "--capture", "cap", "--json", "run.json"])
    assert status == (3 if form else 0)
    assert main(["replay", "cap", "--runtime", "runner", "--json", "again.json"]) == status
    first, again = (json.loads(Path(f"{n}.json").read_text()) for n in ("run", "again"))
    for key in ("verdict", "cause", "why", "relaxed"):
        assert [p[key] for p in first["pairs"]] == [p[key] for p in again["pairs"]], key
    assert main(["replay", "cap", "--json", "again.json"]) == status
    manifest = Path("cap/capture.json")
    held = json.loads(manifest.read_text())
    for forms in (
        [1],
        {RELU1: 5},
        {RELU1: {"dtype": "object", "shape": [512]}},
        {RELU1: {"dtype": "int8", "shape": [-1]}},
    ):
        held["frames"][0]["sides"][-1]["forms"] = forms
        manifest.write_text(json.dumps(held))
        assert main(["replay", "cap", "--runtime", "runner", "--json", "again.json"]) == 2, forms  # refused in one line


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.25])
def test_floats_are_stored_integers_only_where_the_other_side_shows_it(scale: float) -> None:
    """With such scales, stored integers are whole steps, too."""
    spec = TensorSpec("t", "int8", (64,), scale=(scale,), zero_point=(0,))
    codes = np.arange(-20, 44, dtype=np.int8)
    peer = Recording("reference", "r", specs={"t": spec}, tensors={"t": codes})
    for value, how in ((spec.dequantized(codes), ""), (codes, "" if scale == 1 else ", read as stored integers")):
        given = value.astype(np.float32)
        board = Recording("board", "b", specs={"t": TensorSpec("t", "float32", (64,))}, tensors={"t": given})
        read = unwrap(board, {"t": spec}, [peer])
        assert read.containers == ({"t": f"given as float32[64]{how}, wanted int8[64]"} if how else {})
        assert unwrap(board, {"t": spec}, []).containers == {}  # nothing shows that they are none
    wrong = np.where(np.arange(64) % 3 == 0, codes, -codes).astype(np.float32)
    board = Recording("board", "b", specs={"t": TensorSpec("t", "float32", (64,))}, tensors={"t": wrong})
    assert unwrap(board, {"t": spec}, [peer]).containers == {}

"""The faults that scripts/engines plants: each changes what it says, and only a report that names its place locates it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from scripts.benchmarks.engine_faults import INPUTS, MODEL_KINDS, Fault, OnnxFaults, draw_dump_fault, is_located
from scripts.benchmarks.engines import all_tensors, network_inputs, with_narrow_weights
from scripts.benchmarks.faulty_engine import altered, spoil_inputs, spoil_tensors

DIGITS = Path(__file__).resolve().parents[2] / "verifier" / "qverify" / "example" / "digits_quant.onnx"
ROWS = [{"name": n, "shape": [1, 3, 4, 4], "dtype": "int8", "elements": 48} for n in ("a", "b")]


def drawn_inputs() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {n: rng.uniform(low, high, s).astype(t) for n, (s, t, low, high) in network_inputs(DIGITS).items()}


def test_faults_in_a_model_change_what_lies_at_their_places_first() -> None:
    faults, chance, inputs, kinds = OnnxFaults(DIGITS), random.Random(1), drawn_inputs(), set[str]()
    right = all_tensors(DIGITS.read_bytes(), inputs, ".onnx")
    for _ in range(60):
        fault = faults.draw(chance)
        if fault is None:
            continue
        wrong = all_tensors(fault.model, inputs, ".onnx")
        changed = [n for n in right if n != "prob" and not np.array_equal(right[n], wrong[n])]
        assert not changed or changed[0] in fault.places, fault.kind
        kinds |= {fault.kind.removeprefix("model: ")} if changed else set()
    assert len(kinds) >= 8 and kinds <= {*MODEL_KINDS}


def test_faults_in_a_dump_change_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    chance, kinds = random.Random(3), set[str]()
    for number in range(60):
        fault = draw_dump_fault(ROWS, ("q", "c"), True, chance)
        kinds.add(fault.kind)
        path, given = tmp_path / f"{number}.npy", np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
        if "input" in fault.given:
            np.save(path, given)
            item = {"name": "x", "npy": str(path)}
            spoil_inputs([item], fault.given)
            assert not np.array_equal(np.load(item["npy"]), given) and fault.places == ("q", "c")
            continue
        tensors = {"a": given.astype(np.int8), "b": (given + 60).astype(np.int8)}
        np.savez(tmp_path / "t.npz", **tensors)
        spoil_tensors(str(tmp_path / "t.npz"), fault.given)
        with np.load(tmp_path / "t.npz") as found:
            assert {n for n in tensors if not np.array_equal(found[n], tensors[n])} == {*fault.places}
    assert kinds == {
        *(f"input: {k}" for k in INPUTS),
        *(f"output: {k}" for k in ("exchange", "element", "channel", "late")),
    }


@pytest.mark.parametrize("shape", [(1, 1, 5, 2), (1, 12), (3, 4)])
@pytest.mark.parametrize("kind", ["element", "channel", "late"])
def test_an_altered_array_is_another(kind: str, shape: tuple[int, ...]) -> None:
    for dtype in (np.int8, np.uint8, np.float32):
        value = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        assert not np.array_equal(altered(value, kind, 0.7), value)


def test_narrow_weights_are_those_of_no_saturation(tmp_path: Path) -> None:
    path = tmp_path / "narrow.onnx"
    path.write_bytes(with_narrow_weights(DIGITS))
    onnx.checker.check_model(onnx.load(path))
    weights = [w for node in OnnxFaults(path).sums if (w := OnnxFaults(path).values(node, 1)) is not None]
    assert weights and all(np.abs(w.astype(int)).max() <= 64 for w in weights)
    before, after = (all_tensors(p.read_bytes(), drawn_inputs(), ".onnx") for p in (DIGITS, path))
    assert {*before} == {*after}


def blamed(*nodes: str, **more: Any) -> dict[str, Any]:
    entries = [{"side": "board", "node": n, "why": "x", **more} for n in nodes]
    return {"blamed": entries, "notes": [], "pairs": [{"cause": "node", "tensors": []}]}


def test_the_first_new_blame_locates() -> None:
    fault = Fault("model: one weight", ("c1", "c1_q"))
    assert is_located(blamed("c1_q", "c2"), fault, {}) and not is_located(blamed("c2", "c1_q"), fault, {})
    assert is_located(blamed("c2", "c1_q"), fault, {"c2": "x"}) and not is_located(blamed("c2"), fault, {})
    assert not is_located(blamed("c1_q"), fault, {"c1_q": "x"})
    assert is_located(blamed("end", region={"nodes": ["c0", "c1_q"]}), fault, {})


def test_words_of_the_report_locate_what_they_name() -> None:
    exchanged = Fault("output: exchange", ("a", "b"), given={"tensors": "exchange"}, every=("a", "b"))
    report = blamed("z")
    assert not is_located(report, exchanged, {})
    report["notes"] = ["b and a are exchanged, and nothing else fails"]
    assert is_located(report, exchanged, {})
    bgr = Fault("input: bgr", ("q",), given={"input": "bgr"}, words=("red and blue",))
    assert not is_located(report, bgr, {})
    report["findings"] = [{"text": "red and blue are exchanged"}]
    assert is_located(json.loads(json.dumps(report)), bgr, {})

"""A board with a runner whose outputs do not change with the input: said with --paranoid and by triage's experiments."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

NODE = "relu2_QuantizeLinear_Output"
DEVICE = """import sys, numpy as np, onnx, onnxruntime as ort
model, given, kept, out, stale = sys.argv[1:6]
session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
fed = np.load(kept if stale == "stale" else given)
np.save(out + "/" + session.get_outputs()[0].name + ".npy", session.run(None, {name: fed})[0])
if len(sys.argv) > 6:
    whole = onnx.load(model)
    del whole.graph.output[:]
    names = [n.output[0] for n in whole.graph.node if n.op_type == "QuantizeLinear"]
    whole.graph.output.extend(onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UINT8, None) for n in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    inner = ort.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
    fresh, old = (inner.run(None, {name: np.load(path)}) for path in (given, kept))
    late = False
    for tensor, new, before in zip(names, fresh, old):
        late = late or tensor == sys.argv[6]
        np.save(out + "/" + tensor + ".npy", before if late and stale == "stale" else new)
"""


@pytest.fixture
def words(digits: Path, tmp_path: Path) -> list[str]:
    """The model, an image, and a runner that computes another image if the last word of its line says so."""
    with np.load(digits / "digits.npz") as images:
        for number, name in enumerate(sorted(images.files)[:2]):
            np.save(tmp_path / f"{number}.npy", images[name])
    (tmp_path / "device.py").write_text(DEVICE)
    line = f"{sys.executable} {tmp_path / 'device.py'} {{model}} {{npy}} {tmp_path / '1.npy'} {{out}}"
    return ["-m", str(digits / "digits_quant.onnx"), "-i", str(tmp_path / "0.npy"), "-b", "local", "--runner", line]


def test_paranoid_says_that_a_runner_repeats_its_output(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, capture = tmp_path / "r.json", str(tmp_path / "cap")
    more = ["--paranoid", "--min-cosine", "0.5", "--json", str(report)]
    stale = [*words[:-1], f"{words[-1]} stale"]
    assert main([*stale, *more, "--capture", capture]) == 1
    first = json.loads(report.read_text())["findings"][0]
    assert (first["kind"], first["tensor"]) == ("frozen", "prob")
    assert "prob has the same bytes in all 2 runs, the simulator's differ" in first["text"]
    assert main(["replay", capture, "--runtime", "runner", "--json", str(report)]) in (1, 2)
    assert main([*words[:-1], f"{words[-1]} fresh", *more]) == 0
    assert not json.loads(report.read_text())["findings"]
    assert "on other inputs (random" in capsys.readouterr().out


def test_triage_runs_other_inputs_and_says_it_first(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "t.json"
    stale = [*words[:-1], f"{words[-1]} stale {NODE}"]
    assert main(["triage", *stale, "-r", "True", "--json", str(report)]) == 1
    triage = json.loads(report.read_text())
    assert [(f["kind"], f["tensor"]) for f in triage["findings"]] == [("frozen", NODE)]
    assert f"{NODE} has the same bytes in all 6 experiments" in triage["findings"][0]["text"]
    assert triage["explained"][0]["tensor"] == NODE and triage["explained"][0]["explanation"] is None
    assert triage["explained"][0]["why"] == f"EXPLAINED: {NODE} does not change with the input in 6 experiments: frozen"
    out = capsys.readouterr().out
    assert out.index("found: ") < out.index("reference ~ board: FAILS") and "no known fault" not in out


def test_outputs_that_change_are_not_called_frozen(words: list[str], tmp_path: Path) -> None:
    report = tmp_path / "t.json"
    stale = [*words[:-1], f"{words[-1]} stale {NODE}"]
    assert main(["triage", *stale, "--explain", "0", "--json", str(report)]) == 1
    assert not json.loads(report.read_text())["findings"]  # nothing is run
    off = [
        *words[:-1],
        f"{words[-1]} fresh; {sys.executable} -c 'import numpy as n, sys; n.save(sys.argv[1], n.load(sys.argv[1]) + 1)' {{out}}/prob.npy",
    ]
    assert main(["triage", *off, "--json", str(report)]) == 1
    assert not json.loads(report.read_text())["findings"]

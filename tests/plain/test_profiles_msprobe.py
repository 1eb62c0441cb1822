"""msprobe's dumps of MindSpore. Every fixture is synthetic, written from the published description."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from qverify.cli.main import main

CONV = np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype(np.float32)
FC = np.random.default_rng(2).standard_normal((1, 10)).astype(np.float32)


def dumped(root: Path, off: float = 0.0, steps: int = 1) -> Path:
    for step in range(steps):
        place = root / f"step{step}" / "rank0"
        (place / "dump_tensor_data").mkdir(parents=True)
        data = {}
        for name, array in (("Cell.conv.Conv2d.forward.0", CONV), ("Cell.fc.Dense.forward.0", FC + np.float32(off))):
            np.save(place / "dump_tensor_data" / f"{name}.output.0.npy", array + np.float32(step))
            facts = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": list(array.shape)}
            output = [{**facts, "data_name": f"{name}.output.0.npy"}]
            data[name] = {"input_args": [{"type": "int", "value": 3}], "input_kwargs": {}, "output": [output]}
        content = {"task": "tensor", "level": "L0", "framework": "mindspore", "dump_data_dir": "/d", "data": data}
        (place / "dump.json").write_text(json.dumps(content))
        (place / "stack.json").write_text("{}")
    return root


def test_two_runs_are_compared_layer_by_layer(tmp_path, capsys):
    a, b, c = dumped(tmp_path / "a"), dumped(tmp_path / "b"), dumped(tmp_path / "c", off=0.1)
    assert main(["compare", str(a), str(b / "step0")]) == 0
    assert "2 of 2 tensors" in capsys.readouterr().out
    assert main(["compare", str(a / "step0" / "rank0"), str(c)]) == 1
    assert "Cell.fc.Dense.forward.0.output.0" in capsys.readouterr().out


def test_the_step_is_a_frame(tmp_path):
    a, b = dumped(tmp_path / "a", steps=2), dumped(tmp_path / "b", steps=2)
    assert main(["compare", str(a), str(b / "step1")]) == 1
    assert main(["compare", str(a), str(b / "step1"), "--frame", "1"]) == 0


def test_what_torch_saved_and_what_is_gone_is_missing(tmp_path, capsys):
    a, b = dumped(tmp_path / "a"), dumped(tmp_path / "b")
    place = b / "step0" / "rank0"
    (place / "dump_tensor_data" / "Cell.fc.Dense.forward.0.output.0.npy").unlink()
    assert main(["compare", str(a), str(b)]) not in (0, 1)
    assert "which is not in dump_tensor_data" in capsys.readouterr().out
    text = (place / "dump.json").read_text().replace("Dense.forward.0.output.0.npy", "Dense.forward.0.output.0.pt")
    (place / "dump.json").write_text(text)
    (place / "dump_tensor_data" / "Cell.fc.Dense.forward.0.output.0.pt").write_bytes(b"PK")
    assert main(["compare", str(a), str(b)]) not in (0, 1)
    assert "was saved by torch; save it as .npy" in capsys.readouterr().out


def test_damaged_manifests_are_refused(tmp_path, capsys):
    a, b = dumped(tmp_path / "a"), dumped(tmp_path / "b")
    for text, said in (
        ("{", "not JSON"),
        ("[]", "no object called data"),
        ('{"data": {}}', "names no file of a tensor"),
    ):
        (b / "step0" / "rank0" / "dump.json").write_text(text)
        assert main(["compare", str(a), str(b)]) == 2
        assert said in capsys.readouterr().err

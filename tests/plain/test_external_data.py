"""External data: verified like data inside the file, in captures too; refused outside the folder or with other sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from qverify.cli.main import main

Entries = dict[str, str]


@pytest.fixture
def stored(digits: Path, tmp_path: Path) -> Path:
    """The example with every initializer in e.data."""
    path = tmp_path / "e.onnx"
    model = onnx.load(digits / "digits_quant.onnx")
    onnx.save(model, path, save_as_external_data=True, location="e.data", size_threshold=0)
    return path


def test_from_compile_to_the_verdict(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    binary, cap = tmp_path / "m.bin", tmp_path / "cap"
    assert main(["compile", str(stored), "-o", str(binary)]) == 0
    assert main(["-m", f"{stored},{binary}", "-b", "local", "-s", "True", "-r", "True", "--capture", str(cap)]) == 0
    assert "original ONNX on default onnxruntime" in capsys.readouterr().out
    (tmp_path / "e.data").unlink()  # a capture is complete without it
    assert main(["replay", str(cap)]) == 0
    assert main(["-m", f"{stored},{binary}", "-b", "local"]) == 2
    assert "'e.data' is missing beside the model" in capsys.readouterr().err


def test_other_data_is_another_model(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    binary, data = tmp_path / "m.bin", tmp_path / "e.data"
    assert main(["compile", str(stored), "-o", str(binary)]) == 0
    weight = next(
        t for t in onnx.load(stored, load_external_data=False).graph.initializer if list(t.dims) == [8, 1, 3, 3]
    )
    at = int({e.key: e.value for e in weight.external_data}.get("offset", 0))
    changed = bytearray(data.read_bytes())
    changed[at] ^= 1
    data.write_bytes(changed)
    assert main(["-m", f"{stored},{binary}", "-b", "local"]) == 2
    assert "compiled from another ONNX" in capsys.readouterr().err


def _with(**changed: str) -> Callable[[Entries], Entries]:
    return lambda entries: {**entries, **changed}


SPOILED = {
    "outside": (_with(location="../e.data"), "is outside the model's folder"),
    "absolute": (_with(location="/etc/passwd"), "is outside the model's folder"),
    "nothing": (_with(location=""), "is outside the model's folder"),
    "a link": (_with(location="link"), "through a symbolic link"),
    "a folder that is a link": (_with(location="there/e.data"), "through a symbolic link"),
    "a folder": (_with(location="folder"), "is not a file"),
    "beyond the end": (_with(offset="999999999999999999"), "bytes 999999999999999999 to"),
    "negative": (_with(offset="-1"), "'-1' is not a number of bytes"),
    "another length": (_with(length="3"), "length 3, its type and dims need"),
    "an unknown key": (_with(packing="zip"), "unknown key 'packing'"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_refused(name: str, stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "link").symlink_to("e.data")
    (tmp_path / "there").symlink_to(".")
    (tmp_path / "folder").mkdir()
    change, said = SPOILED[name]
    model = onnx.load(stored, load_external_data=False)
    tensor = next(t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL)
    entries = change({e.key: e.value for e in tensor.external_data})
    del tensor.external_data[:]
    tensor.external_data.extend(onnx.StringStringEntryProto(key=k, value=v) for k, v in entries.items())
    stored.write_bytes(model.SerializeToString())
    for words in (["compile", str(stored), "-o", str(tmp_path / "m.bin")], ["-m", str(stored), "-b", "local"]):
        assert main(words) == 2
        line = capsys.readouterr().err
        assert said in line and line.count("\n") == 1


def test_sizes_are_added_up_before_anything_is_read(stored: Path, capsys: pytest.CaptureFixture[str]):
    model = onnx.load(stored, load_external_data=False)
    tensor = next(t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL)
    del tensor.dims[:], tensor.external_data[:]
    tensor.dims.extend([2**40, 2**40])
    tensor.external_data.append(onnx.StringStringEntryProto(key="location", value="e.data"))
    stored.write_bytes(model.SerializeToString())
    assert main(["-m", str(stored), "-b", "local"]) == 2
    assert "above 2 GiB" in capsys.readouterr().err

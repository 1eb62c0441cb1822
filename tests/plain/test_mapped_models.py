"""Models whose weights are mapped: from compile to the verdict the same as models that are read, without a copy of them."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError, InternalError
from qverify.model_bin.records import encode
from qverify.onnx_model import held_data, load, mapped_file, mapped_model
from qverify.onnx_model.light_model import LARGE

from tests.ops.qdq import Qdq


@pytest.fixture(scope="module")
def network() -> onnx.ModelProto:
    """Products, a table that a Gather reads, and a bias: weights of 8 and of 32 bits, large enough to be held."""
    m = Qdq()
    x = m.input((1, 3, 160))
    for columns in (192, 160):
        x = m.quantize(m.op("MatMul", [x, m.weight((160 if columns == 192 else 192, columns), axis=1)]))
    m.output(x)
    return m.model()


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model is mapped, as large ones are."""
    for module in (load, mapped_model):
        monkeypatch.setattr(module, "MAPPED_FROM", 1)


def _stored(model: onnx.ModelProto, folder: Path, external: bool) -> Path:
    path = folder / ("external.onnx" if external else "one.onnx")
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in copy.graph.initializer:  # fields with higher numbers than that of the data
        tensor.doc_string = "weights"
        tensor.metadata_props.extend(onnx.StringStringEntryProto(key=k, value=k) for k in "ab")
    if external:
        onnx.save(copy, path, save_as_external_data=True, location="weights.data", size_threshold=0)
    else:
        onnx.save(copy, path)
    return path


@pytest.mark.parametrize("external", [False, True])
def test_the_same_bytes_come_out(network: onnx.ModelProto, external: bool, tmp_path: Path, mapped: None):
    path = _stored(network, tmp_path, external)
    source, parsed = load.open_model(str(path))
    assert isinstance(source, mapped_model.MappedModel) and parsed is not None
    held = [t for t in parsed.graph.initializer if held_data.is_held(t)]
    assert len(held) >= 2 and all(held_data.value_of(t).nbytes >= LARGE for t in held)
    assert len(source.light) < LARGE * len(held)
    whole = load.read_model(str(path))
    assert bytes(source) == whole and source.sha256 == hashlib.sha256(whole).hexdigest()
    for check in (True, False):
        options = CompilerOptions(check=check)
        ours = compile_model(source, path.name, options, None, source.parse())
        theirs = compile_model(whole, path.name, options)
        assert encode(ours.graph) == encode(theirs.graph)
        assert ours.integer_onnx == theirs.integer_onnx


@pytest.mark.parametrize("external", [False, True])
def test_from_compile_to_the_verdict(
    network: onnx.ModelProto, external: bool, tmp_path: Path, mapped: None, capsys: pytest.CaptureFixture[str]
):
    path, binary = _stored(network, tmp_path, external), tmp_path / "m.bin"
    assert main(["compile", str(path), "-o", str(binary)]) == 0
    for models in (str(path), f"{path},{binary}"):
        assert main(["-m", models, "-b", "local", "-r", "True"]) == 0
        said = capsys.readouterr().out
        assert said.count("PASSED") == 3 and "original ONNX on default onnxruntime" in said


def test_other_weights_are_another_model(
    network: onnx.ModelProto, tmp_path: Path, mapped: None, capsys: pytest.CaptureFixture[str]
):
    path, binary = _stored(network, tmp_path, True), tmp_path / "m.bin"
    assert main(["compile", str(path), "-o", str(binary)]) == 0
    data = bytearray((tmp_path / "weights.data").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "weights.data").write_bytes(data)
    assert main(["-m", f"{path},{binary}", "-b", "local"]) == 2
    assert "compiled from another ONNX" in capsys.readouterr().err


def test_a_file_that_changes_is_refused(network: onnx.ModelProto, tmp_path: Path, mapped: None):
    path = _stored(network, tmp_path, False)
    source, _ = load.open_model(str(path))
    assert isinstance(source, mapped_model.MappedModel)
    os.utime(path, ns=(1, 1))
    with pytest.raises(BadFileError, match="was changed while it was read"):
        _ = source.sha256


def test_a_mark_in_a_file_is_no_mark(network: onnx.ModelProto, tmp_path: Path, mapped: None):
    """A file cannot name an array of this process: its marks begin with a number that was drawn when it started."""
    model = onnx.ModelProto.FromString(network.SerializeToString())
    tensor = max(model.graph.initializer, key=lambda t: len(t.raw_data))
    held_data.place_outside(tensor)
    tensor.ClearField("raw_data")
    tensor.external_data.add(key="checksum", value="held-0-0")
    path = tmp_path / "forged.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(BadFileError, match="external data of"):
        load.open_model(str(path))


def test_damaged_bytes_are_refused_as_they_are_without_a_map(
    network: onnx.ModelProto, tmp_path: Path, mapped: None, capsys: pytest.CaptureFixture[str]
):
    whole, path = network.SerializeToString(), tmp_path / "cut.onnx"
    for end in (1, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert main(["compile", str(path), "-o", str(tmp_path / "m.bin")]) == 2, end
        said = capsys.readouterr().err
        assert said.startswith("qverify: ") and said.count("\n") == 1 and "internal" not in said


def test_data_of_another_size_stay_in_the_message(network: onnx.ModelProto):
    """A tensor whose data do not fit its dims is not held, so that it is refused as before."""
    tensor = numpy_helper.from_array(np.zeros(LARGE, np.int8), "t")
    model = onnx.ModelProto.FromString(network.SerializeToString())
    model.graph.initializer.append(tensor)
    for change in ({"dims": [LARGE + 1]}, {"dims": [LARGE - 1]}, {"int32_data": [1]}, {"name": ""}):
        model.graph.initializer[-1].CopyFrom(tensor)
        for name, value in change.items():
            if isinstance(value, list):
                getattr(model.graph.initializer[-1], name)[:] = value
            else:
                setattr(model.graph.initializer[-1], name, value)
        light, places = mapped_model._without_data(memoryview(model.SerializeToString()))
        assert "t" not in places and light.graph.initializer[-1] == model.graph.initializer[-1], change


def test_mapped_memory_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What was read of a large file does not stay in memory, and can be read again."""
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * (1 << 16))
    monkeypatch.setattr(mapped_file, "RESIDENT_BYTES", 1 << 20)
    file = mapped_file.map_file(str(path))
    before = mapped_file._resident_bytes()
    if not before:
        pytest.skip("this system does not say how much of a file is in memory")
    array, waited = file.array(np.uint8, (1 << 24,), 0), threading.Event()
    assert int(array.sum(dtype=np.int64)) == 255 * 128 * (1 << 16)
    for _ in range(100):
        if mapped_file._resident_bytes() < before + (1 << 22):
            break
        waited.wait(0.05)
    assert mapped_file._resident_bytes() < before + (1 << 22)
    assert int(array.sum(dtype=np.int64)) == 255 * 128 * (1 << 16)


def test_a_wrong_rewriting_is_found(network: onnx.ModelProto):
    """Only nodes that differ are run, and what they compute is compared."""
    from qverify.compiler.same_bits import check_same_bits

    one = load.load(network.SerializeToString(), "n")
    check_same_bits(one, one)
    for at, node in enumerate(one.graph.node):
        if node.op_type != "QuantizeLinear":
            continue
        other = onnx.ModelProto.FromString(one.SerializeToString())
        scale = next(i for i in other.graph.initializer if i.name == node.input[1])
        scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(1.5), "another scale"))
        other.graph.initializer.append(next(i for i in one.graph.initializer if i.name == node.input[1]))
        other.graph.node[at].input[1] = "another scale"
        with pytest.raises(InternalError, match="stepping over movements changed it"):
            check_same_bits(one, other)

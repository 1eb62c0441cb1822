"""Reading of .espdl files. Those of espdl_files/ were made by esp-ppq 1.3.12 of small networks with random weights: two of
convolutions, pools, an addition, tables and a product (ESP32-P4 and S3), one with a transposed convolution, PRelu and a
resize (C), one of int16 (S3). Each holds the results of the toolkit's own executor, which are independent of qverify."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify.cli.main import main
from qverify.errors import BadFileError, QVerifyError, UnsupportedError
from qverify.session.models import open_models
from qverify.session.vendor_quantized import compare_with_tests
from qverify.vendor_quantization import write_quantized
from qverify.vendor_quantization.espdl_parts.layouts import unpack_weights
from qverify.vendor_quantization.espdl_parts.read_espdl import read_espdl

FOLDER = Path(__file__).with_name("espdl_files")
FILES = sorted(FOLDER.glob("*.espdl"))
S3 = FOLDER / "net_esp32s3_8.espdl"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_files_own_test_is_reproduced_in_every_bit(path: Path) -> None:
    models = open_models([str(path)])
    tests = [n for n in models.notes if n.startswith("the file's own test")]
    assert len(tests) == 1 and ": the simulator gives all " in tests[0], (models.notes, models.caveats)
    assert not [c for c in models.caveats if "own test" in c]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_board_passes(path: Path) -> None:
    report = qverify.verify(str(path), board="local", dump_all_nodes_results=True)
    assert report.verdict == "PASSED"


def test_a_wrong_weight_is_no_accident_of_the_test(tmp_path: Path) -> None:
    """The file's own test is a caveat where a weight is another one."""
    data = bytearray(S3.read_bytes())
    weights = read_espdl(bytes(data), "x").tensors["fc.weight"].data
    assert weights is not None
    at = bytes(data).index(weights.tobytes())
    data[at] ^= 0x40
    changed = tmp_path / "changed.espdl"
    changed.write_bytes(data)
    models = open_models([str(changed)])
    assert [c for c in models.caveats if "the file's own test: the simulator gives" in c and "otherwise" in c]


def test_an_output_that_the_network_does_not_give_is_a_caveat() -> None:
    models = open_models([str(S3)])
    tests = write_quantized(b"", {"x.espdl": S3.read_bytes()}).tests
    assert tests is not None
    notes, caveats = compare_with_tests(models.graph, tests[0], {"other": np.zeros(3, np.int8)})
    assert (notes, caveats) == ([], ["the file's own test has other, which its network does not give"])


@pytest.mark.parametrize(
    ("stem", "chip"), [("net_esp32s3_8", "ESP32-S3"), ("net_esp32p4_8", "ESP32-P4"), ("up_c_8", "ESP32-C")]
)
def test_the_weights_tell_the_chip(stem: str, chip: str) -> None:
    made = write_quantized(b"", {"x.espdl": (FOLDER / f"{stem}.espdl").read_bytes()})
    assert f"as on {chip} (weights" in made.changes[0]
    assert (made.arithmetic == "") == (chip == "ESP32-P4")


def test_the_json_tells_the_chip() -> None:
    data = {"x.espdl": S3.read_bytes(), "x.json": b'{"dispatchings": {"/c1/Conv": "ESPDL_INT8"}}'}
    assert "to even, as on ESP32-P4 (the .json beside it states it)" in write_quantized(b"", data).changes[0]
    for text in (b"{", b"[]", b'{"dispatchings": 3}', b'{"dispatchings": {"a": "ESPDL_INT8", "b": "ESPDL_S3_INT8"}}'):
        assert "ESP32-S3 (weights" in write_quantized(b"", data | {"x.json": text}).changes[0]


def _packed(weights: np.ndarray, block: int, depthwise: bool) -> np.ndarray:
    """Packs NCHW weights as the format states it, element by element."""
    n, c, h, w = weights.shape
    whole, out = n // block * block, []
    for first in range(0, whole, block):
        out += [weights[first + k, j, y, x] for y in range(h) for x in range(w) for j in range(c) for k in range(block)]
    if depthwise:
        out += [weights[k, 0, y, x] for y in range(h) for x in range(w) for k in range(whole, n)]
    else:
        out += [weights[k, j, y, x] for k in range(whole, n) for y in range(h) for x in range(w) for j in range(c)]
    return np.array(out, weights.dtype)


@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize(
    ("n", "c", "depthwise"), [(5, 3, False), (16, 2, False), (37, 3, False), (21, 1, True), (7, 1, True)]
)
def test_blocks_of_weights(block: int, n: int, c: int, depthwise: bool) -> None:
    weights = np.random.default_rng(n).integers(-128, 128, (n, c, 2, 3)).astype(np.int8)
    dims = (2, 3, n, c) if depthwise else (2, 3, c, n)
    layout = f"(N/{block})HWC{block}" + ("_UNALIGNED" if n % block else "")
    assert np.array_equal(unpack_weights(_packed(weights, block, depthwise), dims, layout, depthwise), weights)


def test_weights_without_blocks() -> None:
    weights = np.arange(5 * 3 * 2 * 4, dtype=np.int8).reshape(5, 3, 2, 4)
    plain = weights.transpose(0, 2, 3, 1).ravel()
    assert np.array_equal(unpack_weights(plain, (2, 4, 3, 5), "NHWC", False), weights)
    line = weights[:, :, 0].transpose(0, 2, 1).ravel()
    assert np.array_equal(unpack_weights(line, (4, 3, 5), "NWC", False), weights[:, :, 0])
    with pytest.raises(UnsupportedError, match="layout NHW4"):
        unpack_weights(plain, (2, 4, 3, 5), "NHW4", False)


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = S3.read_bytes()
    with pytest.raises(UnsupportedError, match="encrypted"):
        read_espdl(data[:4] + b"\1" + data[5:], "x.espdl")
    with pytest.raises(BadFileError, match="cut off: it has 5000 of 13456 bytes"):
        read_espdl(data[:5000], "x.espdl")
    with pytest.raises(UnsupportedError, match=r"Attention .*: ESP-DL computes it in a way that is not known here"):
        write_quantized(b"", {"x.espdl": data.replace(b"HardSwish\0", b"Attention\0")})
    with pytest.raises(BadFileError, match=r"2 files are .espdl"):
        write_quantized(b"", {"a.espdl": data, "b.espdl": data})
    other = tmp_path / "other.cfg"
    other.write_text("x")
    for words, wanted in (
        (["-m", f"{S3},{S3}"], "two files of kind espdl"),
        (["-m", str(S3), "--quantization", str(other)], "states its own; leave it out"),
        (["inspect", str(S3), "--shape", "input.1=1,2"], "shapes of"),
    ):
        assert main(words) == 2
        assert wanted in capsys.readouterr().err


def test_commands_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["quantize", str(S3), "-o", "q.onnx"]) == 0
    assert "qverify -m q.onnx --arithmetic esp32-s3" in capsys.readouterr().out
    assert main(["compile", str(S3), "-o", "m.bin"]) == 0
    assert main(["inspect", str(S3)]) == 0
    assert "input: input.1, int8, 1x16x16x3" in capsys.readouterr().out
    assert main(["-m", f"{S3},m.bin", "-b", "local", "-r", "True", "--capture", "kept"]) == 0
    assert main(["replay", "kept"]) == 0
    faulty = "faulty:local?fault=bitflip@/Add_output_0"
    assert main(["-m", str(S3), "-b", faulty, "-r", "True"]) == 1
    assert "blame: board at /Add_output_0" in capsys.readouterr().out


def _damaged(data: bytes, draw: random.Random) -> Iterator[bytes]:
    for _ in range(250):
        changed = bytearray(data)
        for _ in range(draw.choice((1, 1, 2, 8))):
            at = draw.randrange(len(changed))
            changed[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        yield bytes(changed)
    for at in range(0, len(data), 499):
        yield data[:at]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_damaged_files_end_in_one_line(path: Path) -> None:
    refused = 0
    for data in _damaged(path.read_bytes(), random.Random(7)):
        try:
            write_quantized(b"", {"x.espdl": data})
        except QVerifyError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 50

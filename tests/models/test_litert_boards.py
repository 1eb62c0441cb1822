"""Real .tflite files on a board that runs LiteRT: every tensor paired with the quantized ONNX's, none off by more than 1 LSB when
recomputed, nobody blamed, and the tensors are those of LiteRT's own dumps."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.session.models import open_models

from tests.conftest import MODELS, need_models
from tests.spoiled_litert import SPOILS

pytestmark = [
    need_models(),
    pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed"),
]


def verify(name: str, tmp_path: Path, options: str, *words: str, offers: str = "") -> tuple[int, dict]:
    """Returns exit status and report of the main job with the network's .tflite and the ONNX of its weights. offers:
    "finals:" for a board that shows its outputs alone."""
    onnx, tflite = (next((MODELS / name).glob(pattern)) for pattern in ("*_tfl_*_qdq.onnx", "*.tflite"))
    report = tmp_path / "report.json"
    board = f"{offers}local?runtime=litert{options}"
    status = main(["-m", f"{onnx},{tflite}", "-b", board, "-r", "True", "-q", "--json", str(report), *words])
    return status, json.loads(report.read_text())


def board_pair(report: dict) -> dict:
    return next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))


@pytest.mark.parametrize("kernels", ["reference", "optimized", "xnnpack"])
@pytest.mark.parametrize("name", ["ad_toycar", "kws_mlperf_int8", "mbv1_025_128_qat", "resnet8_cifar10", "vww_96"])
def test_every_tensor_is_paired_and_nobody_is_blamed(name, kernels, tmp_path):
    status, report = verify(name, tmp_path, f"&kernels={kernels}")
    own = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "simulator"))
    board = board_pair(report)
    assert board["coverage"]["compared"] == own["coverage"]["compared"] == len(board["tensors"]) > 10
    forced = [row["forced"] for row in board["tensors"]]
    assert all(f["verdict"] == "PASSED" and (f["max_lsb"] or 0) <= 1 for f in forced)
    assert report["blame"] is None and not any(f["unexplained"] for f in forced)
    assert (status, board["verdict"]) == (0, "PASSED")
    assert board["bit_equal"] or board["node_by_node"]["tensors"] > 0


@pytest.mark.parametrize(
    ("name", "dump", "kernels"),
    [
        ("resnet8_cifar10", "resnet8_cifar10_tfl_ref", "reference"),
        ("resnet8_cifar10", "resnet8_cifar10_tfl_opt", "optimized"),
        ("kws_mlperf_int8", "kws_mlperf_int8_tfl_ref", "reference"),
        ("vww_96", "vww_96_tfl_ref", "reference"),
    ],
)
def test_the_tensors_are_those_of_litert_itself(name, dump, kernels, tmp_path):
    onnx, tflite = (next((MODELS / name).glob(pattern)) for pattern in ("*_tfl_*_qdq.onnx", "*.tflite"))
    with np.load(MODELS / "golden" / f"{dump}.npz") as kept:
        golden = {n: kept[n] for n in kept.files}
    np.save(tmp_path / "x.npy", golden.pop("__input_float"))
    words = ["infer", "-m", f"{onnx},{tflite}", "-i", str(tmp_path / "x.npy"), "--side", "board"]
    assert main([*words, "-b", f"local?runtime=litert&kernels={kernels}", "-o", str(tmp_path / "out")]) == 0
    about = json.loads((tmp_path / "out" / "dump.json").read_text())
    files = {t["name"]: tmp_path / "out" / t["file"] for t in about["tensor"]}
    for tensor, wanted in golden.items():
        assert np.array_equal(np.load(files[tensor]).reshape(wanted.shape), wanted), tensor


def test_a_fault_in_it_is_found_at_its_node(tmp_path):
    """The weights of each convolution in turn are wrong in the board's copy of the file."""
    onnx = next((MODELS / "resnet8_cifar10").glob("*_tfl_*_qdq.onnx"))
    graph = open_models([str(onnx)]).graph
    convolutions = [n for n in graph.nodes if n.op == "conv"]
    assert len(convolutions) == 9
    (tmp_path / "spoils.py").write_text(SPOILS.replace("{weights}", str(tmp_path / "weights")))
    python = f"{sys.executable} {tmp_path / 'spoils.py'}".replace(" ", "%20")
    for node in convolutions:
        weights = graph.constants[node.inputs[1] or ""]
        (tmp_path / "weights").write_bytes(weights.transpose(0, 2, 3, 1).tobytes())
        status, report = verify("resnet8_cifar10", tmp_path, f"&python={python}")
        assert status == 1 and (report["blame"]["side"], report["blame"]["node"]) == ("board", node.outputs[0])


def test_a_delegate_that_cannot_be_loaded_is_one_line(tmp_path, capsys):
    status, report = verify("resnet8_cifar10", tmp_path, "&delegate=/nonexistent/libvx_delegate.so")
    assert status == 3 and report["verdict"] == "INCONCLUSIVE"
    assert "delegate /nonexistent/libvx_delegate.so" in capsys.readouterr().out


def test_under_xnnpack_every_tensor_is_seen_each_node_by_itself(tmp_path):
    """Final outputs are those of the joined nodes; alone they are all that is compared."""
    _, report = verify("resnet8_cifar10", tmp_path, "&kernels=xnnpack")
    pair = board_pair(report)
    assert pair["coverage"]["compared"] > 10 and report["blame"] is None
    assert any("nodes ran on XNNPACK" in n for n in report["notes"])
    assert any("joined, as in use" in n for n in report["notes"])
    _, report = verify("resnet8_cifar10", tmp_path, "&kernels=xnnpack", offers="finals:")
    assert board_pair(report)["coverage"]["compared"] == 1


def swapped(entries: dict, one: str, other: str) -> dict:
    """Returns the map with two of its tensors exchanged."""
    return {
        **entries,
        one: {**entries[one], "tfl": entries[other]["tfl"]},
        other: {**entries[other], "tfl": entries[one]["tfl"]},
    }


def test_a_map_that_does_not_fit_is_refused(tmp_path, capsys):
    onnx, tflite = (next((MODELS / "resnet8_cifar10").glob(p)) for p in ("*_tfl_*_qdq.onnx", "*.tflite"))
    entries = json.loads(Path(f"{onnx}.map.json").read_text())
    (tmp_path / "q.onnx").write_bytes(onnx.read_bytes())
    name = next(iter(entries))
    for text, said in (
        ("[]", "wanted an object of ONNX tensors"),
        ("{", "not JSON"),
        (json.dumps({**entries, name: {"tfl": -1, "shape": [1]}}), "a tensor's index"),
        (json.dumps({**entries, "another": entries[name]}), "two ONNX tensors are mapped to tensor 0"),
        (json.dumps({k: v for k, v in entries.items() if k != name}), "the map names no tensor"),
        (json.dumps({**entries, name: {"tfl": 0, "shape": [1, 32, 32, 4]}}), "and the ONNX has"),
        (json.dumps({**entries, name: {**entries[name], "tfl": 999}}), "is mapped to tensor 999, and"),
        *(
            (json.dumps(swapped(entries, *pair)), "the map is wrong")
            for pair in zip(entries, list(entries)[1:], strict=False)
        ),
    ):
        (tmp_path / "q.onnx.map.json").write_text(text)
        assert main(["-m", f"{tmp_path / 'q.onnx'},{tflite}", "-b", "local?runtime=litert"]) == 2
        assert said in capsys.readouterr().err
    (tmp_path / "q.onnx.map.json").unlink()
    assert main(["-m", f"{tmp_path / 'q.onnx'},{tflite}", "-b", "local?runtime=litert"]) == 2
    assert "no map of its tensors" in capsys.readouterr().err
    assert main(["-m", str(tflite), "-b", "local?runtime=litert&kernels=reference", "-r", "True", "-q"]) == 0  # alone

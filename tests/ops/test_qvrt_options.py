"""qvrt in the spelling of hrt_model_exec: what each option does, and which are refused by name."""

from __future__ import annotations

import csv
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import decode, encode
from qverify.sides.simulator import Simulator

from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_preprocessing import compiled

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")


def qvrt(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(binary()), *words], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def folder(tmp_path: Path, digits: Path) -> Path:
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(tmp_path / "m.bin")]) == 0
    np.random.default_rng(1).random((1, 1, 8, 8), np.float32).tofile(tmp_path / "x.bin")
    (tmp_path / "out").mkdir()
    return tmp_path


INFER = ("infer", "--model_file=m.bin", "--input_file=x.bin", "--dump_path=out")


def quantized_output(folder: Path) -> Graph:
    """m.bin with the quantized tensor before its dequantize as the output."""
    graph = decode((folder / "m.bin").read_bytes())
    (last,) = [n for n in graph.nodes if n.outputs == graph.outputs]
    graph.nodes.remove(last)
    del graph.tensors[graph.outputs[0]]
    graph.outputs = (last.inputs[0],)
    graph.nodes = [n for n in graph.nodes if n.outputs]
    (folder / "m.bin").write_bytes(encode(graph))
    return graph


def test_outputs_as_real_values(folder: Path) -> None:
    graph = quantized_output(folder)
    spec = graph.tensors[graph.outputs[0]]
    assert spec.quantized and spec.numpy_dtype.kind in "iu"
    words = (*INFER, "--enable_dump=true", "--remove_padding_process=true")
    assert qvrt(*words, folder=folder).returncode == 0
    (raw,) = (folder / "out").glob("model_infer_output_0_*.bin")
    stored = np.fromfile(raw, spec.dtype)
    raw.unlink()
    done = qvrt(*words, "--hybrid_dequantize_process=true", "--dump_format=txt", "--dump_precision=12", folder=folder)
    assert done.returncode == 0, done.stderr
    (text,) = (folder / "out").iterdir()
    scale, zero = np.float32(spec.scale[0]), int(spec.zero_point[0])
    wanted = (stored.astype(np.int64) - zero).astype(np.float32) * scale
    assert np.array_equal(np.loadtxt(text).astype(np.float32), wanted) and len(set(stored)) > 1


@pytest.mark.parametrize("axis", [0, 1, 2, 3, 4, 8])
def test_a_line_of_text_has_the_dims_from_its_axis_on(folder: Path, axis: int) -> None:
    done = qvrt(*INFER, "--dump_intermediate=3", f"--dump_txt_axis={axis}", folder=folder)
    assert done.returncode == 0, done.stderr
    graph = decode((folder / "m.bin").read_bytes())
    checked = 0
    for text in (folder / "out").glob("*.txt"):
        names = [n for n in graph.tensors if text.stem.split("_", 2)[2] == n]
        shape = graph.tensors[names[0]].shape
        lines = text.read_text().splitlines()
        assert {len(line.split()) for line in lines} == {int(np.prod(shape[axis:]))}
        assert len(lines) * int(np.prod(shape[axis:])) == int(np.prod(shape))
        checked += 1
    assert checked >= 5


def test_the_part_of_a_resizers_frame_in_the_vendors_spelling(tmp_path: Path) -> None:
    """left,top,right,bottom: right and bottom belong to the part."""
    graph = compiled({"format": "rgb", "source": "64x48", "width_align": 16})
    (tmp_path / "m.bin").write_bytes(encode(graph))
    frame = np.random.default_rng(8).integers(0, 256, (48, 64, 3), np.uint8)
    np.save(tmp_path / "a.npy", frame)
    asked = InputRequest(str(tmp_path / "a.npy"), tables={"x": {"roi": "10,6,40,30"}})
    prepared = prepared_inputs(graph, asked)
    (tmp_path / "x.bin").write_bytes(prepared.inputs[0].data)
    (tmp_path / "out").mkdir()
    wanted = Simulator(graph).run(prepared).tensors["x"]
    words = (*INFER, "--dump_intermediate=3", "--roi_infer=true")
    done = qvrt(*words, "--roi=10,6,49,35", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (out,) = (tmp_path / "out").glob("node_*_x.bin")
    assert out.read_bytes() == wanted.tobytes()
    assert qvrt(*words, "--roi=10,6,50,35", folder=tmp_path).returncode == 0
    assert out.read_bytes() != wanted.tobytes()
    for roi, said in (
        ("10,6,49", "wanted left,top,right,bottom for input x.roi"),
        ("10,6,9,35", "is empty"),
        ("10,6,49,35;1,2,3,4", "more parts than the 1 resizer inputs"),
        ("10,6,64,35", "wanted 1 x 1 or more within 64 x 48"),
        ("-1,6,49,35", "wanted left,top,right,bottom"),
        ("99999999999999999999,6,49,35", "wanted left,top,right,bottom"),
    ):
        done = qvrt(*words, f"--roi={roi}", folder=tmp_path)
        assert done.returncode in (2, 3) and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["infer", "--model_name=m"], "--model_name: a model.bin holds one model"),
        (["perf", "--model_name=m"], "--model_name: a model.bin holds one model"),
        (["model_info", "--model_name=m"], "--model_name: a model.bin holds one model"),
        (["infer", "--enable_cls_post_process=true"], "--enable_cls_post_process: qvrt computes the network's outputs"),
        (["infer", "--dequantize_process=true"], "--dequantize_process: what its file holds is not published"),
        (["infer", "--input_stride=1,1"], "--input_stride: the model.bin says"),
        (["infer", "--input_valid_shape=1"], "--input_valid_shape: the model.bin says"),
        (["infer", "--input_img_properties=Y"], "--input_img_properties: the model.bin says"),
        (["infer", "--hybrid_dequantize_process=true"], "wanted --enable_dump=true and --dump_format=txt"),
        (["infer", "--roi=1,2,3,4"], "--roi: wanted --roi_infer=true beside it"),
        (["infer", "--roi_infer=true"], "--roi_infer: wanted --roi=left,top,right,bottom"),
        (["infer", "--roi_infer=true", "--roi=1,2,3,4"], "--roi: the model has no resizer input"),
        (["infer", "--dump_txt_axis=-1"], "wanted a number from 0 to 8"),
        (["infer", "--dump_format=csv"], "wanted bin or txt"),
        (["infer", "--core_id=1025"], "wanted a number from 0 to 1024"),
        (["infer", "--core_id=1024"], "cannot stay on processor 1023"),
        (["infer", "--thread_num=0"], "--thread_num=0: wanted a number from 1 to 64"),
        (["perf", "--perf_time=soon"], "wanted minutes from 0 to 100000"),
        (["perf", "--perf_time=nan"], "wanted minutes from 0 to 100000"),
        (["perf", "--profile_path=/nowhere"], "--profile_path=/nowhere: cannot be written"),
        (["perf", "--dump_intermediate=1"], "unknown option --dump_intermediate=1"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_what_qvrt_cannot_mean_is_refused_by_name(folder: Path, words: list[str], said: str) -> None:
    more = ["--input_file=x.bin"] if words[0] == "infer" else []
    done = qvrt(words[0], "--model_file=m.bin", *more, *words[1:], folder=folder)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not list((folder / "out").iterdir())


def test_defaults_of_hrt_model_exec_written_out_are_accepted(folder: Path) -> None:
    words = ["--core_id=0", "--frame_count=1", "--enable_cls_post_process=false", "--hybrid_dequantize_process=false"]
    words += ["--roi_infer=false", "--dump_txt_axis=4", "--dump_precision=9", "--dump_intermediate=0"]
    assert qvrt(*INFER, *words, "--dump_format", "bin", "--thread_num", "2", folder=folder).returncode == 0
    assert not list((folder / "out").iterdir())


def test_of_an_option_given_twice_the_last_counts(folder: Path) -> None:
    done = qvrt(*INFER, "--enable_dump=false", "--enable_dump=true", "--dump_dir=elsewhere", folder=folder)
    assert done.returncode == 0 and len(list((folder / "out").iterdir())) == 1
    (folder / "other").mkdir()
    words = [w for w in INFER if not w.startswith("--dump_path")]
    assert qvrt(*words, "--enable_dump", "--dump_dir=other", folder=folder).returncode == 0
    assert len(list((folder / "other").iterdir())) == 1


def test_perf_of_a_time_with_a_profile_on_one_processor(folder: Path) -> None:
    core = min(os.sched_getaffinity(0)) + 1
    words = ("--perf_time=0.003", "--profile_path=out", "--thread_num=2", f"--core_id={core}", "--frame_count=1")
    done = qvrt("perf", "--model_file=m.bin", *words, folder=folder)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert int(said["frame count"]) > 1 and said["threads"] == "2"
    graph = decode((folder / "m.bin").read_bytes())
    rows = list(csv.DictReader((folder / "out" / "profiler.csv").read_text().splitlines()))
    assert [row["op"] for row in rows] == [n.op for n in graph.nodes]
    assert all(float(r["least_ms"]) <= float(r["mean_ms"]) <= float(r["most_ms"]) for r in rows)
    assert f"{said['frame count']} frames, {len(rows)} nodes" in (folder / "out" / "profiler.log").read_text()

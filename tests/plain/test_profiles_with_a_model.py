"""Vendors' dumps (synthetic: made here from the simulator's tensors) against a model's scales, names and order of outputs, and
against a capture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.session.models import open_models


@pytest.fixture(scope="module")
def sides(digits: Path, tmp_path_factory: pytest.TempPathFactory):
    """Folder with sim/ (stored values), real.npz (the same, dequantized), and the graph."""
    root = tmp_path_factory.mktemp("sides")
    quant = str(digits / "digits_quant.onnx")
    assert main(["infer", "-m", quant, "--side", "simulator", "-o", str(root / "sim")]) == 0
    graph = open_models([quant]).graph
    listed = json.loads((root / "sim" / "manifest.json").read_text())["tensors"]
    stored = {name: np.load(root / "sim" / file) for file, name in listed.items()}
    real = {n: graph.tensors[n].dequantized(v).astype(np.float32) for n, v in stored.items()}
    np.savez(root / "real.npz", **real)
    return root, quant, graph, stored


def native(root: Path, stored: dict[str, np.ndarray]) -> str:
    (root / "output" / "Result_0").mkdir(parents=True)
    for name, values in stored.items():
        end = "_native.raw" if values.dtype == np.uint8 else ".raw"
        (root / "output" / "Result_0" / f"{name}{end}").write_bytes(values.tobytes())
    return str(root / "output")


def test_scales_come_from_the_model_and_it_is_said(sides, tmp_path, capsys):
    root, quant, _, stored = sides
    path = native(tmp_path, stored)
    assert main(["compare", str(root / "sim"), path]) == 0
    assert main(["compare", str(root / "real.npz"), path]) == 3 and "-m states its type" in capsys.readouterr().out
    assert main(["compare", str(root / "real.npz"), path, "-m", quant]) == 0
    shown = capsys.readouterr().out
    assert "scale and zero point of -m: 7" in shown and "dequantized: 7" in shown
    assert main(["compare", path, str(root / "real.npz"), "-m", quant]) == 0


def test_a_scale_of_six_decimals_gives_way_to_the_models_where_it_can_be_the_same(sides, tmp_path, capsys):
    root, quant, graph, stored = sides

    def container(off: float) -> str:
        parts = [b"isFloat: 0\n"]
        for at, (name, values) in enumerate(stored.items()):
            spec = graph.tensors[name]
            held = np.ascontiguousarray(values.transpose(0, 2, 3, 1)) if values.ndim == 4 else values
            if spec.scale:
                head = f"//out 0 s: {spec.scale[0] + off:f} z: {spec.zero_point[0]} type: SGS_U8 name: {name} bConstant:0 shape:{list(held.shape)} dims:{held.ndim}"
                parts.append(
                    f"{head}\nop_out[{at}] OP = {{\n//buffer data size: {held.size}\n".encode()
                    + held.tobytes()
                    + b"\n};\n"
                )
        (tmp_path / "sigma_outtensor_dump.bin").write_bytes(b"".join(parts))
        return str(tmp_path / "sigma_outtensor_dump.bin")

    real = {n: v for n, v in np.load(root / "real.npz").items() if graph.tensors[n].scale}
    np.savez(tmp_path / "real.npz", **real)
    assert main(["compare", str(tmp_path / "real.npz"), container(0), "-m", quant]) == 0
    assert "scale and zero point of -m" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "real.npz"), container(0.001), "-m", quant, "-c", "2"]) == 1


def test_outputs_by_their_place_in_the_model(sides, tmp_path, capsys):
    _, quant, _, stored = sides
    np.savez(tmp_path / "a.npz", prob=stored["prob"])
    (tmp_path / "b").mkdir()
    for file, status in (
        ("model_infer_output_0.bin", 0),
        ("model_infer_output_0_prob.bin", 0),
        ("model_infer_output_1_prob.bin", 3),
    ):
        (tmp_path / "b" / file).write_bytes(stored["prob"].tobytes())
        assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b"), "-m", quant]) == status, file
        (tmp_path / "b" / file).unlink()
    assert "its file says output 1; the model has 1 output" in capsys.readouterr().out


def test_against_a_capture(sides, tmp_path, capsys):
    _, quant, _, stored = sides
    assert main(["-m", quant, "-b", "local", "--capture", str(tmp_path / "run")]) == 0
    path = native(tmp_path, stored)
    assert main(["compare", str(tmp_path / "run"), path, "--side", "simulator"]) == 0
    assert "8 of 8 tensors" in capsys.readouterr().out


def test_two_vendors_dumps_against_each_other(tmp_path, capsys):
    """A TIDL trace under its true name, Qualcomm's under its own spelling of it."""
    values = np.random.default_rng(1).standard_normal((1, 3, 4, 5)).astype(np.float32)
    output, traces = native(tmp_path, {"_conv_out": values}), tmp_path / "traces"
    traces.mkdir()
    (traces / "tidl_trace_subgraph_0_0007_0001_0001_00001_00003_00005x00004_float.bin").write_bytes(values.tobytes())
    (traces / "subgraph_0_tidl_net.bin.layer_info.txt").write_text("1 7 /conv/out\n")
    for pair in ((str(traces), output), (output, str(traces))):
        assert main(["compare", *pair]) == 0
        shown = capsys.readouterr().out
        assert "_conv_out is /conv/out" in shown and "60 elements compared" in shown


def test_two_files_of_one_output_are_not_chosen_from(sides, tmp_path, capsys):
    _, quant, _, stored = sides
    np.savez(tmp_path / "a.npz", prob=stored["prob"])
    (tmp_path / "b").mkdir()
    for file in ("model_infer_output_0.bin", "model_infer_output_0_prob.bin"):
        (tmp_path / "b" / file).write_bytes(stored["prob"].tobytes())
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b"), "-m", quant]) == 3
    assert "two of the dump's outputs are 'prob'" in capsys.readouterr().out


def test_aligned_bytes_in_the_layout_of_model_bin(digits, tmp_path, capsys):
    """A raw file as long as model.bin's aligned tensor is cut as model.bin says."""
    binary = str(tmp_path / "model.bin")
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", binary, "--align", "64"]) == 0
    graph = open_models([binary]).graph
    name, spec = next(
        (n, s) for n, s in graph.tensors.items() if s.aligned_shape != s.shape and n not in graph.constants
    )
    values = np.random.default_rng(1).integers(0, 255, spec.shape).astype(spec.numpy_dtype)
    np.savez(tmp_path / "a.npz", **{name: values})
    (tmp_path / "output" / "Result_0").mkdir(parents=True)
    file = tmp_path / "output" / "Result_0" / f"{name}_native.raw"
    file.write_bytes(spec.aligned_bytes(values))
    words = ["compare", str(tmp_path / "a.npz"), str(tmp_path / "output")]
    assert main([*words, "-m", binary]) == 0 and main(words) == 3
    file.write_bytes(spec.aligned_bytes(values + spec.numpy_dtype.type(1)))
    assert main([*words, "-m", binary]) == 1


def manifest(root: Path, stored: dict[str, np.ndarray], scales: dict[str, str], ending: str) -> str:
    """Writes a dump with a manifest whose scales are these texts."""
    root.mkdir()
    entries = []
    for at, (name, values) in enumerate(stored.items()):
        (root / f"{at}.bin").write_bytes(values.tobytes())
        facts = {"name": name, "file": f"{at}.bin", "dtype": values.dtype.name, "shape": list(values.shape)}
        entries.append({key: json.dumps(value) for key, value in facts.items()})
        if name in scales:
            entries[-1] |= dict(zip(("scale", "zero_point"), scales[name].split(), strict=True))
    tables = ["".join(f"{key} = {value}\n" for key, value in entry.items()) for entry in entries]
    text = "\n".join(f"[[tensor]]\n{table}" for table in tables)
    if ending == "json":
        objects = [", ".join(f'"{key}": {value}' for key, value in entry.items()) for entry in entries]
        text = '{"tensor": [' + ", ".join(f"{{{each}}}" for each in objects) + "]}"
    (root / f"dump.{ending}").write_text(text)
    return str(root)


@pytest.mark.parametrize("ending", ["toml", "json"])
@pytest.mark.parametrize(
    ("printed", "factor", "is_models"),
    [
        ("{:.6f}", 1, True),
        ("{:.9g}", 1, True),
        ("{:#.3g}", 1, True),
        ("{:.17g}", 1, True),
        ("{:.17g}", 1 + 2**-26, True),
        ("{:.6f}", 1.01, False),
        ("{:.9g}", 1 + 1e-6, False),
        ("{:.1g}", 1, False),
        ("{:.17g}", 1 + 1e-7, False),
    ],
)
def test_a_printed_scale_of_a_manifest_gives_way_to_the_models(
    sides, tmp_path, capsys, printed, factor, is_models, ending
):
    root, quant, graph, stored = sides
    quantized = {n: v for n, v in stored.items() if graph.tensors[n].scale}
    texts = {n: f"{printed.format(s.scale[0] * factor)} {s.zero_point[0]}" for n, s in graph.tensors.items() if s.scale}
    path = manifest(tmp_path / "b", quantized, texts, ending)
    np.savez(tmp_path / "a.npz", **{n: v for n, v in np.load(root / "real.npz").items() if n in quantized})
    status = main(["compare", str(tmp_path / "a.npz"), path, "-m", quant, "--rule", "numpy", "-c", "9"])
    shown = capsys.readouterr().out
    assert ("scale and zero point of -m" in shown, "which -m contradicts" in shown) == (is_models, not is_models)
    assert status == 1 or is_models


def test_integers_under_the_name_of_a_dequantized_output_have_the_scale_of_the_model(sides, tmp_path, capsys):
    _, quant, graph, stored = sides
    real, spec = next(iter(graph.stored().items()))
    assert real in graph.outputs and spec.scale
    np.savez(tmp_path / "a.npz", **{real: spec.dequantized(stored[spec.name]).astype(np.float32)})
    stated = {real: f"{spec.scale[0]:f} {spec.zero_point[0]}"}
    for at, scales in enumerate(({}, stated, {real: f"{spec.scale[0] * 1.2:f} {spec.zero_point[0]}"})):
        path = manifest(tmp_path / str(at), {real: stored[spec.name]}, scales, "toml")
        status = main(["compare", str(tmp_path / "a.npz"), path, "-m", quant, "--outputs-only"])
        assert status == (at == 2) and ("scale and zero point of -m" in capsys.readouterr().out) == (at < 2)
    np.savez(tmp_path / "a.npz", **{real: spec.dequantized(stored[spec.name]).astype(np.float32) + spec.scale[0]})
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "0"), "-m", quant, "--outputs-only"]) == 1

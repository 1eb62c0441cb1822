"""Files of tpu-mlir: names of the toolkit, order, scales of the text, the dump of bmodel_checker, criteria. Real files where
they are beside the project, else files made here in their form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.session.offline.locate_dumps import resolve_names
from qverify.vendor_files.tpu_mlir_names import cast_of, dumped_name, main_names, stems
from qverify.vendor_files.vendor_dump import VendorDump, VendorTensor

REAL = Path(__file__).parents[3] / "shared" / "vendor-real" / "tpu-mlir-1.30.2" / "resnet8"
need_real = pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/vendor-real")


def compare(tmp_path: Path, *words: str) -> dict:  # type: ignore[type-arg]
    """Returns the JSON report of `qverify compare`, with its exit status."""
    out = tmp_path / "report.json"
    status = main(["compare", "-q", *words, "--json", str(out)])
    return {**json.loads(out.read_text()), "status": status}


def missing(report: dict) -> list[str]:  # type: ignore[type-arg]
    return [each["tensor"] for each in report["pairs"][0]["coverage"]["missing"]]


def rows(report: dict) -> dict[str, dict]:  # type: ignore[type-arg]
    return {row["name"]: row for row in report["pairs"][0]["tensors"]}


@need_real
def test_every_tensor_of_bmodel_checkers_dump_is_paired_or_named(tmp_path: Path) -> None:
    words = [str(REAL / f) for f in ("bmodel_checker_outputs-last-22.npz", "resnet8_bm1684x_int8_sym_tpu_outputs.npz")]
    report = compare(tmp_path, *words, "--profile", "sophgo")
    compared = rows(report)
    assert len(compared) == 12 and all(row["bit_equal"] for row in compared.values())
    assert compared["t29_model_activation_4_Relu_Relu"]["shape"] == [1, 32, 16, 16]
    noted = next(n for n in report["notes"] if "inserted by the toolkit" in n and "load_" in n)
    assert "not compared: 5:" in noted  # two loads, weights, bias, table
    assert [name[:3] for name in missing(report)] == ["t22", "t23", "t24", "t25", "t26", "t27", "t28"]


@need_real
def test_the_tools_own_numbers_and_the_order_of_the_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(REAL / f) for f in ("resnet8_bm1684x_int8_sym_tpu_outputs.npz", "resnet8_top_outputs-last-6.npz")]
    report = compare(tmp_path, *words, "--profile", "sophgo", "--criteria", "sophgo:0.90,0.80")
    assert [*rows(report)] == [
        "t32_model_conv2d_8_BiasAdd_Conv",
        "t33_model_activation_6_Relu_Relu",
        "t34_model_average_pooling2d_AvgPool_GlobalAveragePool",
        "t35_model_flatten_Reshape_Reshape",
        "t36_model_dense_MatMul_Gemm",
        "t37_Identity_Softmax",
    ]
    gemm = rows(report)["t36_model_dense_MatMul_Gemm"]
    assert f"{gemm['centred_sqnr_db']:.2f}" == "26.72" and f"{gemm['euclidean_similarity']:.6f}" == "0.979865"
    assert rows(report)["t37_Identity_Softmax"]["verdict"] == "PASSED"
    capsys.readouterr()
    main(["compare", *words, "--profile", "sophgo", "--criteria", "sophgo"])
    printed = capsys.readouterr().out
    assert "[t37_Identity_Softmax] NOT_SIMILAR [FAILED]" in printed and "sqnr_similarity        = 26.721586" in printed


@need_real
@pytest.mark.parametrize(("chip", "dump"), [("bm1684x", "tpu"), ("cv181x", "model")])
def test_the_integers_of_the_cmodel_against_the_quantized_onnx(chip: str, dump: str, tmp_path: Path) -> None:
    from qverify.vendor_quantization.sophgo import write_quantized

    onnx = REAL.parents[2] / "models" / "resnet8_cifar10" / "resnet8_cifar10.onnx"
    text = REAL / f"resnet8_{chip}_int8_sym_tpu.mlir"
    quantized = write_quantized(onnx.read_bytes(), {text.name: text.read_bytes()})
    (tmp_path / "q.onnx").write_bytes(quantized.onnx)
    words = ["compile", str(tmp_path / "q.onnx"), "-o", str(tmp_path / "q.bin"), "--arithmetic", quantized.arithmetic]
    assert main(words) == 0
    words = [
        "infer",
        "-m",
        str(tmp_path / "q.bin"),
        "-i",
        str(REAL / "resnet8_in_f32.npz"),
        "-o",
        str(tmp_path / "own"),
    ]
    assert main([*words, "--dequantize"]) == 0  # float32, as the toolkit has them
    real = str(REAL / f"resnet8_{chip}_int8_sym_{dump}_outputs.npz")
    report = compare(tmp_path, str(tmp_path / "own"), real, "--profile-b", "sophgo", "-m", str(tmp_path / "q.onnx"))
    compared = rows(report)
    if chip == "bm1684x":
        assert report["status"] == 0 and report["verdict"] == "PASSED"
        assert sum(row["elements"] for row in compared.values()) == 117_918
    else:
        differing = {name for name, row in compared.items() if row["verdict"] != "PASSED"}
        assert differing == {"t37_Identity"} and len(compared) == 3  # BF16


TEXT = """#loc = loc(unknown)
module @m attributes {module.chip = "bm1684x", module.mode = "INT8"} {
    %0 = "top.Input"(%arg0) : (tensor<1x3xf32>) -> tensor<1x3xf32> loc(#loc1)
    %1 = "tpu.Cast"(%0) : (tensor<1x3xf32>) -> tensor<1x3x!quant.uniform<i8:f32, 0.5>> loc(#loc2)
    %2 = "tpu.MatMul"(%1) : (tensor<1x3xf32>) -> tensor<1x3x!quant.uniform<i8:f32, 2.500000e-01:3>> loc(#loc3)
    %3 = "tpu.Cast"(%2) : (tensor<1x3xf32>) -> tensor<1x3xf32> loc(#loc4)
}
#loc1 = loc("in")
#loc2 = loc("inout_Gemm_si8")
#loc3 = loc("out_Gemm")
#loc4 = loc("out_Gemm_f32")
"""
CODES = np.array([[1, -2, 3]], np.int8)


def test_scales_of_the_text_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "m_tpu.mlir").write_text(TEXT)
    np.savez(tmp_path / "m_tpu_outputs.npz", **{"inout_Gemm_si8": CODES, "out_Gemm": CODES})
    real = {"in_QuantizeLinear_Output": CODES * 0.5, "out": (CODES - 3.0) * 0.25}
    np.savez(tmp_path / "host.npz", **{n: v.astype(np.float32) for n, v in real.items()})
    words = [str(tmp_path / "host.npz"), str(tmp_path / "m_tpu_outputs.npz"), "--profile-b", "sophgo"]
    report = compare(tmp_path, *words)
    assert report["verdict"] == "PASSED" and [*rows(report)] == ["in_QuantizeLinear_Output", "out"]
    (tmp_path / "m_tpu.mlir").unlink()
    assert compare(tmp_path, *words)["verdict"] == "INCONCLUSIVE"


def test_a_dump_of_commands(tmp_path: Path) -> None:
    value = np.arange(12, dtype=np.float32).reshape(1, 2, 1, 2, 3)
    keys = {"a_Conv_asm_1_0_5_actual": value, "a_Conv_asm_2_1_6_actual": value, "a_Conv_asm_2_1_6_desired": value + 1}
    keys["load_a_Conv_merge_asm_1_0_3_actual"] = value
    np.savez(tmp_path / "c.npz", **keys)
    np.savez(tmp_path / "host.npz", a=value.reshape(1, 2, 2, 3))
    words = [str(tmp_path / "host.npz"), str(tmp_path / "c.npz"), "--profile-b", "sophgo"]
    assert compare(tmp_path, *words)["verdict"] == "PASSED"
    np.savez(tmp_path / "c.npz", **{**keys, "a_Conv_asm_3_1_9_actual": value * 2})
    report = compare(tmp_path, *words)
    assert report["verdict"] == "INCONCLUSIVE" and "different values" in json.dumps(report)
    np.savez(tmp_path / "c.npz", **{**keys, "a_Conv_asm_3_1_9_actual": value[:, :, :, :1]})
    assert "have parts of it" in json.dumps(compare(tmp_path, *words))


def test_the_summary_of_bmodel_checker_states_scales(tmp_path: Path) -> None:
    value = {"name": "a_Conv", "memory_type": "<1x3xsi8>", "scale": 0.5, "zero_point": 1}
    (tmp_path / "bmodel_failed_summary.json").write_text(json.dumps([{"value": value}, {"value": None}, 3]))
    np.savez(tmp_path / "c.npz", **{"a_Conv_asm_1_0_5_actual": CODES})
    np.savez(tmp_path / "host.npz", a=((CODES - 1) * 0.5).astype(np.float32))
    words = [str(tmp_path / "host.npz"), str(tmp_path / "c.npz"), "--profile-b", "sophgo"]
    assert compare(tmp_path, *words)["verdict"] == "PASSED"


def test_missing_names_are_in_the_order_of_the_dump(tmp_path: Path) -> None:
    names = [f"n{k * 7 % 31}_Conv" for k in range(31)]
    np.savez(tmp_path / "a.npz", x=CODES)
    np.savez(tmp_path / "b.npz", x=CODES, **dict.fromkeys(names, CODES))
    assert missing(compare(tmp_path, str(tmp_path / "a.npz"), str(tmp_path / "b.npz"))) == names


def test_names() -> None:
    assert stems("t_Softmax__softmax_reshape_f32")[-1] == "t_Softmax"
    assert main_names(["a_Gemm", "a_Gemm_reshape", "b_S__softmax", "b_S__softmax_f32"]) == {
        "a_Gemm": "a_Gemm",
        "b_S": "b_S__softmax_f32",
    }
    assert cast_of("xa_Relu_ui8", ["x", "a_Relu"]) == "x" and cast_of("x_Relu_f32", ["x", "x_Relu"]) == ""
    assert cast_of("xa_Relu_ui8", ["x"]) == "x" and cast_of("x_Conv_ui8", ["x"]) == ""
    assert dumped_name("a_b_asm_1_2_30_actual") == ("a_b", 30, "actual") and dumped_name("a_b") == ("a_b", -1, "")


def test_inspect_shows_a_text_and_names_built_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m_tpu.mlir").write_text(TEXT)
    assert main(["inspect", str(tmp_path / "m_tpu.mlir")]) == 0
    shown = capsys.readouterr().out
    assert "text of tpu-mlir (bm1684x, INT8)" in shown and "holds 3 ops: Cast 2, MatMul 1" in shown
    assert main(["inspect", str(tmp_path / "m_tpu.mlir"), "out_Gemm"]) == 0
    shown = capsys.readouterr().out
    assert (
        "scale       0.25" in shown and "zero point  3" in shown and "inout_Gemm_si8" not in shown.split("read by")[1]
    )
    for magic, name in ((b"\xee\xaa\x55\xff", "Sophgo's bmodel"), (b"CviModel", "Sophgo's cvimodel")):
        (tmp_path / "m").write_bytes(magic + bytes(100))
        assert main(["inspect", str(tmp_path / "m")]) == 2
        assert name in (printed := capsys.readouterr().err) and printed.count("\n") == 1
    assert main(["-m", str(tmp_path / "m_tpu.mlir"), "-b", "local"]) == 2
    assert "the text of tpu-mlir" in capsys.readouterr().err


@pytest.mark.parametrize("kept, name", [(True, "y_Softmax__softmax_reshape_f32"), (False, "y_Softmax__softmax")])
def test_of_several_stages_of_a_tensor_the_last_is_that_of_the_onnx(kept: bool, name: str) -> None:
    """The others are what the toolkit inserted before it."""
    stages = ["y_Softmax__softmax", "y_Softmax__softmax_reshape", "y_Softmax__softmax_reshape_f32"]
    tensors = [
        VendorTensor(stage, "m.npz", ("float32",), 40, bytes, (1, 10), is_inserted=kept and stage != stages[-1])
        for stage in (stages if kept else stages[:1])
    ]
    dump = VendorDump("sophgo", tensors)
    resolve_names(dump, dict.fromkeys(stages, "y"), ())
    assert [t.where for t in dump.tensors if t.name == "y"] == ["m.npz"]
    assert {*stages[: len(tensors)]} - {t.name for t in dump.tensors} == {name}

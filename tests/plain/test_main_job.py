"""The main job on the packaged example: verdicts, exit status, and everything that must never print PASSED."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.model_bin.graph import ROUNDINGS
from qverify_agents.binaries import host_architecture, runtime_path

FIRST = "relu1_QuantizeLinear_Output"


@pytest.fixture
def model_bin(digits: Path, tmp_path: Path) -> Path:
    out = tmp_path / "digits.bin"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(out)]) == 0
    return out


def run(digits: Path, model_bin: Path, *words: str) -> int:
    return main(["-m", f"{digits / 'digits_quant.onnx'},{model_bin}", *words])


def test_passed_on_three_sides_with_full_coverage(digits, model_bin, tmp_path, capsys):
    report = tmp_path / "r.json"
    assert run(digits, model_bin, "-b", "local", "-s", "True", "-r", "True", "--json", str(report)) == 0
    text = capsys.readouterr().out
    for who in ("Quanti.onnx and Arm", "Quanti.onnx and Sim", "Sim and Arm"):
        assert f"{who} result Strict check PASSED" in text
    found = json.loads(report.read_text())
    assert found["schema"] == "qverify.report/1" and found["verdict"] == "PASSED" and found["blame"] is None
    assert [p["coverage"]["compared"] for p in found["pairs"]] == [8, 8, 8]
    assert all(p["bit_equal"] for p in found["pairs"])


@pytest.mark.parametrize("kind", ["bitflip", "plus_one", "off_by_one", "zero_tail"])
def test_a_spoiled_node_is_blamed_on_the_board(digits, model_bin, tmp_path, kind):
    report = tmp_path / "r.json"
    image = tmp_path / "digit.npy"
    with np.load(digits / "digits.npz") as images:
        np.save(image, images["digit_8"])
    assert (
        run(
            digits, model_bin, "-b", f"faulty:local?fault={kind}@{FIRST}", "-i", str(image), "-r", "--json", str(report)
        )
        == 1
    )
    found = json.loads(report.read_text())
    assert (found["blame"]["side"], found["blame"]["node"]) == ("board", FIRST)
    assert found["pairs"][2]["first_divergence"]["tensor"] == FIRST


@pytest.mark.parametrize("kind", ["die", "garbage", "hang"])
def test_a_broken_board_is_inconclusive(digits, model_bin, capsys, kind):
    assert run(digits, model_bin, "-b", f"faulty:local?fault={kind}@{FIRST}", "--timeout", "1") == 3
    assert "Arm result Strict check PASSED" not in capsys.readouterr().out


def test_nan_of_the_board_never_passes(digits, model_bin, capsys):
    assert run(digits, model_bin, "-b", "faulty:local?fault=nan@prob") == 1
    assert "Arm result Strict check PASSED" not in capsys.readouterr().out


def test_finals_only_board_says_so(digits, model_bin, capsys):
    assert run(digits, model_bin, "-b", "finals:local") == 0
    assert "final outputs only: the board offers no per-node dump" in capsys.readouterr().out


def test_model_bin_of_another_onnx_is_refused(digits, model_bin, tmp_path, capsys):
    import onnx

    model = onnx.load(digits / "digits_quant.onnx")
    weight = next(i for i in model.graph.initializer if i.name == "w1_quantized")
    changed = bytearray(weight.raw_data)
    changed[0] ^= 1
    weight.raw_data = bytes(changed)
    other = tmp_path / "other.onnx"
    onnx.save(model, other)
    assert main(["-m", f"{other},{model_bin}", "-b", "local"]) == 2
    assert "compiled from another ONNX" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["-m", "absent.onnx"], 2, "No such file"),
        (["-b", "nowhere://x", "-m", "X"], 2, "no board kind"),
        (["--json", "absent/r.json"], 2, "there is no folder absent"),
        (["-i", "absent.npy"], 2, "no such file"),
        (["-c", "x"], 2, "not a valid integer"),
        (["--wrong"], 2, "No such option"),
    ],
)
def test_a_mistake_is_one_line(digits, model_bin, capsys, words, status, said):
    given = [str(digits / "digits_quant.onnx") if w == "X" else w for w in words]
    if "-m" not in given:
        given += ["-m", f"{digits / 'digits_quant.onnx'},{model_bin}"]
    got = main(given)
    text = capsys.readouterr().err
    assert got == status
    assert said in text and len(text.strip().splitlines()) == 1


def test_only_one_side_is_a_usage_error(model_bin, capsys):
    assert main(["-m", str(model_bin)]) == 2
    assert "only one side" in capsys.readouterr().err


@pytest.mark.parametrize("spoil", ["truncate", "flip", "foreign", "empty"])
def test_a_bad_model_bin_is_refused(digits, model_bin, capsys, spoil):
    data = bytearray(model_bin.read_bytes())
    if spoil == "flip":
        data[len(data) // 2] ^= 4
    changed = {"truncate": data[:-7], "flip": data, "foreign": b"RKNN" + bytes(200), "empty": b""}[spoil]
    model_bin.write_bytes(bytes(changed))
    assert run(digits, model_bin, "-b", "local") == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("case", ["shape", "dtype", "nan", "size", "count"])
def test_a_wrong_input_is_refused(digits, model_bin, tmp_path, case):
    path = tmp_path / ("x.bin" if case == "size" else "x.npy")
    array = np.zeros((1, 1, 8, 8), np.float32)
    if case == "size":
        path.write_bytes(bytes(255))
    else:
        changed = {
            "shape": array[:, :, 1:],
            "dtype": array.astype(np.float64),
            "nan": array * np.float32("nan"),
            "count": array,
        }[case]
        np.save(path, changed)
    given = f"{path},{path}" if case == "count" else str(path)
    assert run(digits, model_bin, "-i", given) == 2


@pytest.mark.parametrize("mode", ROUNDINGS[1:])
def test_simulator_equals_board_in_every_rounding_mode(digits, tmp_path, mode):
    out, report = tmp_path / "m.bin", tmp_path / "r.json"
    main(["compile", str(digits / "digits_quant.onnx"), "-o", str(out), "--rounding", mode, "--no-check"])
    assert main(["-m", str(out), "-b", "local", "-s", "True", "--json", str(report)]) == 0
    assert json.loads(report.read_text())["pairs"][0]["bit_equal"]


@pytest.mark.parametrize("align", [1, 16, 17])
def test_aligned_models_agree(digits, tmp_path, align):
    out = tmp_path / "m.bin"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(out), "--align", str(align)]) == 0
    assert run(digits, out, "-b", "local", "-r") == 0


def test_compile_is_reproducible(digits, tmp_path):
    outs = [tmp_path / n for n in ("a.bin", "b.bin")]
    for out in outs:
        main(["compile", str(digits / "digits_quant.onnx"), "-o", str(out)])
    assert outs[0].read_bytes() == outs[1].read_bytes()


def test_a_float_model_is_refused(digits, tmp_path, capsys):
    assert main(["compile", str(digits / "digits_float.onnx"), "-o", str(tmp_path / "x.bin")]) == 2
    assert "not quantized" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_help_is_fast_to_import():
    code = "import sys; from qverify.cli.main import main; main(['--help']); print(sorted(m for m in sys.modules if m in ('numpy', 'click', 'onnx', 'onnxruntime')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, timeout=60)
    assert done.stdout.strip().endswith("[]")


def test_demo_comes_out_as_it_must(capsys):
    assert main(["demo"]) == 0
    assert "blame: board at relu2_QuantizeLinear_Output" in capsys.readouterr().out


def test_dumps_of_two_sides_compare(digits, model_bin, tmp_path):
    folders = [tmp_path / s for s in ("reference", "board")]
    for folder in folders:
        assert (
            main(
                ["infer", "-m", f"{digits / 'digits_quant.onnx'},{model_bin}", "--side", folder.name, "-o", str(folder)]
            )
            == 0
        )
    assert main(["compare", *map(str, folders)]) == 0
    (folders[1] / "prob.npy").unlink()
    assert main(["compare", *map(str, folders)]) != 0


def test_several_boards_make_one_report_that_holds_its_schema(digits, model_bin, tmp_path, capsys):
    import jsonschema

    report = tmp_path / "r.json"
    boards = ["-b", "local", "-b", f"faulty:local?fault=bitflip@{FIRST}", "-b", "faulty:local?fault=die@prob"]
    assert run(digits, model_bin, *boards, "-r", "--json", str(report)) == 1
    found = json.loads(report.read_text())
    assert found["verdict"] == "FAILED" and (found["blame"]["side"], found["blame"]["node"]) == ("board", FIRST)
    assert [p["verdict"] for p in found["pairs"] if p["b"] == "board" and p["a"] == "simulator"] == [
        "PASSED",
        "FAILED",
        "INCONCLUSIVE",
    ]
    capsys.readouterr()
    assert main(["schema"]) == 0
    jsonschema.validate(found, json.loads(capsys.readouterr().out))


def test_pull_all_moves_every_tensor(digits, model_bin, tmp_path):
    moved = []
    for pull in ("differ", "all"):
        report = tmp_path / "r.json"
        assert run(digits, model_bin, "-b", "local", "--spot-seed", "0", "--pull", pull, "--json", str(report)) == 0
        moved.append(json.loads(report.read_text())["link"]["bytes_received"])
    assert moved[1] > moved[0] + 1000


@pytest.mark.parametrize("address", ["local?address_space=20000000", "local?address_space=6000000"])
def test_a_board_without_the_memory_is_inconclusive(digits, tmp_path, capsys, address):
    """A model of many megabytes of activations, on a board of few."""
    from tests.ops.qdq import Qdq

    maker = Qdq("uint8")
    maker.output(maker.quantize(maker.op("Relu", [maker.input((1, 64, 320, 320))])))
    path = tmp_path / "big.onnx"
    path.write_bytes(maker.model().SerializeToString())
    assert main(["-m", str(path), "-b", address]) == 3
    assert "memory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("local?bogus=1", "unknown option 'bogus'"),
        ("local?memory=lots", "wanted a number of bytes"),
        ("faulty:local?fault=zork@prob", "needs ?fault=KIND@NODE"),
        ("qemu-user:mips", "known architectures"),
    ],
)
def test_a_wrong_address_is_one_line(digits, model_bin, capsys, address, said):
    assert run(digits, model_bin, "-b", address) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["infer", "--dump_all=1"], ["perf", "--zork"], ["zork"], ["agent", "--stores=x"]])
def test_qvrt_refuses_what_it_does_not_know(words):
    done = subprocess.run(
        [runtime_path(host_architecture()), *words],
        capture_output=True,
        text=True,
        timeout=20,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2 and done.stderr.startswith("qvrt")


@pytest.mark.parametrize("words", [["-b", ""], ["-i", ""], ["-b", "local", "-m", ""]])
def test_an_unset_shell_variable_is_no_default(digits, model_bin, capsys, words):
    assert run(digits, model_bin, *words) == 2
    assert "unset shell variable" in capsys.readouterr().err


def test_a_repeated_model_option_adds(digits, model_bin, capsys):
    assert main(["-m", str(model_bin), "-m", str(digits / "digits_quant.onnx"), "-b", "local"]) == 0
    assert "Quanti.onnx and Arm result Strict check PASSED" in capsys.readouterr().out


def test_raw_input_bytes_are_looked_at(digits, model_bin, tmp_path, capsys):
    np.full(64, np.nan, np.float32).tofile(tmp_path / "nan.bin")
    assert run(digits, model_bin, "-i", str(tmp_path / "nan.bin"), "-b", "local") == 2
    assert "contains NaN" in capsys.readouterr().err


def test_a_model_bin_never_checked_says_so_and_one_that_failed_is_refused(digits, tmp_path, capsys):
    from dataclasses import replace

    from qverify.model_bin.records import decode, encode

    out = tmp_path / "m.bin"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(out), "--no-check"]) == 0
    assert main(["-m", str(out), "-b", "local"]) == 0
    assert "; model.bin was never checked against its ONNX (--no-check);" in capsys.readouterr().out
    graph = decode(out.read_bytes())
    failed = {"seed": 0, "units": 8, "worst_lsb": 9.0, "over": ["logits"], "not_checked": []}
    out.write_bytes(encode(replace(graph, meta={**graph.meta, "check": failed})))
    assert run(digits, out, "-b", "local") == 2
    assert "check against the original failed" in capsys.readouterr().err


def test_links_and_devices_are_written_through(digits, tmp_path):
    target, link = tmp_path / "m.bin", tmp_path / "link.bin"
    target.write_bytes(b"old")
    link.symlink_to(target)
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(link)]) == 0
    assert link.is_symlink() and target.read_bytes()[:7] == b"QVMODEL"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", os.devnull]) == 0
    assert not Path(os.devnull).is_file()


def test_a_dump_that_says_it_is_not_whole_never_passes(digits, model_bin, tmp_path):
    folders = [str(tmp_path / n) for n in "ab"]
    for folder in folders:
        assert main(["infer", "-m", str(model_bin), "--side", "simulator", "-o", folder]) == 0
    manifest = Path(folders[1]) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"complete"', '"partial"'))
    assert main(["compare", *folders]) == 3


def test_integers_beyond_what_floats_tell_apart(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([2**53 + 1], np.int64))
    np.savez(tmp_path / "b.npz", x=np.array([2**53], np.uint64))
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--rule", "exact"]) == 1


def test_a_fault_that_cannot_strike_is_no_pass(digits, model_bin, tmp_path, capsys):
    assert run(digits, model_bin, "-b", "faulty:local?fault=bitflip@nonode") == 2
    assert "the model has no node 'nonode'" in capsys.readouterr().err
    environment = {**os.environ, "QVRT_FAULT": "bitflip@nonode"}
    (tmp_path / "x.bin").write_bytes(bytes(256))
    words = [
        str(runtime_path(host_architecture(), faulty=True)),
        "infer",
        f"--model_file={model_bin}",
        f"--input_file={tmp_path / 'x.bin'}",
    ]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode and "the model has no such node" in done.stderr


def test_an_input_of_another_name_lists_the_models_own(digits, model_bin, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    assert run(digits, model_bin, "-i", f"wrong:{tmp_path / 'x.npy'}", "-b", "local") == 2
    assert "no input of this name; the model's inputs are ['image']" in capsys.readouterr().err
    assert run(digits, model_bin, "-i", f"image:{tmp_path / 'x.npy'}", "-b", "local") == 0

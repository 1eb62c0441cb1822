"""--criteria: a vendor's thresholds are gates that the verdict line names; its lines claim no verdict of their own."""

from __future__ import annotations

import json

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.vendor_criteria import CRITERIA
from qverify.renderers.vendor_lines import VENDORS

FAULTY = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"


def pair(folder, off: np.ndarray):
    a = np.random.default_rng(0).normal(0, 1, 1000).astype(np.float64)
    np.savez(folder / "a.npz", x=a)
    np.savez(folder / "b.npz", x=a + off)
    return ["compare", str(folder / "a.npz"), str(folder / "b.npz")]


def relative(size: float) -> np.ndarray:
    """Returns a random error of this norm, in units of the norm of the signal."""
    a = np.random.default_rng(0).normal(0, 1, 1000)
    noise = np.random.default_rng(1).normal(0, 1, 1000)
    return noise * size * np.linalg.norm(a) / np.linalg.norm(noise)


def tolerated(beyond: float) -> np.ndarray:
    a = np.random.default_rng(0).normal(0, 1, 1000)
    return (0.01 + 0.005 * np.abs(a)) * beyond


CASES = {  # the largest error that passes and the smallest that fails, near the published threshold
    "horizon": (np.full(1000, 0.4e-5), np.full(1000, 0.6e-5)),
    "axera": (relative(0.18), relative(0.24)),
    "sigmastar": (relative(0.0999), relative(0.1001)),
    "tidl": (tolerated(0.999), tolerated(1.001)),
    "rockchip": (relative(0.18), relative(0.24)),
    "sophgo": (relative(0.0098), relative(0.0101)),
    "renesas": (np.zeros(1000), np.full(1000, 1e-12)),
    "rzv": (np.full(1000, 0.0019), np.full(1000, 0.05)),
}


def test_every_vendor_has_gates_lines_and_a_case():
    assert CRITERIA.keys() == VENDORS.keys() == CASES.keys()


@pytest.mark.parametrize("vendor", CASES)
def test_the_threshold_is_the_published_one(vendor, tmp_path, capsys):
    good, bad = CASES[vendor]
    for off, status, verdict in ((good, 0, "PASSED"), (bad, 1, "FAILED")):
        assert main([*pair(tmp_path, off), "--criteria", vendor, "--json", str(tmp_path / "r.json")]) == status
        printed = capsys.readouterr().out
        last = printed.splitlines()[-1]
        assert f"Strict check {verdict}" in last and f"criteria {vendor}" in last
        assert printed.count("Strict check") == 1 and f"in the words of {vendor}: A VS B" in printed
        report = json.loads((tmp_path / "r.json").read_text())
        assert report["criteria"] == vendor and f"(criteria {vendor})" in report["pairs"][0]["gate"]


def test_sophgos_numbers_are_those_of_its_tool(tmp_path, capsys):
    """npz_tool's formulas: cosine, 1 - |a-b| / |(a+b)/2|, 10 log10 of the variances of a and of a - b."""
    a = np.random.default_rng(0).normal(3, 1, 1000)
    np.savez(tmp_path / "a.npz", x=a)
    np.savez(tmp_path / "b.npz", x=(b := a * 0.9 + 0.1))
    words = ["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--criteria"]
    assert main([*words, "sophgo"]) == 1
    printed = capsys.readouterr().out
    euclid = 1 - np.linalg.norm(a - b) / np.linalg.norm((a + b) / 2)
    assert f"euclidean_similarity   = {euclid:.6f}" in printed and "[x] NOT_SIMILAR [FAILED]" in printed
    assert f"sqnr_similarity        = {10 * np.log10(a.var() / (a - b).var()):.6f}" in printed
    assert main([*words, "sophgo:0.90,0.80"]) == 0
    assert "criteria sophgo:0.90,0.80" in capsys.readouterr().out.splitlines()[-1]
    for wrong in ("sophgo:0.9", "sophgo:a,b", "axera:0.9,0.8", "sophgo:0.9,1.5"):
        assert main([*words, wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_familiar_lines(tmp_path, capsys):
    off = np.zeros(1000)
    off[:5] = 0.5
    a = np.random.default_rng(0).normal(0, 1, 1000)
    norm = np.linalg.norm(off) / np.linalg.norm(a)
    cosine = a @ (a + off) / np.linalg.norm(a) / np.linalg.norm(a + off)
    expected = {
        "horizon": ["mismatch result num: 5", "total result num: 1000", "mismatch rate: 0.005", "max abs error: 0.5"],
        "tidl": ["Mismatched elements: 5 / 1000 (0.5%)", "Max absolute difference: 0.5"],
        "rockchip": ["[-] x", "| 1.11803"],
        "axera": [f"Layer: x  2-norm RE: {100 * norm:.2f}%  cosine-sim: {cosine:.4f}"],
        "sigmastar": [f"0.x OP: - Type: float MSE: 0.001250 COS: {cosine:.6f} RMSE: {norm:.6f}"],
        "sophgo": ["[x] NOT_SIMILAR [FAILED]", "cosine_similarity      = 0.999"],
        "renesas": ["x: max abs diff: 0.5, correct ratio: 0.995"],
        "rzv": ["x: max abs diff: 0.5\n"],
    }
    for vendor, lines in expected.items():
        main([*pair(tmp_path, off), "--criteria", vendor])
        printed = capsys.readouterr().out
        assert all(line in printed for line in lines), (vendor, printed)


def test_the_ratio_of_rzv_counts_what_is_within_its_tolerances(tmp_path, capsys):
    main([*pair(tmp_path, np.full(1000, 0.004)), "--criteria", "rzv"])
    words = "x: max abs diff: 0.004, correct ratio: 1, with absolute tolerance: 0.01, relative tolerance: 0.001"
    assert words in capsys.readouterr().out


def test_nothing_finite_passes_by_a_cosine(tmp_path):
    off = np.zeros(1000)
    off[3] = np.nan
    for vendor in CRITERIA:
        assert main([*pair(tmp_path, off), "--criteria", vendor]) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--criteria", "axera", "--criteria", "horizon"],
        ["--criteria", "axera", "--min-cosine", "0"],
        ["--criteria", "tidl", "--gate", "close:atol=9"],
        ["--criteria", "sigmastar", "--gate", "sqnr:1"],
        ["--criteria", "renesas", "--rule", "numpy"],
        ["--criteria", "nvidia"],
        ["--criteria", ""],
    ],
    ids=" ".join,
)
def test_two_limits_of_one_kind_are_refused(words, tmp_path, capsys):
    assert main([*pair(tmp_path, np.zeros(1000)), *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_further_gates_hold_beside_a_vendors(tmp_path, capsys):
    words = [*pair(tmp_path, np.full(1000, 0.001)), "--criteria", "axera"]
    assert main(words) == 0
    assert main([*words, "-c", "5"]) == 1
    capsys.readouterr()
    assert main([*pair(tmp_path, np.full(1000, 0.4e-3)), "--criteria", "horizon", "-c", "3"]) == 0
    assert "judged to 3 decimals, rule half: |a-b| <= 0.5e-3" in capsys.readouterr().out.splitlines()[-1]


def test_the_bits_of_a_board_are_no_vendors_matter(tmp_path, digits, capsys):
    model = str(digits / "digits_quant.onnx")
    for vendor in CRITERIA:
        assert main(["-m", model, "-b", FAULTY, "--criteria", vendor]) == 1
        printed = capsys.readouterr().out
        assert "Sim and Arm result Strict check FAILED" in printed
    assert main(["-m", model, "-b", FAULTY, "--criteria", "axera", "--relax-board"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "relaxed by --relax-board to cosine >= 0.98 (criteria axera)" in last


def test_a_capture_keeps_its_criteria(tmp_path, digits, capsys):
    capture = str(tmp_path / "cap")
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local", "--criteria", "axera", "--capture", capture]
    assert main(words) == 0
    capsys.readouterr()
    assert main(["replay", capture]) == 0
    assert "Quanti.onnx and Arm result Strict check PASSED (judged by cosine >= 0.98 (criteria axera)" in (
        printed := capsys.readouterr().out
    ), printed


def test_tensors_of_equal_bytes_have_no_mismatched_elements_in_a_pair_that_is_judged_by_bytes(digits, capsys):
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", FAULTY, "-r", "True", "--criteria", "tidl"]
    assert main(words) == 1
    printed = capsys.readouterr().out.partition("in the words of tidl: Sim VS Arm")[2].partition("\n\n")[0]
    assert "prob: Mismatched elements: 0 / 10" in printed
    assert "relu2_QuantizeLinear_Output: Mismatched elements: not counted / 256" in printed


def test_the_rule_of_r_car_is_called_so_and_float16_of_rz_v_has_its_own(tmp_path, capsys):
    """DRP-AI of RZ/V2L rounds what each op gives to float16."""
    values = np.random.default_rng(0).normal(0, 1, 1000)
    words = pair(tmp_path, values.astype(np.float16).astype(np.float64) - values)
    assert main([*words, "--criteria", "renesas"]) == 1
    assert "R-Car's rule, not that of RZ/V" in capsys.readouterr().out.splitlines()[-1]
    assert main([*words, "--criteria", "RZ/V"]) == 0
    assert "(criteria rzv)" in capsys.readouterr().out.splitlines()[-1]

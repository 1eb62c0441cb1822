"""ST's validate: arrays, and the report that must be of the same run. The texts have the form of real reports
(Lotfi-kh/PID_adaptive_gain, ST Edge AI Core 2.2.0); the values of PID are those of its real network_val_c_outputs_1.csv."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.profile_fuzz import spoil

PID = """1.0 -9.994769692420959473e-01 -1.0 1.0 -9.985817074775695801e-01 -1.0 -1.0 -9.999988079071044922e-01 -1.0
-9.989671707153320312e-01 9.999858140945434570e-01 1.0 -9.999955296516418457e-01 9.999994039535522461e-01
9.985297322273254395e-01 -1.0 -1.0 1.0 1.0 -9.258314967155456543e-01 9.575431942939758301e-01 9.993378520011901855e-01
-5.473948121070861816e-01 -1.0 9.984534382820129395e-01 1.0 1.0 -1.0 -1.0 1.0"""
REPORT = """ST Edge AI Core v2.2.0-20266 2adc00962
Created date          : 2026-05-14 22:14:18
Parameters            : validate --model actor.onnx --target stm32 --valinput obs.npy

Saving validation data...
 output directory: st_ai_output
 creating st_ai_output/network_val_io.npz
 m_outputs_1: (10, 3)/float64, min/max=[-1.000000, 1.000000], mean/std=[-0.050547, 0.982916], action
 c_outputs_1: (10, 1, 1, 3)/float32, min/max=[-1.000000, 1.000000], mean/std=[-0.050547, 0.982916], action

Evaluation report (summary)
------------------------------------------------------------------------------------------------------------------
Output              acc    rmse          mae           l2r           mean       std        nse        cos        tensor
------------------------------------------------------------------------------------------------------------------
HOST c-model #1     n.a.   0.000000073   0.000000038   0.000000074   0.000000   0.000000   1.000000   1.000000   'action', 10 x f32(1x3), m_id=[6]
X-cross #1          n.a.   {rmse:.9f}   {mae:.9f}   {l2r:.9f}   0.000000   0.000000   1.000000   1.000000   'action', 10 x f32(1x3), m_id=[6]
"""


def validated(root: Path, npz=True, arrays=True, off=0.0, report: str | None = REPORT, inputs=None) -> Path:
    path = root / "st_ai_output"
    path.mkdir(exist_ok=True)
    c = np.array(PID.split(), np.float64).astype(np.float32).reshape(10, 1, 1, 3)
    m = c.reshape(10, 3).astype(np.float64) + np.linspace(-1e-7, 1e-7, 30).reshape(10, 3)
    error = m.ravel() - c.ravel()
    metrics = {"rmse": np.sqrt((error**2).mean()), "mae": np.abs(error).mean(), "l2r": np.linalg.norm(error)}
    metrics["l2r"] /= np.linalg.norm(m)
    held = {"m_outputs_1": m, "c_outputs_1": c + np.float32(off), **(inputs or {})}
    if npz:
        np.savez(path / "network_val_io.npz", **held)
    for name, array in held.items() if arrays else ():
        np.save(path / f"network_val_{name}.npy", array)
    if report is not None:
        (path / "network_validate_report.txt").write_text(report.format(**metrics))
    return path


SIDES = ["--side-a", "m", "--side-b", "c"]


def test_the_real_values_are_those_of_the_real_report(tmp_path, capsys):
    path = str(validated(tmp_path))
    assert main(["compare", path, path, *SIDES]) == 0
    printed = capsys.readouterr().out
    assert "1 of 1 tensor, 30 elements compared, 0 missing" in printed and "compared with itself" not in printed
    assert "report of 2026-05-14 22:14:18" in printed and "4 metrics of the report recomputed" in printed
    values = np.load(path + "/network_val_c_outputs_1.npy")
    np.save(path + "/network_val_c_outputs_1.npy", values[::-1])  # with the same statistics
    assert main(["compare", path, path, *SIDES]) == 2
    assert "network_val_c_outputs_1.npy: other values than" in capsys.readouterr().err


@pytest.mark.parametrize(("npz", "arrays"), [(True, False), (False, True)])
def test_npz_or_npy(tmp_path, npz, arrays, capsys):
    path = validated(tmp_path, npz, arrays)
    one = str(path / "network_val_io.npz") if npz else str(path)
    assert main(["compare", one, one, *SIDES]) == 0
    assert main(["compare", one, one, "--side", "c"]) == 0
    assert "compared with itself" in capsys.readouterr().out


def test_a_side_is_asked_for(tmp_path, capsys):
    path = str(validated(tmp_path))
    assert main(["compare", path, path]) == 2
    assert "contains c (the C-model), m (the original model)" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["X-cross #1  not evaluated", "E801(HwIOError): Invalid firmware - COM6:115200"])
def test_arrays_beside_a_report_of_a_failed_run_are_refused(tmp_path, line, capsys):
    path = str(validated(tmp_path, report=REPORT + line + "\n"))
    assert main(["compare", path, path, *SIDES]) == 2
    printed = capsys.readouterr().err
    assert "network_validate_report.txt: line 17" in printed and "arrays beside it are of another run" in printed
    assert printed.count("\n") == 1


def test_arrays_beside_a_report_that_saved_none_are_refused(tmp_path, capsys):
    path = str(validated(tmp_path, report=REPORT.split("Saving")[0]))
    assert main(["compare", path, path, *SIDES]) == 2
    assert "lists no array that validate saved" in capsys.readouterr().err


def test_arrays_of_another_run_than_the_reports_are_refused(tmp_path, capsys):
    path = str(validated(tmp_path, off=0.001))
    assert main(["compare", path, path, *SIDES]) == 2
    printed = capsys.readouterr().err
    assert "says min -1, the array has" in printed and "two runs" in printed
    path = str(validated(tmp_path, report=REPORT.replace("(10, 3)/float64", "(20, 3)/float64")))
    assert main(["compare", path, path, *SIDES]) == 2
    assert "says float64[20, 3], the array is float64[10, 3]" in capsys.readouterr().err


LOADED = " I[1]: (10, 4, 3, 1)/float32, min/max=[0.000000, 119.000000], mean/std=[59.500000, 34.639813]\n"
CLIPS = np.arange(120, dtype=np.float32).reshape(10, 1, 4, 3)


@pytest.mark.parametrize("loaded", [LOADED, ""])
def test_inputs_that_the_report_does_not_list_are_checked_by_what_was_loaded(tmp_path, loaded, capsys):
    inputs = {"m_inputs_1": CLIPS, "c_inputs_1": CLIPS.reshape(10, 4, 3, 1)}
    path = str(validated(tmp_path, report=REPORT.replace("Saving", loaded + "\nSaving"), inputs=inputs))
    for sides in ([path, *SIDES], []):
        assert main(["compare", path, *sides]) == 0
        printed = capsys.readouterr().out
        assert "2 of 2 tensors, 150 elements compared" in printed
        assert ("states nothing of m_inputs_1, c_inputs_1" in printed) == (not loaded)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"m_inputs_1": CLIPS + 1}, "line 5 says min 0, the array has 1: they are of two runs"),
        ({"c_inputs_1": CLIPS[:9]}, "says float32[10, 4, 3, 1], the array is float32[9, 1, 4, 3]"),
        ({"c_outputs_2": CLIPS}, "does not list c_outputs_2: they are of two runs"),
    ],
)
def test_arrays_that_the_report_contradicts_or_outputs_that_it_does_not_list(tmp_path, wrong, message, capsys):
    path = str(validated(tmp_path, report=REPORT.replace("Saving", LOADED + "Saving"), inputs=wrong))
    assert main(["compare", path, path, *SIDES]) == 2
    assert message in capsys.readouterr().err


def test_metrics_that_the_arrays_contradict(tmp_path, capsys):
    path = str(validated(tmp_path, report=REPORT.replace("{l2r:.9f}", "0.250000000")))
    assert main(["compare", path, path, *SIDES]) == 0
    printed = capsys.readouterr().out
    assert (
        "WARNING: stm32: the report is contradicted by the arrays in 1 of 4 metrics: line 16: output 1: l2r" in printed
    )


def test_an_output_that_the_report_lists_and_no_file_has_is_missing(tmp_path, capsys):
    two = REPORT.replace(
        "Evaluation", " c_outputs_2: (10, 3)/float32, min/max=[0, 0], mean/std=[0, 0], aux\nEvaluation"
    )
    path = str(validated(tmp_path, report=two))
    assert main(["compare", path, path, "--side", "c"]) == 3
    assert "the report lists c_outputs_2, but it has no file" in capsys.readouterr().out


def test_without_a_report_that_is_said_and_two_networks_are_refused(tmp_path, capsys):
    path = validated(tmp_path, report=None)
    assert main(["compare", str(path), str(path), *SIDES]) == 0
    assert "no *_validate_report.txt beside the arrays" in capsys.readouterr().out
    np.save(path / "other_val_c_outputs_1.npy", np.zeros(3))
    assert main(["compare", str(path), str(path), *SIDES]) == 2
    assert "wanted those of one network" in capsys.readouterr().err


def test_a_wrong_c_model_fails(tmp_path):
    path = str(validated(tmp_path, off=0.01, report=None))
    assert main(["compare", path, path, *SIDES]) == 1


def test_spoiled(tmp_path):
    path = validated(tmp_path)
    np.savez(tmp_path / "host.npz", action=np.zeros((10, 3)))
    spoil("stm32", str(tmp_path / "host.npz"), path, list(path.iterdir()))

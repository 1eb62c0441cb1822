"""`outputs diff` where the chip rounds in its own way: the application's other scale is named as near, never as exact."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from qverify.cli.main import main
from qverify.report.schema import outputs_schema

SCALES = {"kps_8": 0.0231547, "kps_16": 0.0121545}
SHAPES = {"kps_8": (1, 10, 8, 8), "kps_16": (1, 10, 6, 6)}
CODES = {n: np.random.default_rng(i).integers(-100, 101, s).astype(np.int8) for i, (n, s) in enumerate(SHAPES.items())}
NEAR = (
    "near, but not exactly: every value that the device wrote is a whole step of 0.0231547, the scale of kps_8; by its "
    "own scale, 0.0121545, they are those of the reference, but for rounding"
)


def explain(tmp_path: Path, device: dict[str, np.ndarray], is_real: bool = False) -> tuple[str, dict[str, object]]:
    """Returns the line on kps_16 and its part of the JSON. is_real: whether the reference has real values."""
    real = {n: (v * SCALES[n]).astype(np.float32) for n, v in CODES.items()}
    np.savez(tmp_path / "reference.npz", **(real if is_real else CODES))
    np.savez(tmp_path / "device.npz", **device)
    scales = [] if is_real else [w for n, s in SCALES.items() for w in ("--output", f"{n}={s},0")]
    words = [str(tmp_path / "reference.npz"), str(tmp_path / "device.npz"), *scales, "--seconds", "2"]
    shown = StringIO()
    with redirect_stdout(shown):
        assert main(["outputs", "diff", *words, "--json", str(tmp_path / "r.json")]) == 1
    report = json.loads((tmp_path / "r.json").read_text())
    jsonschema.validate(report, outputs_schema())
    line = next(x for x in shown.getvalue().splitlines() if x.startswith("kps_16: "))
    return line, next(part for part in report["parts"] if part["output"] == "kps_16")


def board(steps: int, scale: float) -> dict[str, np.ndarray]:
    """Returns what a chip gives that rounds up to `steps` apart, and dequantizes kps_16 by this scale."""
    apart = {n: v + np.random.default_rng(7).integers(-steps, steps + 1, v.shape) for n, v in CODES.items()}
    return {n: (v * (scale if n == "kps_16" else SCALES[n])).astype(np.float32) for n, v in apart.items()}


@pytest.mark.parametrize("moved", [False, True], ids=["NCHW", "NHWC"])
def test_the_scale_of_another_output_beside_rounding(tmp_path: Path, moved: bool) -> None:
    device = board(3, SCALES["kps_8"])
    if moved:
        device["kps_16"] = np.ascontiguousarray(device["kps_16"].transpose(0, 2, 3, 1))
    line, part = explain(tmp_path, device)
    assert line.endswith(NEAR + (" (its axes are 0 2 3 1 (NCHW stored as NHWC))" if moved else ""))
    assert part["verdict"] == "DIFFERENT" and part["exact"] == []
    assert NEAR.removeprefix("near, but not exactly: ") in str(part["notes"])


def test_any_factor_beside_rounding_of_a_reference_without_scales(tmp_path: Path) -> None:
    line, part = explain(tmp_path, board(3, SCALES["kps_8"]), is_real=True)
    assert line.endswith(
        "near, but not exactly: the values are 1.9 times those of the reference, but for rounding: a scale"
    )
    assert part["exact"] == []


def test_what_is_exact_is_no_nearness(tmp_path: Path) -> None:
    line, part = explain(tmp_path, board(0, SCALES["kps_8"]))
    assert "scale of kps_8 for kps_16 reproduces all 360 elements" in line and part["notes"] == []


@pytest.mark.parametrize("wrong", ["rounding", "noise", "offset", "nan"])
def test_what_is_not_near(tmp_path: Path, wrong: str) -> None:
    device = board(3, SCALES["kps_16"])
    if wrong == "noise":
        device["kps_16"] = (
            np.random.default_rng(8).integers(-99, 99, SHAPES["kps_16"]) * np.float32(SCALES["kps_8"])
        ).astype(np.float32)
    elif wrong == "offset":
        device["kps_16"] += np.float32(1.5)
    elif wrong == "nan":
        device = board(3, SCALES["kps_8"])
        device["kps_16"][0, 0, 0, 0] = np.nan
    line, part = explain(tmp_path, device)
    assert "near, but" not in line and part["notes"] == []

"""A node that ran on the accelerator in the baseline and falls back now fails the check of the baseline."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from qverify.cli.main import main

HTP = {"node": "conv1", "op": "Conv", "on": "HTP", "kernel": "", "fallback": False, "nodes": 1}
SOFTMAX = {"node": "softmax", "op": "Softmax", "on": "HTP", "kernel": "", "fallback": False, "nodes": 1}
COUNTED = {"node": "", "op": "Conv", "on": "CPU", "kernel": "", "fallback": True, "nodes": 2}
ON_CPU = {"on": "CPU", "fallback": True}


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    folder = tmp_path_factory.mktemp("run") / "capture"
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "local", "--capture", str(folder)]) == 0
    return folder


def placed(capture: Path, folder: Path, rows: list[dict[str, Any]]) -> str:
    """Returns a copy of the capture whose board states these places of its nodes."""
    shutil.copytree(capture, folder)
    content = json.loads((folder / "capture.json").read_text())
    board = next(side for side in content["frames"][0]["sides"] if side["side"] == "board")
    if rows:
        board["placement"] = rows
    (folder / "capture.json").write_text(json.dumps(content))
    return str(folder)


@pytest.mark.parametrize(
    ("before", "now", "status", "line"),
    [
        ([HTP, SOFTMAX], [HTP, SOFTMAX], 0, ""),
        ([HTP, SOFTMAX], [HTP, SOFTMAX | ON_CPU], 1, "frame 0 board softmax: fallback HTP -> CPU (worse)"),
        ([HTP, SOFTMAX | ON_CPU], [HTP, SOFTMAX | ON_CPU], 0, ""),
        ([HTP, SOFTMAX | ON_CPU], [HTP, SOFTMAX], 1, "softmax: fallback CPU -> HTP (better)"),
        ([HTP], [HTP, SOFTMAX | ON_CPU], 1, "softmax: fallback nowhere -> CPU (worse)"),
        ([HTP, SOFTMAX], [HTP | {"on": "GPU"}, SOFTMAX], 1, "conv1: placement HTP -> GPU (other)"),
        ([HTP, COUNTED], [HTP, COUNTED | {"nodes": 3}], 1, "(Conv on CPU): fallback CPU (2 nodes) -> CPU (3 nodes) (worse)"),
        ([HTP, COUNTED], [HTP, COUNTED | {"nodes": 1}], 0, ""),
        ([HTP, SOFTMAX], [], 1, "placement known -> not said (not known)"),
        ([], [HTP, SOFTMAX | ON_CPU], 0, ""),
    ],
)  # fmt: skip
def test_a_new_fallback_is_a_change(
    before: list[dict[str, Any]],
    now: list[dict[str, Any]],
    status: int,
    line: str,
    capture: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, old, new = (str(tmp_path / name) for name in ("baseline.json", "old", "new"))
    assert main(["baseline", "save", file, placed(capture, Path(old), before)]) == 0
    capsys.readouterr()
    assert main(["baseline", "check", file, placed(capture, Path(new), now)]) == status
    out = capsys.readouterr().out
    assert line in out and (bool(status) or "0 changes" in out)


def test_a_baseline_of_an_older_version_has_no_places(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "baseline.json"
    assert main(["baseline", "save", str(file), str(capture)]) == 0
    content = json.loads(file.read_text())
    del content["entries"][0]["placement"]
    file.write_text(json.dumps(content))
    assert main(["baseline", "check", str(file), placed(capture, tmp_path / "now", [SOFTMAX | ON_CPU])]) == 0
    content["entries"][0]["placement"] = {"0/board": {"softmax": ["HTP"]}}
    file.write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["baseline", "check", str(file), str(tmp_path / "now")]) == 2
    assert "its entry cannot be read" in capsys.readouterr().err

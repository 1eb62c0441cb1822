"""Operators of a .tflite that LiteRT has no kernel for are left out, and what depends on them; all before them is verified."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from qverify.cli.main import main

from tests.plain.test_tflite_islands import dense
from tests.tflite_files import File

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")


def network(kind: str, behind: bool = False, alone: bool = False) -> bytes:
    """Returns a FULLY_CONNECTED, an operator of the application, and one behind it. alone: without the first."""
    f = File()
    x = f.tensor("x", [1, 8], "int8", 0.04, 1)
    y = x if alone else dense(f, x, "fc")
    made = f.tensor("made", [1, 8], "int8", 0.06, 3)
    f.operator(f"CUSTOM:{kind}", [y], [made])
    f.inputs, f.outputs = [x], [dense(f, made, "last") if behind else made]
    return f.written()


@pytest.mark.parametrize(("kind", "behind"), [("PosenetDecoderOp", False), ("FlexErf", True)])
@pytest.mark.parametrize("runtime", ["qvrt", "litert"])
def test_all_before_it_is_verified(
    runtime: str, kind: str, behind: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "m.tflite"
    path.write_bytes(network(kind, behind))
    assert main(["-m", str(path), "-b", "local", "--runtime", runtime, "-r", "True"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "Strict check" in line]
    said = f"not verified: {kind}, of which LiteRT has no kernel" + (", and 1 operator behind it" if behind else "")
    assert len(lines) == 3 and all("PASSED" in line and said in line for line in lines)


def test_a_board_that_is_wrong_before_it_fails(tmp_path: Path):
    path = tmp_path / "m.tflite"
    path.write_bytes(network("PosenetDecoderOp"))
    assert main(["-m", str(path), "-b", "faulty:local?fault=plus_one@fc", "-r", "True"]) == 1


def test_nothing_before_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.tflite"
    path.write_bytes(network("PosenetDecoderOp", alone=True))
    assert main(["-m", str(path), "-b", "local", "-r", "True"]) == 2
    assert "unresolved custom op: PosenetDecoderOp" in capsys.readouterr().err

"""quantize, inputs_diff, report_diff and suite as functions, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify import errors, example

FOLDER = Path(example.__file__).parent
QUANT = str(FOLDER / "digits_quant.onnx")
WRONG = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"


@pytest.fixture
def digits() -> dict[str, np.ndarray]:
    with np.load(FOLDER / "digits.npz") as stored:
        return dict(stored)


def test_a_model_is_quantized_and_the_result_says_how_well(tmp_path, digits, capsys):
    (tmp_path / "in").mkdir()
    for name in ("digit_1", "digit_3"):
        np.save(tmp_path / "in" / f"{name}.npy", digits[name])
    done = list[str]()
    float_model = next(FOLDER.glob("*float*.onnx"))
    made = qverify.quantize(
        float_model, tmp_path / "q.onnx", inputs=tmp_path / "in", scheme="s8s8", progress=lambda *s: done.append(s[0])
    )
    assert made.calibrated_on == 2 and min(made.cosines.values()) > 0.9 and not made.blocker and done
    assert qverify.verify(made.path).passed and capsys.readouterr() == ("", "")
    with pytest.raises(errors.UsageError, match="quantized already"):
        qverify.quantize(made.path, tmp_path / "r.onnx", inputs=tmp_path / "in")
    with pytest.raises(TypeError, match="did you mean scheme"):
        qverify.quantize(float_model, tmp_path / "q.onnx", inputs=tmp_path / "in", shceme="s8s8")


def test_inputs_that_differ_are_explained(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (8, 8, 3), np.uint8)
    (tmp_path / "a.bin").write_bytes(pixels.tobytes())
    (tmp_path / "b.bin").write_bytes(np.ascontiguousarray(pixels[..., ::-1]).tobytes())
    words = {"format": "rgb", "size": "8x8", "train": "rgb", "seconds": 20.0}
    found = qverify.inputs_diff(tmp_path / "a.bin", tmp_path / "b.bin", **words)
    assert not found.equal and any("bgr" in m.lower() or "channel" in m.lower() for m in found.mistakes), str(found)
    assert found.to_json()[0]["b"].endswith("b.bin")
    assert qverify.inputs_diff(tmp_path / "a.bin", tmp_path / "a.bin", **words).equal


def test_two_reports_are_compared_in_memory_and_on_disk(tmp_path, digits):
    before = qverify.verify(QUANT, board="local", inputs=digits["digit_3"], dump_all_nodes_results=True)
    after = qverify.verify(QUANT, board=WRONG, inputs=digits["digit_3"], dump_all_nodes_results=True)
    found = qverify.report_diff(before, after)
    assert (found.change, found.exit_status, found.verdict) == ("worse", 1, "FAILED")
    assert "WORSE" in str(found)
    paths = [report.save(tmp_path / name) for report, name in ((before, "a.json"), (after, "b.json"))]
    assert qverify.report_diff(*paths).change == "worse" and qverify.report_diff(after, paths[1]).change == "same"
    assert Path(found.save(tmp_path / "d.html")).stat().st_size > 1000


def test_a_suite_runs_and_prints_nothing(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sqlalchemy")
    (tmp_path / "boards.toml").write_text('[boards.desk]\nuri = "local"\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "boards.toml"))
    (tmp_path / "quant.onnx").write_bytes(Path(QUANT).read_bytes())
    (tmp_path / "s.toml").write_text('models = ["quant.onnx"]\nboards = ["desk"]\n')
    made = qverify.suite(tmp_path / "s.toml", labels={"firmware": "2"}, database=str(tmp_path / "farm.db"))
    assert made.passed and made.exit_status == 0 and made.to_json()["labels"] == {"firmware": "2"}
    assert [job.board for job in made.document.jobs] == ["desk"] and capsys.readouterr() == ("", "")
    with pytest.raises(errors.UsageError, match="give server, too"):
        qverify.suite(tmp_path / "s.toml", token="x")


def test_a_call_is_cancelled_while_a_board_hangs(digits):
    cancel = threading.Event()
    threading.Timer(1.0, cancel.set).start()
    start = time.monotonic()
    with pytest.raises(errors.CancelledError, match="cancelled by the caller"):
        qverify.verify(
            QUANT,
            board="faulty:local?fault=hang@relu2_QuantizeLinear_Output",
            inputs=digits["digit_3"],
            cancel=cancel,
            timeout=600,
        )
    assert time.monotonic() - start < 120
    with pytest.raises(errors.CancelledError):
        qverify.verify(QUANT, cancel=cancel)  # set before it began
    assert not any(t.name == "qverify-cancel" for t in threading.enumerate())


def test_a_task_of_asyncio_is_cancelled(digits):
    async def run() -> str:
        cancel = threading.Event()
        call = asyncio.to_thread(
            qverify.verify, QUANT, inputs=digits["digit_3"], cancel=cancel, progress=lambda *_: cancel.set()
        )
        try:
            await call
        except errors.CancelledError as error:
            return str(error)
        return "ran to its end"

    assert asyncio.run(run()) == "cancelled by the caller"

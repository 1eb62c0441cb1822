"""Final outputs that a side gives by the scale of another tensor, or by a factor, are named from the recordings alone; the
verdict stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.report.document import ReportDocument
from qverify.session.models import open_models
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.ops.qdq import Qdq

SHAPE = (1, 10, 6, 6)
SCALES = {"kps_8": (0.0231547, 5), "kps_16": (0.01215453, -7)}
CODES = {n: np.random.default_rng(i).integers(-100, 101, SHAPE).astype(np.int8) for i, n in enumerate(SCALES)}
SPECS = {n: TensorSpec(n, "int8", SHAPE, scale=(s,), zero_point=(z,)) for n, (s, z) in SCALES.items()}
BY_KPS_8 = (
    "kps_16: every value that the board gives is a whole step of 0.0231547, the scale of kps_8; by its own scale, "
    "0.0121545, they are those in the reference, but for rounding"
)


def judge(board: dict[str, np.ndarray], options: Options | None = None) -> ReportDocument:
    """Judges a board that gives these real values beside a reference of stored integers."""
    real = {n: v.astype(np.float32) for n, v in board.items()}
    given = {n: TensorSpec(n, "float32", v.shape) for n, v in real.items()}
    sides = {
        "reference": Recording("reference", "test", specs=dict(SPECS), finals=tuple(CODES), tensors=dict(CODES)),
        "board": Recording("board", "test", specs=given, finals=tuple(real), tensors=real, runtime="own"),
    }
    return judge_all(sides, None, [], options or Options(), {}, None)


def rounded(name: str, steps: int) -> np.ndarray:
    return CODES[name] + np.random.default_rng(9).integers(-steps, steps + 1, SHAPE)


def dequantized(codes: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return (codes.astype(np.float64) - zero) * scale


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("zero", [5, -7], ids=["zero point of kps_8", "its own"])
def test_an_output_by_the_scale_of_another(steps: int, zero: int) -> None:
    own = dequantized(rounded("kps_8", steps), *SCALES["kps_8"])
    report = judge({"kps_8": own, "kps_16": dequantized(rounded("kps_16", steps), SCALES["kps_8"][0], zero)})
    assert report.verdict == "FAILED" and [f.text for f in report.findings] == [BY_KPS_8]
    assert (report.findings[0].kind, report.findings[0].tensor) == ("scale", "kps_16")


def test_both_outputs_by_the_scale_of_the_other() -> None:
    given = {n: dequantized(CODES[n], *SCALES[o]) for n, o in zip(SCALES, reversed(SCALES), strict=True)}
    assert [f.tensor for f in judge(given).findings] == ["kps_8", "kps_16"]


@pytest.mark.parametrize(("factor", "shown"), [(1.9, "1.9"), (0.6, "0.6"), (1.25, "1.25"), (0.51, "0.51")])
def test_an_output_by_a_scale_of_no_tensor(factor: float, shown: str) -> None:
    given = {n: dequantized(CODES[n], *SCALES[n]) for n in SCALES}
    given["kps_16"] *= factor
    report = judge(given)
    text = f"kps_16 is {shown} times as large on the board as in the reference, and equal otherwise, but for rounding: a scale"
    assert report.verdict == "FAILED" and [f.text for f in report.findings] == [text]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda v, s: v + 3 * s * np.random.default_rng(4).normal(0, 1, SHAPE),  # rounding
        lambda v, s: v + 40 * s,  # an offset
        lambda v, s: v * 1.0004,  # shown as a factor of 1
        lambda v, s: 1.02 * v + 3 * s * np.random.default_rng(4).normal(0, 1, SHAPE),  # a scale within rounding
        lambda v, s: np.maximum(v, 0),
        lambda v, s: -v,
        lambda v, s: v * 0,
        lambda v, s: np.random.default_rng(4).permutation(v.reshape(-1)).reshape(SHAPE),
        lambda v, s: (
            np.random.default_rng(4).integers(-99, 99, SHAPE) * SCALES["kps_8"][0]
        ),  # other values by that scale
    ],
)
def test_what_is_no_scale(wrong) -> None:
    given = {n: dequantized(CODES[n], *SCALES[n]) for n in SCALES}
    given["kps_16"] = wrong(given["kps_16"], SCALES["kps_16"][0])
    report = judge(given)
    assert report.verdict == "FAILED" and report.findings == []


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (-7, "7 steps below that in the reference, but for rounding: its zero point, -7, was not subtracted"),
        (7, "7 steps above that in the reference, but for rounding: its zero point, -7, was subtracted twice"),
        (128, "128 steps above that in the reference, but for rounding: int8 was read with the other sign"),
    ],
)
def test_an_output_off_by_its_zero_point_everywhere(steps: int, said: str) -> None:
    given = {n: dequantized(CODES[n], *SCALES[n]) for n in SCALES}
    given["kps_16"] = dequantized(rounded("kps_16", 1) + steps, *SCALES["kps_16"])
    report = judge(given)
    assert report.verdict == "FAILED"
    assert [f.text for f in report.findings] == [f"kps_16: every value on the board lies {said}"]


def test_nothing_is_said_of_what_passes() -> None:
    given = {n: dequantized(CODES[n], *SCALES[n]) for n in SCALES}
    assert judge(given, Options(digits=4)).findings == []
    given["kps_16"] *= 1.15
    mild = judge(given, Options(min_cosine=0.9))
    assert mild.verdict == "PASSED" and mild.findings == []


def test_two_dumps_and_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither dump states a scale: the model does."""
    m = Qdq(act="int8", seed=4)
    x = m.input((1, 3, 9, 9))
    for channels in (4, 5):
        m.output(m.quantize(m.op("Conv", [x, m.weight((channels, 3, 3, 3), axis=0)])))
    model = str(tmp_path / "net.onnx")
    Path(model).write_bytes(m.model().SerializeToString())
    np.save(tmp_path / "x.npy", m.feed["in0"])
    run = ["infer", "-m", model, "-i", str(tmp_path / "x.npy"), "--side", "simulator"]
    assert main([*run, "-o", str(tmp_path / "a"), "--dequantize"]) == 0
    graph = open_models([model]).graph
    first, second = graph.outputs
    own, other = (graph.stored()[n] for n in (second, first))
    path = tmp_path / "b"
    path.mkdir()
    for name in graph.outputs:
        value = np.load(tmp_path / "a" / f"{name}.npy")
        np.save(path / f"{name}.npy", value if name == first else value / own.scale[0] * np.float32(other.scale[0]))
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "a"), str(path), "-m", model, "--outputs-only"]) == 1
    shown = capsys.readouterr().out
    assert (
        f"found: {second}: every value that B gives is a whole step of {other.scale[0]:.6g}, the scale of {first}"
        in shown
    )

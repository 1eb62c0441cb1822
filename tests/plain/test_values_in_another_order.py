"""Values that a board gives in another order, or under another tensor's name, are recognised from the recordings alone
and stated; the verdict stays."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.find_orders import find_order
from qverify.compare.options import Options
from qverify.compare.side_values import Sides
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.report.document import ReportDocument
from qverify.report.schema import report_schema
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.ops.qdq import Qdq

SHAPE = (1, 20, 6, 7)
VALUES = np.random.default_rng(5).integers(-128, 128, SHAPE).astype(np.int8)


def recording(side: str, **tensors: np.ndarray) -> Recording:
    specs = {n: TensorSpec(n, v.dtype.name, v.shape) for n, v in tensors.items()}
    return Recording(side, "test", specs=specs, finals=tuple(tensors), tensors=tensors, runtime="onnxruntime")


def judge(wanted: dict[str, np.ndarray], given: dict[str, np.ndarray]) -> ReportDocument:
    sides = {"reference": recording("reference", **wanted), "board": recording("board", **given)}
    return judge_all(sides, None, [], Options(), {}, None)


def found(given: np.ndarray, wanted: np.ndarray = VALUES) -> list[str]:
    report = judge({"y": wanted}, {"y": given})
    assert report.verdict == "FAILED"
    assert all(f.kind == "order" and f.tensor == "y" and f.frame == 0 for f in report.findings)
    return [f.text for f in report.findings]


def blocked(value: np.ndarray, block: int, padding: int = 0) -> np.ndarray:
    items, channels, *rest = value.shape
    outer = -(-channels // block)
    whole = np.full((items, outer * block, *rest), padding, value.dtype)
    whole[:, :channels] = value
    return np.ascontiguousarray(whole.reshape(items, outer, block, *rest).transpose(0, 1, 3, 4, 2))


def test_channels_last() -> None:
    nhwc = np.ascontiguousarray(VALUES.transpose(0, 2, 3, 1))
    words = (
        "y: the board's values are those of the reference in another order: its axes are 0 2 3 1 (NCHW stored as NHWC)"
        " (all elements are equal then; at least 128 different values were in wrong places);"
        ' write it as NCHW, or declare shape = [1, 6, 7, 20] and layout = "NHWC" in a dump.toml, or give --layout NHWC'
    )
    assert found(nhwc) == [words]
    assert found(nhwc.reshape(SHAPE)) == [words]


def test_values_that_are_their_negatives_in_place_are_known_as_reversed() -> None:
    ramp = np.arange(64) - 31.5
    found = find_order(Sides(ramp, ramp[::-1], 0.0))
    assert found is not None and found.exact and found.order.words == "it is reversed"
    assert find_order(Sides(ramp, ramp, 0.0)) is None


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 3, 2, 1), (0, 2, 1, 3)])
def test_any_order_of_the_axes(order: tuple[int, ...]) -> None:
    moved = np.ascontiguousarray(VALUES.transpose(order)).reshape(SHAPE)
    assert f"its axes are {' '.join(map(str, order))} (all" in found(moved)[0]


def test_what_was_moved_although_it_was_in_order() -> None:
    """A reader took NCHW for NHWC: its values are no plain transposition of the reference."""
    moved = VALUES.reshape(1, 6, 7, 20).transpose(0, 3, 1, 2)
    assert "its memory was taken as [1, 6, 7, 20] and moved by axes 0 3 1 2" in found(moved)[0]


@pytest.mark.parametrize("block", [4, 16, 32])
def test_blocks_of_channels(block: int) -> None:
    stored = blocked(VALUES, block, padding=77)
    text = found(stored)[0]
    padded = "" if block == 4 else ", 20 channels padded to 32"
    assert f"its channels are in blocks of {block} (NC1HWC2{padded})" in text
    assert text.endswith(f'; declare shape = {list(stored.shape)} and layout = "NC1HWC2" in a dump.toml')


def test_blocks_of_channels_without_padding_in_the_reference_s_shape() -> None:
    wanted = np.random.default_rng(6).integers(-128, 128, (2, 32, 3, 5)).astype(np.int8)
    assert "blocks of 16 (NC1HWC2)" in found(blocked(wanted, 16).reshape(wanted.shape), wanted)[0]


def test_blocks_of_a_reference_with_the_channels_last() -> None:
    wanted = np.random.default_rng(6).integers(-128, 128, (1, 5, 3, 24)).astype(np.int8)
    stored = blocked(np.ascontiguousarray(wanted.transpose(0, 3, 1, 2)), 16)
    assert "blocks of 16 (NC1HWC2, 24 channels padded to 32)" in found(stored, wanted)[0]


def test_reversed() -> None:
    assert "it is reversed along axis 3" in found(np.ascontiguousarray(VALUES[..., ::-1]))[0]
    row = np.random.default_rng(7).normal(0, 3, (1, 16)).astype(np.float32)
    assert "it is reversed (all elements" in found(np.ascontiguousarray(row[:, ::-1]), row)[0]


def test_channels_in_another_order() -> None:
    order = list(range(20))
    order[3], order[11] = 11, 3
    assert "its channels (axis 1) are in another order: 3 holds 11, 11 holds 3 (all" in found(VALUES[:, order])[0]
    order = [5, 0, 4, 1, 3, 2, *range(6, 20)]
    text = found(VALUES[:, order])[0]
    assert "its channels (axis 1) are in another order: 0 holds 5, 1 holds 0, 2 holds 4, 3 holds 1 and 2 more" in text


def test_channels_with_the_same_values_are_told_apart_by_their_number() -> None:
    """Channels 0 and 1 are equal; the board exchanged 1 and 2."""
    wanted = VALUES.copy()
    wanted[:, 1] = wanted[:, 0]
    order = [0, 2, 1, *range(3, 20)]
    text = found(np.ascontiguousarray(wanted[:, order]), wanted)[0]
    assert "its channels (axis 1) are in another order: 1 holds 2, 2 holds 1 (all" in text


def test_three_axes() -> None:
    wanted = np.random.default_rng(12).normal(0, 1, (1, 9, 14)).astype(np.float32)
    text = found(np.ascontiguousarray(wanted.transpose(0, 2, 1)), wanted)[0]
    assert "its axes are 0 2 1 (NCW stored as NWC)" in text
    assert text.endswith('write it as NCW, or declare shape = [1, 14, 9] and layout = "NWC" in a dump.toml')


def test_stored_integers_of_a_board_whose_reference_is_real() -> None:
    real = ((VALUES.astype(np.float32) - 3) / 2).astype(np.float32)
    reference, board = recording("reference", y=real), recording("board", y=VALUES.transpose(0, 2, 3, 1).copy())
    board.specs["y"] = TensorSpec("y", "int8", (1, 6, 7, 20), scale=(0.5,), zero_point=(3,))
    report = judge_all({"reference": reference, "board": board}, None, [], Options(), {}, None)
    assert report.verdict == "FAILED" and "its axes are 0 2 3 1 (NCHW stored as NHWC) (all" in report.findings[0].text
    board.specs["y"] = TensorSpec("y", "int8", (1, 6, 7, 20))  # of no scale: what the integers mean is not known
    report = judge_all({"reference": reference, "board": board}, None, [], Options(), {}, None)
    assert report.verdict == "FAILED" and report.findings == []


def test_rounding_may_differ_beside_the_order() -> None:
    noise = np.random.default_rng(8).integers(-1, 2, SHAPE)
    board = np.clip(VALUES + noise, -128, 127).astype(np.int8).transpose(0, 2, 3, 1)
    text = found(np.ascontiguousarray(board))[0]
    assert "its axes are 0 2 3 1" in text and "(98% of the elements or more agree then, within 1;" in text


def test_real_values_of_stored_integers() -> None:
    reference = recording("reference", y=VALUES)
    reference.specs["y"] = TensorSpec("y", "int8", SHAPE, scale=(0.5,), zero_point=(3,))
    real = (VALUES.astype(np.float32) - 3) / 2
    board = recording("board", y=np.ascontiguousarray(real.transpose(0, 2, 3, 1)))
    report = judge_all({"reference": reference, "board": board}, None, [], Options(), {}, None)
    assert "its axes are 0 2 3 1" in report.findings[0].text and report.verdict == "FAILED"


def test_exchanged_outputs() -> None:
    a, b = (np.random.default_rng(s).normal(0, 2, (1, 4, 30)).astype(np.float32) for s in (1, 2))
    report = judge({"boxes": a, "scores": b}, {"boxes": b, "scores": a})
    assert report.verdict == "FAILED"
    assert [f.text for f in report.findings] == [  # once for both
        "boxes and scores are exchanged: each has on the board the values of the other in the reference"
        " (120 elements; at least 64 different values)"
    ]


MAPS = {  # two score maps of one size, as integers, and their scales and zero points
    "cls": (np.random.default_rng(1).integers(-120, 121, (1, 1, 12, 12)).astype(np.int8), 0.008, -20),
    "obj": (np.random.default_rng(2).integers(-120, 121, (1, 1, 12, 12)).astype(np.int8), 0.084, 60),
}


def mapped(side: str, codes: dict[str, np.ndarray], is_real: bool) -> Recording:
    """Records the maps with these integers, each by the scale of its name."""
    specs = {n: TensorSpec(n, "int8", v.shape, scale=(s,), zero_point=(z,)) for n, (v, s, z) in MAPS.items()}
    if not is_real:
        return Recording(side, "test", specs=specs, finals=tuple(codes), tensors=dict(codes), runtime="onnxruntime")
    return recording(side, **{n: specs[n].dequantized(v).astype(np.float32) for n, v in codes.items()})


def rounded(values: np.ndarray, seed: int, steps: int = 3) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(-steps, steps + 1, values.shape)
    return np.clip(values + noise, -128, 127).astype(np.int8)


@pytest.mark.parametrize("host", [True, False], ids=["real", "stored"])
@pytest.mark.parametrize("steps", [0, 3])
def test_exchanged_integers_of_other_scales(host: bool, steps: int) -> None:
    codes = {n: v for n, (v, _, _) in MAPS.items()}
    board = {"cls": rounded(codes["obj"], 3, steps), "obj": rounded(codes["cls"], 4, steps)}
    sides = {"reference": mapped("reference", codes, host), "board": mapped("board", board, False)}
    report = judge_all(sides, None, [], Options(), {}, None)
    apart, values = ("; within 4 LSB", "integers") if steps else ("", "integers")
    by, values = (", read by the scale of its name", values) if host else ("", "values")
    assert report.verdict == "FAILED" and [f.text for f in report.findings] == [
        f"cls and obj are exchanged: each has on the board the {values} of the other in the reference{by}"
        f" (144 elements; at least 64 different values{apart})"
    ]
    board = {"cls": rounded(codes["cls"], 3, 3), "obj": rounded(codes["obj"], 4, 3)}  # a chip that only rounds
    sides["board"] = mapped("board", board, False)
    assert judge_all(sides, None, [], Options(), {}, None).findings == []


def test_what_is_no_exchange_within_rounding() -> None:
    """Maps that are alike, a map that is nearly constant, and one of noise."""
    codes = {n: v for n, (v, _, _) in MAPS.items()}
    alike = {"cls": codes["cls"], "obj": rounded(codes["cls"], 5, 3)}
    flat = {"cls": codes["cls"], "obj": np.full_like(codes["obj"], -128)}
    for wanted, board in (
        (alike, {"cls": rounded(codes["cls"], 6, 3), "obj": rounded(codes["cls"], 7, 3)}),
        (flat, {"cls": rounded(flat["obj"], 6, 3), "obj": rounded(flat["obj"], 7, 3)}),
        (codes, {"cls": rounded(codes["cls"], 6, 120), "obj": rounded(codes["obj"], 7, 120)}),
        (codes, {"cls": -codes["obj"], "obj": -codes["cls"]}),
    ):
        sides = {"reference": mapped("reference", wanted, True), "board": mapped("board", board, False)}
        assert judge_all(sides, None, [], Options(), {}, None).findings == []


def test_a_tensor_and_its_dequantized_values_are_not_exchanged() -> None:
    """Their integers are compared with integers, and their real values with real ones."""
    codes, scale, zero = MAPS["cls"]
    spec = TensorSpec("cls", "int8", codes.shape, scale=(scale,), zero_point=(zero,))

    def both(side: str, values: np.ndarray) -> Recording:
        result = recording(side, cls=values, real=spec.dequantized(values).astype(np.float32))
        result.specs["cls"] = spec
        return result

    sides = {"reference": both("reference", codes), "board": both("board", rounded(codes, 3, 2))}
    report = judge_all(sides, None, [], Options(), {}, None)
    assert report.verdict == "FAILED" and report.findings == []


def test_inner_tensors_are_exchanged_only_exactly() -> None:
    """A node that reads an exchanged tensor is not blamed, so that rounding is allowed for outputs alone."""
    codes = {n: v for n, (v, _, _) in MAPS.items()}
    for steps, found_any in ((0, True), (3, False)):
        board = mapped("board", {"cls": rounded(codes["obj"], 3, steps), "obj": rounded(codes["cls"], 4, steps)}, False)
        reference = mapped("reference", codes, True)
        for side in (reference, board):
            side.finals, side.capabilities = ("cls",), {"per_node"}
        every = Options(dump_all=True)
        report = judge_all({"reference": reference, "board": board}, None, [], every, {}, None)
        assert report.verdict == "FAILED" and bool(report.findings) == found_any


def test_positions_along_the_last_axis_of_an_image_are_no_channels() -> None:
    order = np.roll(np.arange(SHAPE[3]), 1)
    text = found(np.ascontiguousarray(VALUES[..., order]))[0]
    assert "its positions along axis 3 are in another order: " in text and "channels" not in text


def test_one_output_in_the_file_of_another() -> None:
    a, b = (np.random.default_rng(s).normal(0, 2, (1, 4, 30)).astype(np.float32) for s in (1, 2))
    report = judge({"boxes": a, "scores": b}, {"boxes": b, "scores": b})
    assert [f.text for f in report.findings] == [
        "boxes: the values that the board gives are those of scores in the reference"
        " (120 elements; at least 64 different values)"
    ]


def test_nothing_is_said_where_the_values_are_others() -> None:
    noise = np.random.default_rng(9).integers(-3, 4, SHAPE)
    assert found(np.clip(VALUES + noise, -128, 127).astype(np.int8)) == []
    assert found(np.random.default_rng(10).integers(-128, 128, SHAPE).astype(np.int8)) == []
    assert found(np.random.default_rng(11).permutation(VALUES.reshape(-1)).reshape(SHAPE)) == []
    assert found(np.full(SHAPE, -128, np.int8)) == []


def test_nothing_is_said_of_few_values_which_may_match_by_chance() -> None:
    mask = (VALUES > 0).astype(np.int8)
    assert found(np.ascontiguousarray(mask.transpose(0, 2, 3, 1)), mask) == []
    six = np.arange(6, dtype=np.int8).reshape(1, 2, 3)
    assert found(np.ascontiguousarray(six.transpose(0, 2, 1)), six) == []


def test_any_order_of_single_elements_is_no_order_of_channels() -> None:
    row = np.random.default_rng(7).normal(0, 3, (1, 32)).astype(np.float32)
    assert found(row[:, np.random.default_rng(3).permutation(32)], row) == []


def test_a_board_that_passes_has_no_finding() -> None:
    assert judge({"y": VALUES}, {"y": VALUES}).findings == []


def test_several_tensors_of_one_order_are_one_line() -> None:
    wanted = {n: np.random.default_rng(i).integers(-128, 128, SHAPE).astype(np.int8) for i, n in enumerate("abc")}
    report = judge(wanted, {n: np.ascontiguousarray(v.transpose(0, 2, 3, 1)) for n, v in wanted.items()})
    assert [f.tensor for f in report.findings] == ["a"]
    assert report.findings[0].text.endswith("(and so are 2 more tensors: b, c)")


# --- declared, and as the user meets it ---


def manual(folder: Path, value: np.ndarray, **entry: object) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "y.raw").write_bytes(value.tobytes())
    row = {"name": "y", "file": "y.raw", "dtype": value.dtype.name, "shape": list(value.shape), **entry}
    (folder / "dump.json").write_text(json.dumps({"tensor": [row]}))
    return str(folder)


@pytest.fixture
def host(tmp_path: Path) -> str:
    np.savez(tmp_path / "host.npz", y=VALUES.astype(np.float32))
    return str(tmp_path / "host.npz")


@pytest.mark.parametrize("block", [4, 16, 32])
@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "NHWC"])
def test_declared_blocks_are_read(tmp_path: Path, block: int, last: bool, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = VALUES.astype(np.float32)
    np.savez(tmp_path / "host.npz", y=wanted.transpose(0, 2, 3, 1) if last else wanted)
    board = manual(tmp_path / "board", blocked(wanted, block, padding=9), layout="NC1HWC2")
    assert main(["compare", str(tmp_path / "host.npz"), board]) == 0
    cut = "" if block == 4 else ", 32 channels cut to 20"
    assert f"generic: NC1HWC2 to {'NHWC' if last else 'NCHW'}{cut}: 1: y" in capsys.readouterr().out


def test_declared_blocks_that_do_not_fit_are_missing(
    tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    board = manual(tmp_path / "board", blocked(VALUES[:, :15].astype(np.float32), 16), layout="NC1HWC2")
    assert main(["compare", host, board]) == 3
    assert "NC1HWC2 [1, 1, 6, 7, 16] here, [1, 20, 6, 7] on the other side" in capsys.readouterr().out


def test_blocks_that_fit_in_two_ways_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cube = np.random.default_rng(1).normal(0, 1, (1, 8, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "host.npz", y=cube)
    board = manual(tmp_path / "board", blocked(cube, 4), layout="NC1HWC2")
    assert main(["compare", str(tmp_path / "host.npz"), board]) == 3
    assert "fits as NCHW and as NHWC; give -m quant.onnx" in capsys.readouterr().out


def test_two_dumps_in_blocks(tmp_path: Path) -> None:
    stored = blocked(VALUES.astype(np.float32), 16)
    boards = [manual(tmp_path / n, stored, layout="NC1HWC2") for n in "ab"]
    plain = manual(tmp_path / "c", VALUES.astype(np.float32), layout="NCHW")
    assert main(["compare", *boards]) == 0
    assert main(["compare", boards[0], plain]) == 0
    assert main(["compare", plain, boards[0]]) == 0


def test_undeclared_blocks_are_named(tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    stored = blocked(VALUES.astype(np.float32), 16)
    assert main(["compare", host, manual(tmp_path / "board", stored)]) == 3
    assert "it may be NC1HWC2: declare layout = 'NC1HWC2' (profile generic)" in capsys.readouterr().out
    flat = manual(tmp_path / "flat", stored.reshape(-1))
    entry = json.loads((Path(flat) / "dump.json").read_text())
    del entry["tensor"][0]["shape"]
    (Path(flat) / "dump.json").write_text(json.dumps(entry))
    assert main(["compare", host, flat]) == 3
    assert "NC1HWC2 of shape [1, 2, 6, 7, 16] has this size" in capsys.readouterr().out
    np.savez(tmp_path / "board.npz", y=stored)
    assert main(["compare", host, str(tmp_path / "board.npz")]) == 1
    shown = capsys.readouterr().out
    assert "found: y: B's values are those of A in another order: its channels are in blocks of 16" in shown


@pytest.mark.parametrize("wrong", [{"shape": [1, 20, 6, 7]}, {"scale": [0.5] * 2, "channel_axis": 1, "dtype": "int32"}])
def test_declarations_of_blocks_that_are_wrong(
    tmp_path: Path, host: str, wrong: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    value = VALUES.astype(np.float32) if "shape" in wrong else blocked(VALUES, 16).astype(np.int32)
    assert main(["compare", host, manual(tmp_path / "board", value, layout="NC1HWC2", **wrong)]) == 2
    assert "wanted shape = [N, blocks, H, W, channels of a block]" in capsys.readouterr().err


# --- with a runner, in the main job and in triage ---

TOOL = """
import sys
import numpy as np
import onnxruntime
options = onnxruntime.SessionOptions()  # products of integers saturate on processors without VNNI
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feed = {i.name: np.load(sys.argv[2]) for i in session.get_inputs()}
for output, value in zip(session.get_outputs(), session.run(None, feed)):
    np.save(f"{sys.argv[3]}/{output.name}.npy", np.ascontiguousarray(value.transpose(0, 2, 3, 1)).reshape(value.shape))
"""


@pytest.fixture
def board(tmp_path: Path) -> list[str]:
    """A board that writes its output with the channels last."""
    m = Qdq(seed=4)
    x = m.input((1, 3, 7, 5))
    m.output(m.quantize(m.op("Relu", [m.op("Conv", [x, m.weight((6, 3, 3, 3), axis=0)])])))
    (tmp_path / "net.onnx").write_bytes(m.model().SerializeToString())
    np.save(tmp_path / "x.npy", m.feed["in0"])
    (tmp_path / "tool.py").write_text(TOOL)
    runner = f"{sys.executable} {tmp_path / 'tool.py'} {{model}} {{npy}} {{out}}"
    return ["-m", str(tmp_path / "net.onnx"), "-b", "local", "-i", str(tmp_path / "x.npy"), "--runner", runner]


def test_a_runner_that_writes_the_channels_last(
    board: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*board, "--json", str(tmp_path / "r.json")]) == 1
    shown = capsys.readouterr().out
    line = next(x for x in shown.splitlines() if x.startswith("found: "))
    assert "the board's values are those of the reference in another order: its axes are 0 2 3 1" in line
    report = json.loads((tmp_path / "r.json").read_text())
    jsonschema.validate(report, report_schema())
    assert [f["kind"] for f in report["findings"]] == ["order"] and report["verdict"] == "FAILED"


def test_triage_of_a_runner_that_writes_the_channels_last(board: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triage", *board]) == 1
    assert "found: " in (shown := capsys.readouterr().out) and "its axes are 0 2 3 1 (NCHW stored as NHWC)" in shown


def test_a_signalling_nan_is_a_nan(recwarn: pytest.WarningsRecorder) -> None:
    wanted = np.arange(12, dtype=np.float32).reshape(3, 4)
    given = wanted.copy()
    given.view(np.uint32)[1, 2] = 0x7F800001
    report = judge({"y": wanted}, {"y": given})
    assert report.verdict == "FAILED" and not report.findings and not recwarn.list


def test_a_node_whose_output_is_stored_in_padded_blocks_is_not_blamed() -> None:
    wanted = np.random.default_rng(6).standard_normal(SHAPE).astype(np.float32)
    specs = {n: TensorSpec(n, "float32", SHAPE) for n in ("x", "y")}
    graph = Graph([Node("y", "reshape", ("x",), ("y",))], specs, {}, ("x",), ("y",))

    def judged(given: np.ndarray) -> ReportDocument:
        sides = {"reference": recording("reference", y=wanted), "board": recording("board", y=given)}
        run = {"reference": lambda unit, arrays: {"y": wanted}}
        return judge_all(sides, graph, units(graph), Options(), run, inputs={"x": wanted})

    stored = judged(blocked(wanted, 8))
    assert stored.verdict == "FAILED" and stored.blame is None and "blocks of 8" in stored.findings[0].text
    assert judged(blocked(wanted[:, ::-1] + 1, 8)).blame is not None  # other values


def test_inputs_that_are_exchanged_before_they_are_quantized() -> None:
    rng = np.random.default_rng(12)
    real = {n: rng.uniform(-6, 6, (1, 4, 7, 9)) for n in ("a", "b")}
    scales = {"a": 0.05, "b": 0.07}

    def side(name: str, source: dict[str, str]) -> Recording:
        values = {n: np.clip(np.rint(real[source[n]] / scales[n]), -128, 127).astype(np.int8) for n in scales}
        specs = {n: TensorSpec(n, "int8", v.shape, scale=(scales[n],), zero_point=(0,)) for n, v in values.items()}
        return Recording(name, "test", specs=specs, finals=("a", "b"), tensors=values, runtime="onnxruntime")

    right = side("reference", {"a": "a", "b": "b"})
    report = judge_all(
        {"reference": right, "board": side("board", {"a": "b", "b": "a"})}, None, [], Options(), {}, None
    )
    assert [f.text.split(" (")[0] for f in report.findings if f.kind == "order"] == [
        "a and b are exchanged: each has on the board the values of the other in the reference"
    ]


def outputs(folder: Path, rounding: float, **moved: str) -> str:
    random = np.random.default_rng(7)
    values = {f"out{k}": random.normal(size=(1, 8, 9, 9)).astype(np.float32) for k in range(12)}
    folder.mkdir()
    for name in values:
        given = values[moved.get(name, name)] + random.normal(size=(1, 8, 9, 9)).astype(np.float32) * rounding
        np.save(folder / f"{name}.npy", given.astype(np.float32))
    return str(folder)


def test_the_verdict_line_says_first_which_outputs_are_under_each_others_names(tmp_path: Path, capsys) -> None:
    host, swapped = outputs(tmp_path / "a", 0.0), outputs(tmp_path / "b", 0.05, out3="out7", out7="out3")
    round_robin = outputs(tmp_path / "c", 0.05, out3="out7", out7="out9", out9="out3")
    for board, words, said in (
        (swapped, [], "FAILED (out3 and out7 are exchanged; 10 tensors fail besides; out0: "),
        (
            swapped,
            ["--gate", "cosine:0.98"],
            "FAILED (out3 and out7 are exchanged, and nothing else fails; out3: cosine",
        ),
        (
            round_robin,
            ["--gate", "cosine:0.98"],
            "FAILED (out3 has the values of out7, out7 has the values of out9, out9 ",
        ),
    ):
        assert main(["compare", host, board, "-q", *words]) == 1
        assert said in capsys.readouterr().out

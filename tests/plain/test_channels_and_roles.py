"""Errors by channel are those of plain numpy, roles of channels are judged by their own gates, and neither weakens a
verdict."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import qverify
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from qverify import example
from qverify.cli.main import main
from qverify.compare.channel_errors import measure_channels
from qverify.compare.metrics import Context, kl_divergence, max_ulp
from qverify.compare.options import Options
from qverify.compare.paired_values import PairedValues
from qverify.compare.roles import parse_role_gate, parse_roles
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import UsageError
from qverify.model_bin.channel_axes import default_axis, find_channel_axes
from qverify.renderers.html_page.page import render
from qverify.report.channels import BLOCKS, WORST, describe_worst_channels
from qverify.report.schema import report_schema
from qverify.tensors.spec import TensorSpec

from tests.ops.qdq import Qdq
from tests.plain.three_sides import side, two

EXAMPLE = Path(example.__file__).parent
QUANT = str(EXAMPLE / "digits_quant.onnx")
REVERSED = "faulty:local?fault=channel_reverse@logits_QuantizeLinear_Output"


def paired(a, b, **spec):
    one, two_ = (TensorSpec("t", v.dtype.name, v.shape, **spec) for v in (a, b))
    return PairedValues(a, b, one, two_)


@st.composite
def tensors(draw):
    dtype = np.dtype(draw(st.sampled_from(["int8", "uint8", "int16", "float32", "float64"])))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=9))
    axis = draw(st.integers(0, len(shape) - 1))
    elements = st.floats(-100, 100, width=32) if dtype.kind == "f" else hnp.from_dtype(dtype)
    a, b = (draw(hnp.arrays(dtype, shape, elements=elements)) for _ in range(2))
    b = np.where(draw(hnp.arrays(np.bool_, shape)), a, b).astype(dtype)
    return a, b, axis


@settings(max_examples=200, deadline=None)
@given(tensors(), st.booleans())
def test_errors_by_channel_are_those_of_plain_numpy(drawn, by_channel):
    a, b, axis = drawn
    scale: dict = {}
    if a.dtype.kind in "iu":
        number = a.shape[axis] if by_channel else 1
        scale = {"scale": tuple(0.25 * (k + 1) for k in range(number)), "zero_point": (3,) * number}
        scale["channel_axis"] = axis if number > 1 else -1
    found = measure_channels(paired(a, b, **scale), axis)
    if a.shape[axis] < 2:
        assert found is None
        return
    spec = TensorSpec("t", a.dtype.name, a.shape, **scale)
    rows = [np.moveaxis(spec.dequantized(v), axis, 0).reshape(a.shape[axis], -1) for v in (a, b)]
    stored = [np.moveaxis(v, axis, 0).reshape(a.shape[axis], -1).astype(np.int64) for v in (a, b)]
    squared = ((rows[0] - rows[1]) ** 2).sum(axis=1)
    order = sorted(np.flatnonzero(squared > 0), key=lambda c: (-squared[c], -np.abs(rows[0] - rows[1])[c].max(), c))
    assert found.channels == a.shape[axis] and found.width == 1
    assert {c.channel for c in found.worst} == set(map(int, order[:WORST])) or len(order) > WORST
    for c in found.worst:
        x, y = rows[0][c.channel], rows[1][c.channel]
        assert c.metrics["differing"] == int((x != y).sum())
        assert c.metrics["max_abs"] == np.abs(x - y).max()
        assert c.metrics["mean_error"] == pytest.approx((y - x).mean(), rel=1e-9, abs=1e-9)
        assert c.share == pytest.approx(squared[c.channel] / squared.sum(), rel=1e-9)
        if a.dtype.kind in "iu":
            ends = np.iinfo(a.dtype)
            assert c.metrics["max_lsb"] == np.abs(stored[0][c.channel] - stored[1][c.channel]).max()
            for name, values in (("clipped_a", stored[0]), ("clipped_b", stored[1])):
                clipped = (values[c.channel] == ends.min) | (values[c.channel] == ends.max)
                assert c.metrics[name] == pytest.approx(clipped.mean())
        else:
            assert c.metrics["max_lsb"] is None and c.metrics["clipped_b"] is None


def test_many_channels_are_kept_in_bounded_blocks():
    a = np.zeros((1, 5000, 3), np.float32)
    b = a.copy()
    b[0, 4321] = 7
    found = measure_channels(paired(a, b), 1)
    assert found.width == 79 and len(found.shares) == len(found.max_abs) == 64 == BLOCKS
    assert found.shares[4321 // 79] == 1 and [c.channel for c in found.worst] == [4321]
    assert describe_worst_channels(found) == "channel 4321 of 5000: max |a-b| 7, 100 % of the squared error"
    assert measure_channels(paired(np.zeros((1, 70_000)), np.ones((1, 70_000))), 1) is None  # no axis of channels


def test_a_channel_that_is_not_finite_on_one_side_is_named():
    a = np.zeros((1, 4, 5), np.float32)
    b = a.copy()
    b[0, 2, 1], b[0, 1, 1] = np.nan, 1
    found = measure_channels(paired(a, b), 1)
    assert found.shares == [] and found.worst[0].channel == 2 and found.worst[0].share is None
    assert found.max_abs == [0.0, 1.0, math.inf, 0.0]
    assert describe_worst_channels(found) == "channel 2 of 4: not finite on one side"


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["float16", "float32", "float64"]), st.integers(0, 50), st.floats(-1000, 1000))
def test_ulps_are_steps_of_nextafter(dtype, steps, start):
    a = np.array([start, 1.0], dtype)
    b = a.copy()
    for _ in range(steps):
        b[0] = np.nextafter(b[0], np.array(np.inf, dtype))
    values = paired(a, b)
    measure = max_ulp.Measure(Context("half", 5, 2, False, values.dtype))
    for block in values.blocks():
        measure.add(block)
    assert measure.result() == steps


def test_ulps_across_zero_and_of_what_is_no_number():
    def of(a, b, dtype="float32"):
        values = paired(np.array([a], dtype), np.array([b], dtype))
        measure = max_ulp.Measure(Context("half", 5, 1, False, values.dtype))
        for block in values.blocks():
            measure.add(block)
        return measure.result()

    assert of(0.0, -0.0) == 0 and of(-1.4e-45, 1.4e-45) == 2
    assert of(1.0, np.nan) == of(np.inf, 1.0) == 2**31 - 1 and of(np.nan, np.nan) == 0
    assert of(1, 2, "int8") is None


def test_kl_divergence_is_that_of_the_histograms():
    rng = np.random.default_rng(0)
    a = rng.normal(size=5000).astype(np.float32)

    def of(x, y):
        measure = kl_divergence.Measure(Context("half", 5, x.size, False))
        for block in paired(x, y).blocks():
            measure.add(block)
        return measure.result()

    assert of(a, rng.permutation(a)) == 0.0
    near, far = of(a, (a * 1.01).astype(np.float32)), of(a, (a * 4).astype(np.float32))
    assert 0 < near < far / 3
    bins = [np.bincount((v.astype(np.float64) + 0.0).view(np.uint64) >> 48, minlength=65536) for v in (a, a * 4)]
    used = (bins[0] + bins[1]) > 0
    p, q = ((c[used] + 0.5) / (c[used] + 0.5).sum() for c in bins)
    assert far == pytest.approx((p * np.log(p / q)).sum(), rel=1e-6)


def test_the_axis_of_channels_follows_the_network():
    m = Qdq(seed=1)
    x = m.input((1, 4, 6, 5))
    y = m.quantize(m.op("Conv", [x, m.constant("w", m.rng.normal(size=(8, 4, 1, 1)).astype(np.float32))]))
    rows = m.quantize(m.op("Reshape", [y, m.constant("shape", np.array([1, 8, 30]))]))
    turned = m.quantize(m.op("Transpose", [rows], perm=[0, 2, 1]))
    m.output(turned)
    graph = compile_model(m.model().SerializeToString(), "q.onnx", CompilerOptions()).graph
    axes = find_channel_axes(graph)
    by_shape = {graph.spec(name).shape: axis for name, axis in axes.items()}
    assert by_shape[(1, 8, 6, 5)] == 1 and by_shape[(1, 8, 30)] == 1 and by_shape[(1, 30, 8)] == 2
    assert default_axis(()) == -1 and default_axis((3,)) == 0 and default_axis((2, 3, 4)) == 1


ROLES = {"y": {"axis": 1, "roles": {"box": "0:4", "score": "4:6"}}}


def heads(shift: float, at: int):
    rng = np.random.default_rng(5)
    values = rng.normal(size=(1, 6, 50)).astype(np.float32) * 100
    values[:, 4:] /= 1000
    other = values.copy()
    other[0, at] += shift
    return side("reference", y=values), side("board", y=other)


def test_a_gate_of_one_role_sees_what_a_gate_of_the_tensor_does_not():
    """Scores are small beside boxes: a whole tensor's cosine hides that they are wrong."""
    a, b = heads(0.2, 5)
    assert two(a, b, Options(min_cosine=0.999)).verdict == "PASSED"
    gates = ("y.score:cosine>=0.999",)
    (pair,) = two(a, b, Options(min_cosine=0.999, roles=ROLES, role_gates=gates)).pairs
    assert pair.verdict == "FAILED" and "role score: cosine" in pair.why and "cosine >= 0.999" in pair.gate
    box, score = pair.tensors[0].roles
    assert (box.role, box.verdict, box.gates, box.channels) == ("box", "PASSED", [], "0:4")
    assert (score.verdict, score.elements) == ("FAILED", 100) and score.metrics["cosine"] < 0.999
    assert pair.tensors[0].channels.worst[0].channel == 5
    a, b = heads(0.2, 1)  # the same amount in a box is nothing
    assert two(a, b, Options(min_cosine=0.999, roles=ROLES, role_gates=gates)).verdict == "PASSED"


def test_role_gates_replace_the_decimals_of_their_channels_alone():
    gates = ("y.score:max_abs<=0.5",)
    a, b = heads(0.2, 5)
    (pair,) = two(a, b, Options(roles=ROLES, role_gates=gates)).pairs
    assert pair.verdict == "PASSED" and pair.relaxed == ["y.score judged by max_abs <= 0.5 instead of decimals"]
    assert two(a, b, Options(roles=ROLES, role_gates=gates, digits_given=True)).verdict == "FAILED"
    a, b = heads(0.2, 1)  # in a channel of another role
    (pair,) = two(a, b, Options(roles=ROLES, role_gates=gates)).pairs
    assert pair.verdict == "FAILED" and "50 elements do not match to 5 decimals" in pair.why
    a, b = heads(math.nan, 5)
    assert two(a, b, Options(roles=ROLES, role_gates=gates)).verdict == "FAILED"


@pytest.mark.parametrize(
    ("metric", "holds", "misses"),
    [
        *(("cosine>=", 0.5, 1.0), ("sqnr>=", -30, 200), ("rmse<=", 1, 0.01), ("max_abs<=", 0.3, 0.1)),
        *(("euclid>=", -9, 1), ("ulp<=", 2**31 - 1, 5), ("kl<=", 100, 0)),
    ],
)
def test_every_metric_of_a_role(metric, holds, misses):
    a, b = heads(0.2, 5)
    for limit, verdict in ((holds, "PASSED"), (misses, "FAILED")):
        gates = ("y.box:max_abs<=1", f"y.score:{metric}{limit}")
        if metric == "cosine>=" and verdict == "PASSED":
            gates = (*gates, "y.score:max_abs<=1")  # alone it holds the norms, too
        assert two(a, b, Options(roles=ROLES, role_gates=gates)).verdict == verdict, (metric, limit)


def test_a_metric_that_a_role_does_not_have_needs_equal_bytes():
    a, b = heads(0.2, 5)
    assert two(a, b, Options(roles=ROLES, role_gates=("y.score:lsb<=9",))).verdict == "FAILED"  # floats
    assert two(a, b, Options(roles=ROLES, role_gates=("y.score:clipped<=1",))).verdict == "FAILED"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y.score:cosine<=0.9", "cosine is better if it is larger"),
        ("y.score:rmse>=0.9", "rmse is better if it is smaller"),
        ("y.score:cosin>=0.9", "did you mean cosine"),
        ("y.score:cosine>=nan", "wanted OUTPUT.ROLE:METRIC"),
        ("y.score:cosine>=2", "a cosine of -1 to 1"),
        ("y.score:rmse<=-1", "a limit >= 0"),
        ("score:cosine>=0.9", "wanted OUTPUT.ROLE:METRIC"),
    ],
)
def test_mistakes_in_gates_of_roles(text, said):
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        parse_role_gate(text)


def test_a_table_of_outputs_diff_states_no_roles():
    assert parse_roles({"y": {"scale": 0.5, "zero_point": 3}}) == {}
    assert parse_roles({"y": {"scale": 0.5, "roles": {"a": "0:2,3"}}})["y"].select("a") == [0, 1, 3]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"y": 1}, "wanted a table"),
        ({"y": {"role": {}}}, "unknown key 'role'"),
        ({"y": {"roles": {}}}, "1 to 64 of them"),
        ({"y": {"roles": {"a": "4:2"}}}, "wanted channels"),
        ({"y": {"roles": {"a": "x"}}}, "wanted channels"),
        ({"y": {"roles": {"a": "0:4", "b": "3:5"}}}, "channel 3 is of two roles, a and b"),
        ({"y": {"roles": {"a.b": "0:4"}}}, "wanted letters"),
        ({"y": {"roles": {"a": "0:4"}, "axis": "1"}}, "wanted a whole number"),
        ({"y": {"roles": {"a": ",".join(["0:1"] * 2000)}}}, "wanted channels"),
    ],
)
def test_mistakes_in_roles(table, said):
    with pytest.raises(UsageError, match=said):
        parse_roles(table)


def describe(tmp_path: Path, text: str) -> str:
    path = tmp_path / "roles.toml"
    path.write_text(text)
    return str(path)


LOW_HIGH = '[outputs.prob]\nroles = {low = "0:5", high = "5:10"}\n'


@pytest.mark.parametrize(
    ("text", "gate", "said"),
    [
        (LOW_HIGH, "prob.lo:cosine>=0.9", "prob has the roles low, high"),
        (LOW_HIGH, "probs.low:cosine>=0.9", "no roles of probs are described; did you mean prob"),
        ('[outputs.prob]\nroles = {low = "0:11"}\n', "prob.low:cosine>=0.9", "but the output is 1x10"),
        ('[outputs.other]\nroles = {low = "0:1"}\n', "other.low:cosine>=0.9", "no such output; the network has prob"),
    ],
)
def test_mistakes_are_one_line_before_anything_runs(tmp_path, capsys, text, gate, said):
    words = ["-m", QUANT, "--description", describe(tmp_path, text), "--gate", gate]
    assert main(words) == 2
    out = capsys.readouterr()
    assert said in out.err and out.err.count("\n") == 1 and out.out == ""


def test_gates_of_roles_need_a_description(capsys, tmp_path):
    assert main(["-m", QUANT, "--gate", "prob.low:cosine>=0.9"]) == 2
    assert "give --description FILE with [outputs.NAME] roles" in capsys.readouterr().err
    assert main(["compare", str(tmp_path), str(tmp_path), "--gate", "prob.low:cosine>=0.9"]) == 2
    assert "give --description" in capsys.readouterr().err


def test_compare_judges_roles_that_its_description_names(tmp_path, capsys):
    """Scores of 0 to 1 beside boxes of hundreds of pixels: the whole tensor's cosine does not see them."""
    a = np.concatenate([np.full((1, 4, 50), 300.0), np.random.default_rng(0).random((1, 6, 50))], 1).astype(np.float32)
    b = a.copy()
    b[:, 4:] = a[:, :3:-1]
    described, out = tmp_path / "roles.toml", tmp_path / "r.json"
    described.write_text('[outputs.output0]\nroles = {box = "0:4", score = "4:10"}\n')
    for name, value in (("a", a), ("b", b)):
        np.savez(tmp_path / f"{name}.npz", output0=value)
    words = ["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--description", str(described)]
    gates = ["--gate", "cosine:0.9"]
    assert main([*words, *gates]) == 0
    gates += ["--gate", "output0.score:cosine>=0.999", "--gate", "output0.box:max_abs<=1"]
    assert main([*words, *gates, "--json", str(out)]) == 1
    row = json.loads(out.read_text())["pairs"][0]["tensors"][0]
    assert [(r["role"], r["verdict"]) for r in row["roles"]] == [("box", "PASSED"), ("score", "FAILED")]
    assert "role score: cosine" in capsys.readouterr().out
    found = qverify.compare(words[1], words[2], description=str(described), gate=["output0.score:cosine>=0.999"])
    assert found.exit_status == 1
    for text, said in (("[outputs.other]", "no such output"), ("[outputs.output0]", "roles up to channel 11")):
        described.write_text(f'{text}\nroles = {{score = "4:12"}}\n')
        assert main([*words, *gates[:2]]) == 2 and said in capsys.readouterr().err


def test_a_run_its_page_its_json_and_its_replay(tmp_path, capsys):
    """A board with a wrong layer misses the gate of a role, with and without the capture; simulator against board stays bit equality."""
    description = describe(tmp_path, LOW_HIGH)
    options = {"description": description, "gate": ["prob.low:max_abs<=0.5", "prob.high:max_abs<=0.5"], "seed": 3}
    assert qverify.verify(QUANT, board="local", **options).passed
    report = qverify.verify(QUANT, board=REVERSED, capture=tmp_path / "kept", **options)
    by_pair = {(p.a, p.b): p for p in report.document.pairs}
    assert by_pair["reference", "board"].verdict == "FAILED" and "role " in by_pair["reference", "board"].why
    assert by_pair["simulator", "board"].gate == "bit equality"
    row = next(r for r in by_pair["reference", "board"].tensors if r.name == "prob")
    assert [role.role for role in row.roles] == ["low", "high"] and row.channels.worst
    document = report.to_json()
    jsonschema.validate(document, report_schema())
    again = qverify.replay(tmp_path / "kept")
    assert {(p.a, p.b): p.verdict for p in again.document.pairs} == {k: p.verdict for k, p in by_pair.items()}
    assert [r.verdict for p in again.document.pairs for t in p.tensors for r in t.roles].count("FAILED") >= 1
    page = render(report.document)
    assert "worst channels" in page and "role low, channels 0:5: " in page and "by channel" in page
    (tmp_path / "r.json").write_text(json.dumps(document))
    assert main(["report", "show", str(tmp_path / "r.json")]) in (1, 2)
    capsys.readouterr()


def test_the_worst_channels_are_in_the_text(capsys):
    assert main(["-m", QUANT, "-b", REVERSED, "--seed", "3"]) == 1
    out = capsys.readouterr().out
    assert "of the squared error" in out and "of 10: max" in out

"""The shipped arithmetics of LiteRT's kernel sets and of TFLM, against the kernels themselves: LiteRT runs here, and of
TFLM, which is not installed, there are recorded results."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify.arithmetic.forms import METHODS, Form
from qverify.arithmetic.softmax_fixed_point import exponential, softmax
from qverify.compare.catalogue import KERNELS, LEGAL
from qverify.compare.identify.arithmetic_file import read_arithmetic, to_text
from qverify.compare.identify.fit import RecordedUnit, fit
from qverify.errors import BadFileError
from qverify.model_bin.kinds_of_nodes import find_of_node
from qverify.report.learned import Arithmetic

from scripts.learning import probes
from scripts.learning.engines import open_engine
from scripts.learning.learn import Opened, check_network, record_probes
from tests.conftest import MODELS, need_models
from tests.tflite_files import dense

SHIPPED = Path(qverify.__file__).with_name("arithmetics")
OF_KERNELS = {"reference": "litert-reference", "optimized": "litert", "xnnpack": "xnnpack"}
NETWORKS = ["ad_toycar", "kws_mlperf_int8", "mbv1_025_128_qat", "mbv2_100_224_ptq", "resnet8_cifar10", "vww_96"]
need_litert = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")


def of_int16(op: str) -> bool:
    """Whether a form is that of int16, which test_tflite_int16 compares with the kernels."""
    return op.endswith("of int16")


def shipped(name: str) -> Arithmetic:
    return read_arithmetic(str(SHIPPED / f"{name}.toml"))


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest) -> list[RecordedUnit]:
    """Files of each operator that were not learned from, run by one set of kernels."""
    refused = Counter[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probes, "PROBES", {name: (2, make) for name, (_, make) in probes.PROBES.items()})
        units = [*record_probes(open_engine(request.param, ""), 91, refused)]
    assert not refused
    return units


@need_litert
@pytest.mark.parametrize(("recorded", "name"), OF_KERNELS.items(), indirect=["recorded"])
def test_the_shipped_form_of_each_op_gives_every_element_of_its_kernel(recorded: list[RecordedUnit], name: str) -> None:
    arithmetic = shipped(name)
    assert {u.unit.nodes[0].op for u in recorded} == {
        op.partition(", ")[0] for op in arithmetic.ops if not of_int16(op)
    }
    for unit in recorded:
        op = find_of_node(arithmetic.ops, unit.unit.nodes[0], unit.graph)
        assert op is not None and op.form
        assert np.array_equal(unit.compute(op.form), unit.recorded), (op.op, op.form)


@need_litert
@pytest.mark.parametrize(("recorded", "name"), OF_KERNELS.items(), indirect=["recorded"])
def test_of_two_kernel_sets_neither_is_taken_for_the_other(recorded: list[RecordedUnit], name: str) -> None:
    """The forms of another set, where they are other ones, do not give these kernels' elements."""
    for other in (shipped(n) for n in OF_KERNELS.values() if n != name):
        own, wrong = shipped(name), set[str]()
        for unit in recorded:
            node = unit.unit.nodes[0]
            forms = [find_of_node(a.ops, node, unit.graph) for a in (own, other)]
            if forms[0] and forms[1] and forms[0].form != forms[1].form and unit.count_wrong(forms[1].form):
                wrong.add(node.op)
        assert {"conv", "fully_connected"} <= wrong


@need_litert
def test_fully_connected_of_the_reference_kernels_is_rounded_once_and_its_convolution_twice() -> None:
    engine, found = open_engine("reference", ""), {}
    for kind in ("CONV_2D", "FULLY_CONNECTED"):
        opened = Opened(kind, probes.edges(np.random.default_rng(5), "int8", True, kind))
        found[kind] = opened.collect(opened.record(engine, np.random.default_rng(0)))[0].fitting
    assert found["CONV_2D"] == ("gemmlowp", "cmsis")
    assert "half away from zero" in found["FULLY_CONNECTED"] and "gemmlowp" not in found["FULLY_CONNECTED"]


@need_litert
@pytest.mark.parametrize("kernels", OF_KERNELS)
def test_kinds_of_nodes_have_forms_of_their_own(kernels: str) -> None:
    """Convolutions of int8 and of uint8, whose multipliers LiteRT computes in two ways."""
    engine, members = open_engine(kernels, ""), []
    for dtype in ("int8", "uint8"):
        for seed in range(3):
            data = probes.edges(np.random.default_rng([3, seed]), dtype, False, "CONV_2D")
            opened = Opened(dtype, data)
            members += opened.collect(opened.record(engine, np.random.default_rng(0)))
    ops = {op.op: op.form for op in fit(members)}
    own = {
        op: found.form
        for op, found in shipped(OF_KERNELS[kernels]).ops.items()
        if op.startswith("conv") and "depthwise" not in op and not of_int16(op)
    }
    assert ops == own
    assert ("conv, of uint8" in ops) is (kernels != "xnnpack")
    assert all(find_of_node(ops, m.unit.nodes[0], m.graph) in m.fitting for m in members)


def test_a_table_of_a_kind_is_written_and_read_back(tmp_path: Path) -> None:
    arithmetic = shipped("litert")
    assert "conv, of uint8" in arithmetic.ops and "lookup, of a function" in arithmetic.ops
    (tmp_path / "again.toml").write_text(text := to_text(arithmetic))
    assert read_arithmetic(str(tmp_path / "again.toml")) == arithmetic
    (tmp_path / "wrong.toml").write_text(text.replace('"conv, of uint8"', '"conv, of uint9"'))
    with pytest.raises(BadFileError, match="did you mean of uint8"):
        read_arithmetic(str(tmp_path / "wrong.toml"))


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda p: p.stem)
def test_each_shipped_file_says_how_it_was_learned(path: Path) -> None:
    arithmetic = shipped(path.stem)
    assert arithmetic.name == path.stem and arithmetic.engine and arithmetic.learned
    if path.stem in (*OF_KERNELS.values(), "tflm", "cmsis-nn"):
        known = [op for op in arithmetic.ops.values() if not of_int16(op.op)]
        assert all(op.form in ("ref-exact", *LEGAL) and not op.why for op in known)
    assert path.read_text() == to_text(arithmetic)


@need_litert
def test_ref_exact_is_the_same_form_for_a_tflite_as_for_an_onnx(tmp_path: Path) -> None:
    """LiteRT's own fully_connected is not ref-exact, although qverify simulates a .tflite in LiteRT's arithmetic."""
    from qverify.cli.main import main

    (tmp_path / "m.tflite").write_bytes(probes.edges(np.random.default_rng(5), "int8", True, "FULLY_CONNECTED"))
    words = ["infer", "-m", str(tmp_path / "m.tflite"), "--side", "reference", "-o", str(tmp_path / "dump")]
    assert main(words) == 0
    opened = Opened("m", (tmp_path / "m.tflite").read_bytes())
    (name,) = opened.graph.outputs
    x = np.zeros(opened.graph.spec(opened.graph.inputs[0]).shape, np.int8)
    np.savez(
        tmp_path / "dump.npz", **{opened.graph.inputs[0]: x, name: np.load(next((tmp_path / "dump").glob("*.npy")))}
    )
    out = tmp_path / "a.toml"
    assert main(["identify", str(tmp_path / "dump.npz"), "-m", str(tmp_path / "m.tflite"), "-o", str(out)]) == 0
    op = read_arithmetic(str(out)).ops["fully_connected"]
    assert "half away from zero" in op.alike and "ref-exact" not in (op.form, *op.alike)


# TFLM 0.dev20261023182759: a FULLY_CONNECTED with one scale and weights of 0, whose sums are its biases
TFLM_SCALES = 0.04943747818470001, 2.3425918698194437e-05, 0.08055714517831802
TFLM_SUMS = [-11511956, -591248, -7964465, 5808147, -1773745, -8868727, 4416974, -869483, -5738588, 5738588]
TFLM_SUMS += [-2191097, -10120783, 4138739, -3164918, -9633872, 243455, -4625650, -10607693, 1078159, -6155940]
TFLM_CODES = [-124, 33, -73, 126, 16, -86, 106, 29, -41, 125, 10, -104, 102, -4, -96, 46, -25, -110, 58, -47]


def test_fully_connected_of_tflm_is_rounded_twice_with_scales_in_float64() -> None:
    from qverify.arithmetic.multipliers import parameters
    from qverify.arithmetic.requantize import shifted

    def compute(scale: float, mode: str) -> list[int]:
        multiplier, shift = parameters(mode, scale).astype(np.int64)
        return (shifted(np.array(TFLM_SUMS), multiplier, shift, mode, False) + 42).tolist()

    sx, sw, sy = TFLM_SCALES
    assert shipped("tflm").ops["fully_connected"].form == "gemmlowp"
    assert compute(sx * sw / sy, "gemmlowp") == TFLM_CODES
    assert compute(sx * sw / sy, "tflite-single") != TFLM_CODES
    assert compute(float(np.float32(sx) * np.float32(sw)) / sy, "gemmlowp") != TFLM_CODES


TFLM_SOFTMAX = [  # scale of the input, a row, TFLM's row, and how it is with exponentials in a table of float32
    (0.08934106677770615, [-35, -98, 43, 119, 92, 61, -41, -122, 40, 79], [0, 0, 0, 228, 20, 1, 0, 0, 0, 6], 3),
    (0.13066300749778748, [101, 68, 102, 98, 20], [90, 1, 103, 61, 0], 0),
    (0.03108324483036995, [-62, 47, -125], [8, 246, 1], 1),
    (0.022831711918115616, [-106, -16, -49, 45, -106], [6, 44, 21, 179, 6], 1),
    (0.12820589542388916, [39, -46, -27, -100, 119, 67, -33, -10, -79, 77], [0, 0, 0, 0, 255, 0, 0, 0, 0, 1], 4),
]


@pytest.mark.parametrize(("scale", "row", "steps", "telling"), TFLM_SOFTMAX)
def test_softmax_of_tflm_is_in_fixed_point(scale: float, row: list[int], steps: list[int], telling: int) -> None:
    """The element at `telling` is another one if exponentials come from a table of float32."""
    assert softmax(np.array([row], np.int8), scale).tolist() == [steps]
    one, table = np.float32(1), np.exp(np.float32(scale) * (np.array(row, np.float32) - max(row)))
    total = np.cumsum(table, dtype=np.float32)[-1] / np.float32(256)
    assert int(np.floor(table[telling] * (one / total) + np.float32(0.5))) != steps[telling]


def test_exponentials_in_fixed_point_are_close_to_exact_ones() -> None:
    values = -np.arange(0, 31 << 26, 9_999_991, dtype=np.int64)
    assert np.abs(exponential(values) / 2.0**31 - np.exp(values / 2.0**26)).max() < 2.0**-22
    assert exponential(np.array([0])).tolist() == [2**31 - 1]


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_of_a_kernel_is_that_of_its_form(name: str) -> None:
    assert str(Form.parse(name)) == name
    assert Form.parse(name).method in ("", *METHODS)


@need_models()
@need_litert
@pytest.mark.parametrize("kernels", OF_KERNELS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_is_bit_equal_free_running(network: str, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.learning.learn.NETWORK_RUNS", 1)
    path = next((MODELS / network).glob("*.tflite"))
    assert check_network(str(path), open_engine(kernels, ""), shipped(OF_KERNELS[kernels]), 7)


@need_litert
def test_a_network_under_another_arithmetic_is_not(tmp_path: Path) -> None:
    (tmp_path / "fc.tflite").write_bytes(dense(rows=32, length=64, outputs=256))
    engine = open_engine("reference", "")
    assert check_network(str(tmp_path / "fc.tflite"), engine, shipped("litert-reference"), 0)
    (tmp_path / "at_ties.tflite").write_bytes(probes.edges(np.random.default_rng(5), "int8", True, "FULLY_CONNECTED"))
    assert not check_network(str(tmp_path / "at_ties.tflite"), engine, shipped("litert"), 0)

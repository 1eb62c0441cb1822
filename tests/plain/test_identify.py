"""The arithmetic of a side is learned from a recording of its nodes, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from qverify.cli.main import main
from qverify.compare.identify.arithmetic_file import read_arithmetic, to_text
from qverify.errors import BadFileError

from tests.conftest import MODELS
from tests.ops.qdq import Qdq


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions, an addition and a global mean, with general scales."""
    m = Qdq("int8", seed=11)
    x = m.input((1, 8, 24, 24))
    a = m.quantize(m.op("Conv", [x, m.weight((8, 8, 3, 3), axis=0)], "a", pads=[1] * 4))
    b = m.quantize(m.op("Conv", [a, m.weight((8, 8, 3, 3), axis=0)], "b", pads=[1] * 4))
    c = m.quantize(m.op("Add", [a, b], "c"))
    m.outputs.append(m.quantize(m.op("GlobalAveragePool", [c], "d")))
    path = tmp_path_factory.mktemp("network") / "m.onnx"
    path.write_bytes(m.model().SerializeToString())
    return path


def dump(network: Path, folder: Path, rounding: str) -> Path:
    """Returns the tensors of a chip that rounds in this mode."""
    binary = folder / f"{rounding}.bin"
    assert main(["compile", str(network), "-o", str(binary), "--rounding", rounding]) == 0
    assert main(["infer", "-m", str(binary), "--side", "simulator", "-o", str(folder / rounding)]) == 0
    return folder / rounding


def forms(path: Path) -> dict[str, str]:
    return {op: learned.form for op, learned in read_arithmetic(str(path)).ops.items()}


@pytest.mark.parametrize("rounding", ["ref-exact", "gemmlowp", "mul8", "mul15", "pow2-floor", "pow2-half-away"])
def test_every_mode_is_found_and_simulates_the_recording(
    network: Path, tmp_path: Path, rounding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given, written = dump(network, tmp_path, rounding), tmp_path / "chip.toml"
    assert main(["identify", str(given), "-m", str(network), "-o", str(written)]) == 0
    ops = read_arithmetic(str(written)).ops
    assert {*ops} == {"conv", "add", "global_average_pool"}
    assert all(rounding in (o.form, *o.alike) for o in ops.values()), ops
    assert ops["conv"].form == rounding and (ops["conv"].decided or 0) > 0
    out = capsys.readouterr().out
    assert "free-running under it: 5 of 5 tensors bit-equal" in out or "4 of 4 tensors bit-equal" in out


def test_powers_of_two_show_no_multiplier(network: Path, tmp_path: Path) -> None:
    """A rule for the exact value is named, which holds for other scales, and the doubt is said."""
    model = onnx.load(network)
    for scale in (i for i in model.graph.initializer if i.name.endswith(("_scale", "_s"))):
        value = numpy_helper.to_array(scale)
        scale.CopyFrom(numpy_helper.from_array(np.exp2(np.rint(np.log2(value))).astype(np.float32), scale.name))
    onnx.save(model, tmp_path / "m.onnx")
    given, written = dump(tmp_path / "m.onnx", tmp_path, "pow2-half-up"), tmp_path / "chip.toml"
    assert main(["identify", str(given), "-m", str(tmp_path / "m.onnx"), "-o", str(written)]) == 3
    op = read_arithmetic(str(written)).ops["conv"]
    assert op.form == "half up" and "pow2-half-up" in op.alike and "every scale here is a power of two" in op.why


def test_each_op_has_its_own_form(network: Path, tmp_path: Path) -> None:
    """A chip whose convolutions round up at halves in powers of two, and whose additions are the reference's."""
    convs, written = dump(network, tmp_path, "gemmlowp"), tmp_path / "chip.toml"
    tensors = {p.stem: np.load(p) for p in convs.glob("*.npy")}
    from qverify.model_bin.units import units
    from qverify.session.models import open_models
    from qverify.sides.simulator import Simulator

    graph = open_models([str(network)]).graph
    for unit in units(graph):
        if unit.nodes[0].op in ("add", "global_average_pool"):
            tensors |= Simulator(graph).run_unit(unit, {n: tensors[n] for n in unit.inputs})
    np.savez(tmp_path / "mixed.npz", **tensors)
    assert main(["identify", str(tmp_path / "mixed.npz"), "-m", str(network), "-o", str(written)]) == 0
    assert forms(written) == {"conv": "gemmlowp", "add": "ref-exact", "global_average_pool": "ref-exact"}


def test_a_fault_is_unknown_and_two_roundings_are_not_one(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from qverify.session.models import open_models

    first = dump(network, tmp_path, "gemmlowp")
    dump(network, tmp_path, "mul8")
    convs = [n.outputs[0] for n in open_models([str(network)]).graph.nodes if n.op == "conv"]
    tensors = {p.stem: np.load(p) for p in first.glob("*.npy")}
    spoiled = {n: v.copy() for n, v in tensors.items()}
    spoiled[convs[0]].reshape(-1)[7] ^= 1
    np.savez(tmp_path / "spoiled.npz", **spoiled)
    written = tmp_path / "chip.toml"
    assert main(["identify", str(tmp_path / "spoiled.npz"), "-m", str(network), "-o", str(written)]) == 1
    op = read_arithmetic(str(written)).ops["conv"]
    assert op.form == "" and op.nearest is not None and op.nearest.form.startswith(("gemmlowp", "cmsis"))
    capsys.readouterr()

    graph = open_models([str(tmp_path / "mul8.bin")]).graph
    from qverify.model_bin.units import units
    from qverify.sides.simulator import Simulator

    for unit in units(graph):
        if unit.outputs[0] == convs[1]:
            tensors |= Simulator(graph).run_unit(unit, {n: tensors[n] for n in unit.inputs})
    np.savez(
        tmp_path / "two.npz", **{n: tensors[n] for n in tensors if n in (*convs, *graph.inputs) or n.startswith("in")}
    )
    assert main(["identify", str(tmp_path / "two.npz"), "-m", str(network), "-o", str(written)]) == 1
    op = read_arithmetic(str(written)).ops["conv"]
    assert op.why == "not one arithmetic" and "mul8" in op.parts[convs[1]] and "gemmlowp" in op.parts[convs[0]]
    assert "conv: not one arithmetic" in capsys.readouterr().out


def test_parameters_are_solved_from_a_recording(network: Path, tmp_path: Path) -> None:
    """One half of the elements gives the parameters, the other half confirms them; the simulation under it is equal."""
    form, chip, written = (
        "half up, multiplier of 15 bits, 2 fraction bits kept first (floor)",
        "chip.toml",
        tmp_path / "x",
    )
    (tmp_path / chip).write_text(GOOD.replace("gemmlowp", form))
    binary = tmp_path / "m.bin"
    assert main(["compile", str(network), "-o", str(binary), "--arithmetic", str(tmp_path / chip)]) == 0
    assert main(["infer", "-m", str(binary), "--side", "simulator", "-o", str(tmp_path / "dump")]) == 0
    assert main(["identify", str(tmp_path / "dump"), "-m", str(network), "-o", str(written)]) == 0
    ops = read_arithmetic(str(written)).ops
    assert ops["conv"].form == form and (ops["conv"].decided or 0) > 100
    assert 4000 < (ops["conv"].held_out or 0) < 5300
    assert ops["add"].form == "ref-exact" and ops["add"].held_out is None


def test_a_dump_of_nothing_that_is_computed_is_refused(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "final.npz", d=np.zeros((1, 8, 1, 1), np.int8))
    assert main(["identify", str(tmp_path / "final.npz"), "-m", str(network)]) == 2
    error = capsys.readouterr().err
    assert "has all its inputs and its output there; wanted tensors such as" in error and error.count("\n") == 1


GOOD = 'format = 1\nname = "a"\n[op.conv]\nform = "gemmlowp"\nnodes = 1\nelements = 4\n'


@pytest.mark.parametrize(
    "text, why",
    [
        ("format = 2\n", "format: got 2, wanted 1; learn it again with this qverify"),
        ("name = 1", "format: got None, wanted 1"),
        ("format = 1\n", "op: wanted a table [op.NAME] for each op"),
        (
            GOOD.replace("gemmlowp", "gemlowp"),
            "op.conv.form: 'gemlowp' is no form of the catalogue; did you mean gemmlowp?",
        ),
        (GOOD.replace("op.conv", "op.convv"), "op.convv: no op of NUMERICS.md; did you mean conv?"),
        (GOOD.replace("nodes = 1", "nodes = -1"), "op.conv.nodes: got -1, wanted a whole number of 0 or more"),
        (GOOD.replace("nodes = 1", "nodes = true"), "op.conv.nodes: got True, wanted a whole number of 0 or more"),
        (GOOD + "shift = 3\n", "op.conv.shift: not known"),
        (GOOD.replace("gemmlowp", "half up, multiplier of 40 bits"), "op.conv.form: 40 bits of a multiplier, wanted"),
        (GOOD.replace("gemmlowp", "mul8, 31 fraction bits kept first (floor)"), "op.conv.form: 31 fraction bits that"),
        (GOOD.replace("gemmlowp", "mul8, product shifted by 63 first (floor)"), "op.conv.form: 63 bits of a shift"),
        (GOOD.replace("gemmlowp", "tflite-double"), "op.conv.form: "),
        (GOOD.replace("nodes = 1", "nodes = 1.5"), "op.conv.nodes: got 1.5, wanted a whole number of 0 or more"),
        (GOOD.replace("op.conv", 'op."conv, of int3"'), "op.conv, of int3: no kind of nodes"),
        (GOOD + "residual = [1]\n", "op.conv.residual: wanted two numbers of elements"),
        (GOOD.replace('"a"', "3"), "name: wanted a text of at most 2000 characters"),
        ("format = 1\nop = 3\n", "op: wanted a table [op.NAME] for each op"),
        ("[[", "not TOML: "),
    ],
)
def test_files_that_are_wrong_are_refused_in_one_line(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(BadFileError) as refused:
        read_arithmetic(str(tmp_path / "a.toml"))
    assert f"a.toml: {why}" in str(refused.value) and "\n" not in str(refused.value)


def test_a_file_is_read_as_it_was_written(network: Path, tmp_path: Path) -> None:
    given = dump(network, tmp_path, "mul15")
    written = tmp_path / "chip.toml"
    words = ["--name", 'a "chip"', "--engine", "firmware 2.1\x7f"]
    assert main(["identify", str(given), "-m", str(network), "-o", str(written), *words]) == 0
    read = read_arithmetic(str(written))
    assert (read.name, read.engine) == ('a "chip"', "firmware 2.1\x7f")
    assert to_text(read) == written.read_text()


def test_an_op_of_which_nothing_is_recorded_is_not_certain(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = dump(network, tmp_path, "gemmlowp")
    tensors = {p.stem: np.load(p) for p in given.glob("*.npy") if not p.stem.startswith("d")}
    np.savez(tmp_path / "part.npz", **tensors)
    assert main(["identify", str(tmp_path / "part.npz"), "-m", str(network)]) == 3
    said = capsys.readouterr().out
    assert "not certain: no node has its inputs and its output in the dump, of: global_average_pool" in said
    assert said.splitlines()[-1].startswith("INCONCLUSIVE (exit status 3): ")


def test_a_reshape_that_the_dump_lacks_hides_no_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m = Qdq(act="int8", seed=5)
    x = m.quantize(m.input((1, 3, 6, 6)))
    weight = m.weight((4, 3, 3, 3))
    y = m.quantize(m.op("Conv", [x, weight, m.bias(x, weight, 4)]))
    flat = m.quantize(m.op("Flatten", [y], "flat"), like=y)
    weight = m.weight((64, 5))
    m.output(m.quantize(m.op("Gemm", [flat, weight, m.bias(flat, weight, 5)])))
    (tmp_path / "q.onnx").write_bytes(m.model().SerializeToString())
    given = dump(tmp_path / "q.onnx", tmp_path, "mul15")
    tensors = {p.stem: np.load(p) for p in given.glob("*.npy")}
    kept = {n: v for n, v in tensors.items() if not n.startswith("flat")}
    assert len(kept) == len(tensors) - 1
    np.savez(tmp_path / "part.npz", **kept)
    main(["identify", str(tmp_path / "part.npz"), "-m", str(tmp_path / "q.onnx"), "-o", str(tmp_path / "chip.toml")])
    assert "no node has" not in capsys.readouterr().out
    assert "fully_connected" in forms(tmp_path / "chip.toml")


def test_the_input_of_the_network_stands_for_what_the_dump_lacks(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from qverify.session.models import open_models

    spec = open_models([str(network)]).graph.spec("in0")
    given = np.random.default_rng(5).normal(size=spec.shape).astype(spec.dtype)
    np.save(tmp_path / "x.npy", given)
    np.save(tmp_path / "other.npy", given + 1)
    dump(network, tmp_path, "gemmlowp")
    words = ["-i", str(tmp_path / "x.npy"), "-o", str(tmp_path / "inner")]
    assert main(["infer", "-m", str(tmp_path / "gemmlowp.bin"), "--side", "simulator", *words]) == 0
    tensors = {p.stem: np.load(p) for p in (tmp_path / "inner").glob("*.npy")}
    np.savez(tmp_path / "inner.npz", **{n: v for n, v in tensors.items() if n != "in0"})
    np.savez(tmp_path / "all.npz", **{**tensors, "in0": given})
    capsys.readouterr()
    assert main(["identify", str(tmp_path / "inner.npz"), "-m", str(network)]) == 0
    assert "taken from the recording: " in capsys.readouterr().out
    assert main(["identify", str(tmp_path / "inner.npz"), "-m", str(network), "-i", str(tmp_path / "x.npy")]) == 0
    out = capsys.readouterr().out
    assert "taken from the recording" not in out and "tensors bit-equal, first" not in out
    assert main(["identify", str(tmp_path / "all.npz"), "-m", str(network), "-i", str(tmp_path / "other.npy")]) == 2
    assert "is not that of -i; give the input that the dump was made with" in capsys.readouterr().err


VENDOR = MODELS.parent / "vendor-real"
RECORDED = (
    ("kws_u8s8_qnn.npz", "kws_dscnn/kws_dscnn_u8s8_qdq.onnx", "kws_x.npy", 15),
    ("resnet8_s8s8_qnn.npz", "resnet8_cifar10/resnet8_cifar10_s8s8_qdq.onnx", "resnet8_x.npy", 25),
    ("kws_u8s8_ov_q.npz", "kws_dscnn/kws_dscnn_u8s8_qdq.onnx", "kws_x.npy", 15),
)


@pytest.mark.skipif(not VENDOR.exists(), reason="the recordings of real engines are not here")
@pytest.mark.parametrize(("recording", "model", "given", "tensors"), RECORDED)
def test_real_engines_are_identified_and_simulated_bit_by_bit(
    recording: str, model: str, given: str, tensors: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-m", str(MODELS / model), "-i", str(VENDOR / given)]
    main(["identify", str(VENDOR / recording), *words])
    out = capsys.readouterr().out
    assert "unknown" not in out and f"free-running under it: {tensors} of {tensors} tensors bit-equal" in out


def test_forms_near_the_named_one_that_give_every_element_are_alike(network: Path, tmp_path: Path) -> None:
    """A multiplier of 12 bits that nothing here tells from an exact one is among those named."""
    m = Qdq("int8", seed=3)
    x = m.input((1, 4, 6, 6))
    m.outputs.append(m.quantize(m.op("Mul", [x, x], "a")))
    model, written = tmp_path / "mul.onnx", tmp_path / "chip.toml"
    model.write_bytes(m.model().SerializeToString())
    given = dump(model, tmp_path, "ref-exact")
    assert main(["identify", str(given), "-m", str(model), "-o", str(written)]) == 0
    op = read_arithmetic(str(written)).ops["mul"]
    assert op.form == "ref-exact" and len({*op.alike}) == len(op.alike)
    narrow = [f for f in op.alike if f.startswith("half up, multiplier of 1")]
    assert narrow and all("multiplier of 4 bits" not in f for f in op.alike)


def test_functions_do_not_decide_on_changes_of_the_quantization(tmp_path: Path) -> None:
    """A function has its own table, so that it says nothing of the forms that a change may have."""
    m = Qdq("int8", seed=4)
    x = m.input((1, 4, 16, 16))
    a = m.quantize(m.op("Sigmoid", [x], "a"))
    m.outputs.append(m.pair(a, np.float32(0.0071), np.int8(5)))
    path = tmp_path / "m.onnx"
    path.write_bytes(m.model().SerializeToString())
    given, written = dump(path, tmp_path, "ref-exact"), tmp_path / "chip.toml"
    main(["identify", str(given), "-m", str(path), "-o", str(written)])
    op = read_arithmetic(str(written)).ops["lookup"]
    assert op.form == "ref-exact" and op.nodes == 2 and op.elements == 2048
    assert {"half up", "half even, the zero point added before", "tflite-single"} <= {*op.alike}


def test_a_mean_that_is_rounded_first_is_solved_with_a_doubt(network: Path, tmp_path: Path) -> None:
    """One small mean: several ways to round it give the same bytes, and the doubt is said."""
    from qverify.compare.identify.fit import SEVERAL_MEANS
    from qverify.session.models import open_models

    given = dump(network, tmp_path, "ref-exact")
    tensors = {p.stem: np.load(p) for p in given.glob("*.npy")}
    graph = open_models([str(network)]).graph
    node = next(n for n in graph.nodes if n.op == "global_average_pool")
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    total = (tensors[x.name].astype(np.int64) - x.zero_point[0]).sum(axis=(2, 3), keepdims=True)
    means = (total << 1) // (x.shape[2] * x.shape[3])
    value = np.floor(means * (x.scale[0] / y.scale[0] / 2) + 0.5) + y.zero_point[0]
    tensors[y.name] = np.clip(value, -128, 127).astype(np.int8).reshape(y.shape)
    np.savez(tmp_path / "mean.npz", **tensors)
    written = tmp_path / "chip.toml"
    assert main(["identify", str(tmp_path / "mean.npz"), "-m", str(network), "-o", str(written)]) == 3
    op = read_arithmetic(str(written)).ops["global_average_pool"]
    assert op.form == "half up, sum divided by their number first to 1 fraction bit (floor)"
    assert op.why == SEVERAL_MEANS and len({f.rpartition(", sum ")[2] for f in (op.form, *op.alike)}) > 1

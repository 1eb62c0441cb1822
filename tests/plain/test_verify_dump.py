"""The main job with a dump in the board's place."""

import json
import shutil
import zipfile

import numpy as np
import onnx
import pytest
import qverify
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.session.other_jobs.infer import infer

from tests.ops.qdq import Qdq


@pytest.fixture
def dump(digits, inputs, tmp_path):
    """A right dump of one input, as `qverify infer` writes it."""
    words = ["-m", str(digits / "digits_quant.onnx"), "--side", "reference", "-i", inputs[0]]
    assert main(["infer", *words, "-o", str(tmp_path / "dump")]) == 0
    return tmp_path / "dump"


@pytest.fixture
def inputs(tmp_path):
    """Two inputs of the example's network."""
    paths = [str(tmp_path / f"x{k}.npy") for k in range(2)]
    for k, path in enumerate(paths):
        np.save(path, np.random.default_rng(k).random((1, 1, 8, 8), np.float32))
    return paths


def verify(digits, dump, *words):
    return main(["-m", f"{digits / 'digits_quant.onnx'},{dump}", *words])


def lines(capsys):
    return [line for line in capsys.readouterr().out.splitlines() if "Strict check" in line]


def test_a_right_dump_passes_beside_reference_and_simulator(digits, dump, inputs, capsys):
    assert verify(digits, dump, "-i", inputs[0], "-r", "True") == 0
    found = [line.partition(" result")[0] for line in lines(capsys)]
    assert found == ["Quanti.onnx and Sim", "Quanti.onnx and Arm", "Sim and Arm"]


def test_a_wrong_node_of_a_dump_is_blamed_on_the_board(digits, dump, inputs, tmp_path, capsys):
    wrong = shutil.copytree(dump, tmp_path / "wrong")
    path = next(wrong.glob("logits*.npy"))
    values = np.load(path)
    values.flat[3] ^= 32
    np.save(path, values)
    assert verify(digits, wrong, "-i", inputs[0], "-r", "True") == 1
    printed = capsys.readouterr().out
    assert "blame: board at logits_QuantizeLinear_Output" in printed and "given the board's recorded inputs" in printed
    assert verify(digits, wrong, "-i", inputs[0], "-s", "False") == 0  # the final output is not what was altered
    assert [line.partition(" result")[0] for line in lines(capsys)] == ["Quanti.onnx and Arm"]


def test_another_input_is_refused(digits, dump, inputs, capsys):
    assert verify(digits, dump, "-i", inputs[1]) == 2
    assert "different inputs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give -i what the device was given"),
        (["-b", "local"], "a folder, not a model"),
        (["-i", "X", "--capture", "c"], "leave out --capture"),
        (["-i", "X", "--paranoid"], "leave out --paranoid"),
        (["-i", "X", "--runtime", "openvino"], "leave out --runner"),
        (["-i", "X", "--no-host"], "leave out --no-host"),
        (["-i", "X", "--allow-other-model"], "leave out --allow-other-model"),
    ],
)
def test_what_a_dump_cannot_have_is_refused_in_one_line(digits, dump, inputs, capsys, words, said):
    assert verify(digits, dump, *[inputs[0] if w == "X" else w for w in words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_the_python_function_takes_a_dump_in_the_boards_place(digits, dump, inputs):
    models = [digits / "digits_quant.onnx", dump]
    report = qverify.verify(models, inputs=inputs[0], dump_all_nodes_results=True)
    assert report.passed and [(p.a, p.b) for p in report.document.pairs][1:] == [
        ("reference", "board"),
        ("simulator", "board"),
    ]
    with pytest.raises(UsageError, match="leave it out"):
        qverify.verify(models, inputs=inputs[0], keep_tensors=True)


def layers(dump, path):
    """A dump as vendors' tools write them: every layer in real values, under the float network's names, but neither the
    network's quantized input nor its quantized output."""
    path.mkdir()
    for row in json.loads((dump / "dump.json").read_text())["tensor"]:
        name, values = row["name"].removesuffix("_QuantizeLinear_Output"), np.load(dump / row["file"])
        if row["name"] in ("image_QuantizeLinear_Output", "prob_QuantizeLinear_Output"):
            continue
        real = (values.astype(np.float64) - row.get("zero_point", 0)) * row.get("scale", 1)
        np.save(path / f"{name}.npy", real.astype(np.float32))
    return path


def test_a_dump_without_the_quantized_input_and_output_is_judged_by_what_it_has(digits, dump, inputs, tmp_path, capsys):
    vendor = layers(dump, tmp_path / "vendor")
    assert verify(digits, vendor, "-i", inputs[0], "-r", "True") == 0
    found = [line for line in lines(capsys) if "Arm" in line]
    assert len(found) == 2 and all("the dump gave 6 of 8 tensors" in line for line in found)
    assert verify(digits, vendor, "-i", inputs[0]) == 0
    assert all("differ" not in line for line in lines(capsys))  # they stand for the same integers
    values = np.load(vendor / "relu2.npy")
    values.flat[5] += 0.041  # 1 LSB
    np.save(vendor / "relu2.npy", values)
    assert verify(digits, vendor, "-i", inputs[0], "-r", "True") != 0
    printed = capsys.readouterr().out
    assert "relu2" in printed and not any("PASSED" in line for line in printed.splitlines() if "Arm" in line)
    row = next(line for line in printed.splitlines() if line.startswith("relu1_QuantizeLinear_Output"))
    assert row.split()[-2:] != ["0", "forced"] and " 0 " not in row  # no LSB of real values


@pytest.mark.parametrize("lacking", ["prob", "relu1"])
def test_an_output_or_a_layer_that_was_not_paired_is_missing(digits, dump, inputs, tmp_path, capsys, lacking):
    vendor = layers(dump, tmp_path / "vendor")
    if lacking == "prob":
        (vendor / "prob.npy").unlink()
    else:
        np.save(vendor / "relu1.npy", np.load(vendor / "relu1.npy") + 0.01)  # before it was quantized, perhaps
    assert verify(digits, vendor, "-i", inputs[0], "-r", "True") == 3
    assert all(lacking in line and "INCONCLUSIVE" in line for line in lines(capsys) if "Arm" in line)


def test_tensors_that_only_the_engine_has_are_left_out_and_said(digits, dump, inputs, tmp_path, capsys):
    folder = layers(dump, tmp_path / "layers")
    for name in ("conv1_accumulator", "workspace"):
        np.save(folder / f"{name}.npy", np.arange(12, dtype=np.int32))
    assert verify(digits, folder, "-i", inputs[0], "-r", "True") == 0
    assert (
        "2 tensors are in the dump and not in the ONNX, and not compared, first conv1_accumulator"
        in capsys.readouterr().out
    )


def test_the_options_of_a_dump_are_those_of_compare(digits, dump, inputs, tmp_path, capsys):
    st, row = tmp_path / "st_ai_output", np.load(dump / "prob.npy")
    st.mkdir()
    np.savez(st / "net_val_io.npz", m_outputs_1=row * 0.5, c_outputs_1=row)
    assert verify(digits, st, "-i", inputs[0]) == 2
    assert "--side m" in capsys.readouterr().err
    assert verify(digits, st, "-i", inputs[0], "--side", "c", "--profile", "st") == 0
    assert verify(digits, st, "-i", inputs[0], "--side", "m") == 1
    names = tmp_path / "names.toml"
    np.save(dump / "odd.npy", np.load(dump / "logits_QuantizeLinear_Output.npy"))
    for file in ("manifest.json", "dump.json", "logits_QuantizeLinear_Output.npy"):
        (dump / file).unlink()
    capsys.readouterr()
    assert verify(digits, dump, "-i", inputs[0], "-r", "True") == 3
    assert verify(digits, dump, "-i", inputs[0], "-r", "True", "--map", str(names)) == 2 and names.exists()
    names.write_text('[names]\n"odd" = "logits_QuantizeLinear_Output"\n')
    assert verify(digits, dump, "-i", inputs[0], "-r", "True", "--map", str(names)) == 0
    capsys.readouterr()
    assert main(["-m", str(digits / "digits_quant.onnx"), "--map", str(names)]) == 2
    assert "-m has none; give -m MODEL,DUMP" in capsys.readouterr().err


def test_the_tensors_of_npz_are_a_dump(digits, dump, inputs, tmp_path, capsys):
    model, path = str(digits / "digits_quant.onnx"), str(tmp_path / "host.npz")
    assert main(["-m", model, "-i", inputs[0], "--npz", path]) == 0
    assert main(["compare", path, str(dump), "-m", model]) == 0
    assert "host.npz: reference, of reference, simulator" in capsys.readouterr().out
    assert main(["compare", path, path, "--side-a", "reference", "--side-b", "simulator"]) == 0
    assert "compared with itself" not in capsys.readouterr().out
    assert main(["compare", path, str(dump), "--side-a", "board"]) == 2
    assert "has reference, simulator; got --side board" in capsys.readouterr().err
    assert main(["-m", f"{model},{path}", "-i", inputs[0]]) == 2  # it has no board's tensors
    assert "got --side board" in capsys.readouterr().err


def test_the_index_of_an_npz_must_be_that_of_its_arrays(digits, inputs, tmp_path, capsys):
    path = tmp_path / "host.npz"
    assert main(["-m", str(digits / "digits_quant.onnx"), "-i", inputs[0], "--npz", str(path)]) == 0
    with zipfile.ZipFile(path) as old:
        index = json.loads(old.read("index.json"))
        members = {name: old.read(name) for name in old.namelist() if name != "index.json"}
    index["arrays"][2]["shape"] = [1, 2]
    with zipfile.ZipFile(path, "w") as new:
        for name, data in {**members, "index.json": json.dumps(index).encode()}.items():
            new.writestr(name, data)
    capsys.readouterr()
    assert main(["compare", str(path), str(path)]) == 2
    assert "is not the array that it describes" in capsys.readouterr().err


def test_a_stated_arithmetic_is_that_of_the_simulator_beside_the_dump(digits, inputs, tmp_path, capsys):
    """A chip that rounds twice, as gemmlowp: it is right under its own arithmetic only."""
    model, chip, toml = digits / "digits_quant.onnx", str(tmp_path / "chip"), str(tmp_path / "chip.toml")
    assert main(["compile", str(model), "-o", str(tmp_path / "c.bin"), "--rounding", "gemmlowp"]) == 0
    assert main(["infer", "-m", str(tmp_path / "c.bin"), "--side", "simulator", "-i", inputs[0], "-o", chip]) == 0
    assert main(["identify", chip, "-m", str(model), "-o", toml]) == 0
    capsys.readouterr()
    assert verify(digits, chip, "-i", inputs[0], "-r", "True", "--arithmetic", toml) == 0
    (line,) = lines(capsys)
    assert line.startswith("Sim and Arm result Strict check PASSED") and "reference: not run" in line


def test_a_dump_alone_needs_its_network(dump, inputs, capsys):
    assert main(["-m", str(dump), "-i", inputs[0]]) == 2
    assert "a folder, not a model" in (error := capsys.readouterr().err) and error.count("\n") == 1


def test_a_side_of_the_host_that_did_not_finish_is_never_passed(digits, dump, inputs, capsys, monkeypatch):
    """Whatever was compared: a side that is partial proves nothing of the rest."""

    def partial(paths, side, *others, **more):
        recording, written = infer(paths, side, *others, **more)
        recording.state, recording.why = "partial", "the disk is full"
        return recording, written

    monkeypatch.setattr("qverify.session.offline.verify_dump.infer", partial)
    assert verify(digits, dump, "-i", inputs[0], "-r", "True") == 3
    assert all("INCONCLUSIVE" in line and "the disk is full" in line for line in lines(capsys))


def test_a_dump_of_a_dynamic_network_takes_its_dims(tmp_path, capsys):
    """Several items as one batch: with --shape, in the main job, in infer and in compare."""
    m = Qdq(seed=1)
    m.output(m.quantize(m.op("Relu", [m.quantize(m.input((1, 3, 4, 4)))])))
    model = m.model()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    del model.graph.value_info[:]
    path, batch, dump = (str(tmp_path / name) for name in ("q.onnx", "x.npy", "dump"))
    onnx.save(model, path)
    name = model.graph.input[0].name
    np.save(batch, np.random.default_rng(2).random((5, 3, 4, 4), np.float32))
    shape = ["--shape", f"{name}=5x3x4x4"]
    assert main(["infer", "-m", path, "--side", "reference", "-i", batch, *shape, "-o", dump]) == 0
    assert main(["-m", f"{path},{dump}", "-i", batch, *shape]) == 0
    assert main(["compare", dump, dump, "-m", path, *shape]) == 0
    assert main(["compare", dump, dump, "-m", path]) == 2 and "give --shape" in capsys.readouterr().err
    assert main(["compare", dump, dump, *shape]) == 2 and "give that: -m" in capsys.readouterr().err


def test_a_dump_beside_model_bin_alone_has_no_reference(digits, dump, inputs, tmp_path, capsys):
    compiled = str(tmp_path / "m.bin")
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", compiled]) == 0
    assert main(["-m", f"{compiled},{dump}", "-i", inputs[0]]) == 0
    (line,) = lines(capsys)
    assert line.startswith("Sim and Arm") and "reference: not run: no quantized ONNX given" in line
    assert main(["-m", f"{compiled},{dump}", "-i", inputs[0], "-s", "False"]) == 2
    assert "give the quantized ONNX in -m" in capsys.readouterr().err


@pytest.fixture
def flipped(digits, inputs, tmp_path):
    """A vendor's dump of the first input, fed upside down, and that input."""
    pixels, given = np.load(inputs[0]), tmp_path / "flipped.npy"
    pixels = np.rint(pixels * 255).astype(np.float32) / np.float32(255)
    np.save(inputs[0], pixels)
    np.save(given, pixels[:, :, ::-1])
    words = ["-m", str(digits / "digits_quant.onnx"), "--side", "reference", "-i", str(given)]
    assert main(["infer", *words, "-o", str(tmp_path / "of_flipped")]) == 0
    return layers(tmp_path / "of_flipped", tmp_path / "vendor")


def test_a_wrong_input_of_the_device_is_named_and_no_rounding_is_its_cause(digits, flipped, inputs, capsys):
    assert verify(digits, flipped, "-i", inputs[0], "-r", "True") == 1
    printed = capsys.readouterr().out
    found = [line for line in printed.splitlines() if "Strict check FAILED" in line]
    assert len(found) == 2 and all("cause: the device's input, or the first node" in line for line in found)
    assert all("the device's input image: orientation: flipped upside down" in line for line in found)
    assert "blame:" not in printed and "other_rounding" not in printed and "from the image of -i" in printed


def test_an_input_that_no_known_mistake_explains_is_doubted_and_not_named(digits, dump, inputs, tmp_path, capsys):
    vendor = layers(dump, tmp_path / "vendor")
    assert verify(digits, vendor, "-i", inputs[1], "-r", "True") == 1
    printed = capsys.readouterr().out
    found = [line for line in printed.splitlines() if "Strict check FAILED" in line]
    assert len(found) == 2 and all("cause: the device's input, or the first node" in line for line in found)
    assert "the device's input image:" not in printed and "blame:" not in printed


def triaged(digits, dump, capsys, *words):
    capsys.readouterr()
    status = main(["triage", "-m", f"{digits / 'digits_quant.onnx'},{dump}", *words])
    return status, capsys.readouterr()


def test_triage_takes_the_dump_and_the_options_with_which_the_main_job_failed(digits, dump, inputs, tmp_path, capsys):
    st, row = tmp_path / "st_ai_output", np.load(dump / "prob.npy")
    st.mkdir()
    np.savez(st / "net_val_io.npz", m_outputs_1=row, c_outputs_1=row[:, ::-1])
    words = ["-i", inputs[0], "--profile", "st", "--side"]
    for side, status in (("m", 0), ("c", 1)):
        assert verify(digits, st, *words, side) == status
        main_lines = lines(capsys)
        got, shown = triaged(digits, st, capsys, *words, side)
        told = [line.removeprefix("main job: ") for line in shown.out.splitlines() if line.startswith("main job: ")]
        assert (got, told) == (status, main_lines)
        assert "reference ~ dump" in shown.out


def test_triage_pairs_a_dump_by_map_and_blames_its_node(digits, dump, inputs, tmp_path, capsys):
    names, wrong = tmp_path / "names.toml", np.load(dump / "logits_QuantizeLinear_Output.npy")
    wrong.flat[3] ^= 32
    np.save(dump / "odd.npy", wrong)
    for file in ("manifest.json", "dump.json", "logits_QuantizeLinear_Output.npy"):
        (dump / file).unlink()
    names.write_text('[names]\n"odd" = "logits_QuantizeLinear_Output"\n')
    status, shown = triaged(digits, dump, capsys, "-i", inputs[0], "-r", "True", "--map", str(names))
    assert status == 1 and "blame: dump at logits_QuantizeLinear_Output" in shown.out
    assert "main job: Quanti.onnx and Arm" in shown.out


def test_triage_says_what_its_dump_lacks(digits, dump, inputs, tmp_path, capsys):
    _, shown = triaged(digits, dump, capsys)
    assert "-i INPUT, what the device was given" in shown.out and "main job: Quanti.onnx and Arm" not in shown.out
    assert main(["triage", "-m", str(digits / "digits_quant.onnx"), "--profile", "st"]) == 2
    assert "-m has none; give -m MODEL,DUMP" in capsys.readouterr().err


def test_a_dump_that_ends_before_the_hosts_softmax_is_compared_where_it_ends(
    digits, dump, inputs, tmp_path, capsys, monkeypatch
):
    for path in [*dump.glob("prob*.npy"), dump / "manifest.json", dump / "dump.json"]:
        path.unlink()
    assert verify(digits, dump, "-i", inputs[0]) == 3
    said = capsys.readouterr().out
    assert "the dump ends before the host's softmax, at logits_QuantizeLinear_Output; to compare that" in said
    code = said.partition('(python -c "')[2].partition('")')[0].replace("\n", " ")
    shutil.copy(digits / "digits_quant.onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(code)
    assert main(["-m", f"cut.onnx,{dump}", "-i", inputs[0]]) == 0
    wrong = np.load(dump / "logits_QuantizeLinear_Output.npy")
    wrong.flat[3] ^= 32
    np.save(dump / "logits_QuantizeLinear_Output.npy", wrong)
    assert main(["-m", f"cut.onnx,{dump}", "-i", inputs[0]]) == 1

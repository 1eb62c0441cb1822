"""The main job with a dump in the board's place."""

import shutil

import numpy as np
import pytest
import qverify
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.session.other_jobs.infer import infer


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


def test_the_python_function_leads_to_compare(digits, dump):
    with pytest.raises(UsageError, match=r"compare\(\)"):
        qverify.verify([digits / "digits_quant.onnx", dump])


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

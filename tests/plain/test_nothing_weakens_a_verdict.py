"""No option, no order of options, no stated default and no claim of a file turns FAILED or INCONCLUSIVE into PASSED, but the
documented relaxers, each named in the verdict line."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.gate_text import parse_gates
from qverify.errors import UsageError
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import decode, encode
from qverify.model_bin.units import units
from qverify.options.commands import COMMANDS
from qverify.renderers.verdict_lines import render
from qverify.report.read_report import read_report
from qverify.report.report_json import to_json

from tests.plain.three_sides import spec

FAULTY = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"
STRICTER = [
    text.split()
    for text in (
        *("-c 5", "--rule half", "-c 9", "--rule exact", "--gate exact", "-r True", "-r False", "--strict"),
        *("-s True", "--pull all", "--repeat 2", "--seed 0", "--reference-spread"),
    )
]
OF_VALUES = [
    text.split()
    for text in (
        *("-c 0", "--rule numpy", "--atol 9", "--rtol 1", "--min-cosine 0", "--min-sqnr -99", "--max-rmse 99"),
        *("--max-lsb 255", "--gate close:atol=9,rtol=9", "--nan-equal", "--allow-other-model"),
    )
]


def test_the_table_of_options_names_those_that_weaken():
    """Each is tried here, or relaxes what is stated: sides of the board, a vendor's thresholds, narrower scope."""
    weakening = {word for o in COMMANDS["verify"] if o.weakens for word in o.words.split()}
    assert {words[0] for words in OF_VALUES} <= weakening
    of_limits = {"-c", "--rule", "--gate"}  # which may be stricter, too
    assert {words[0] for words in STRICTER} & weakening == of_limits
    tried = {words[0] for words in OF_VALUES} | of_limits
    left = {o.flag for o in COMMANDS["verify"] if o.weakens and not {*o.words.split()} & tried}
    assert left == {"--criteria", "--min-euclid", "--relax-board"}


@pytest.fixture(scope="module")
def models(tmp_path_factory, digits):
    out = tmp_path_factory.mktemp("model") / "model.bin"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(out)]) == 0
    return f"{digits / 'digits_quant.onnx'},{out}"


@pytest.mark.parametrize("words", [*STRICTER, *OF_VALUES], ids=" ".join)
def test_one_flipped_bit_fails_whatever_is_asked_of_values(models, words, capsys):
    assert main(["-m", models, "-b", FAULTY, *words]) == 1
    assert "Sim and Arm result Strict check FAILED" in capsys.readouterr().out


def test_so_does_any_order_of_many_options(models, capsys):
    rng = random.Random(7)
    for _ in range(12):
        chosen = [w for w in rng.sample(STRICTER + OF_VALUES, 5) if w[0] not in ("--repeat", "--reference-spread")]
        names = [w[0] for w in chosen]
        if len(set(names)) < len(names) or ("--gate" in names and {"--rule", "-c", "--atol", "--rtol"} & {*names}):
            continue
        assert main([*itertools.chain(*chosen), "-m", models, "-b", FAULTY]) == 1, chosen
        assert "Sim and Arm result Strict check FAILED" in capsys.readouterr().out


@pytest.mark.parametrize("words", [*STRICTER, *OF_VALUES], ids=" ".join)
def test_without_the_simulator_it_fails_too(models, words):
    assert main(["-m", models, "-b", FAULTY, *words, "-s", "False"]) == 1


def test_the_one_option_that_relaxes_bits_is_named(models, capsys):
    words = ["-m", models, "-b", FAULTY, "--relax-board"]
    assert main(words) == 1
    assert main([*words, "--gate", "lsb:1"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "relaxed by --relax-board to max_lsb <= 1" in last and "not bit-equal in 2 of 8 tensors" in last


@pytest.mark.parametrize(
    "words",
    [
        ["-b", "local", "--gate", "sqnr:-100"],
        ["-b", FAULTY, "--relax-board", "--gate", "lsb:1"],
        ["-b", "finals:local"],
        ["-b", "local", "-b", "finals:local", "--nan-equal"],
        ["-b", "local", "-s", "False", "-c", "2"],
        ["--rule", "numpy"],
    ],
    ids=" ".join,
)
def test_what_weakens_a_verdict_line_stands_in_the_json(models, tmp_path, words, capsys):
    path = tmp_path / "r.json"
    assert main(["-m", models, *words, "--json", str(path)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "Strict check PASSED" in line]
    caveats = json.loads(path.read_text())["caveats"]
    facts = {fact for line in lines for fact in line.partition("PASSED (")[2].removesuffix(")").split("; ")}
    for fact in facts - {"2 boards"}:
        said = "not bit-equal" if fact.startswith("not bit-equal") else fact  # the last line counts its tensors
        assert any(text.endswith(said) for text in caveats), (fact, caveats)
    back = read_report(str(path))
    assert to_json(back)["caveats"] == caveats
    named = [text for text in caveats if " ~ " in text]
    assert not any(text in render(back) for text in named)  # a line states what applies to its own two sides


@pytest.mark.parametrize(
    "name", ["QVERIFY_RELAX_BOARD", "QVERIFY_DIGITS", "QVERIFY_GATE", "QVERIFY_RULE", "VERIFY_RELAX_BOARD"]
)
def test_no_environment_variable_relaxes(models, name, monkeypatch):
    monkeypatch.setenv(name, "1")
    assert main(["-m", models, "-b", FAULTY]) == 1


def test_a_float_onnx_has_no_part_in_the_main_job(models, digits, capsys):
    quantized, binary = models.split(",")
    floating = str(digits / "digits_float.onnx")
    for words in ([f"{floating},{binary}"], [models, "-m", floating], [floating]):
        assert main(["-m", *words, "-b", "local"]) == 2
        printed = capsys.readouterr().err
        assert "a float ONNX" in printed and "triage" in printed
    assert main(["-m", quantized, "-b", "local"]) == 0


def test_a_side_that_took_no_part_is_said_everywhere(models, capsys, tmp_path):
    binary = models.split(",")[1]
    for words, said in (
        ((binary, "-b", "local"), "reference: not run: no quantized ONNX given"),
        ((models, "-b", "local", "-s", "False"), "simulator: not run: -s False"),
        ((models,), "board: not run: no -b given"),
    ):
        held = str(tmp_path / "r.json")
        assert main(["-m", *words, "--json", held]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert said in shown and all(said in line for line in shown if "Strict check" in line)
        side, _, why = said.split(": ")
        assert {"side": side, "why": why} in json.loads(Path(held).read_text())["not_run"]


@pytest.mark.parametrize(
    "change",
    [
        {"scale": (1e-30,)},
        {"zero_point": (1,)},
        {"integer_reference": False},
    ],
    ids=str,
)
def test_what_a_model_bin_says_of_a_tensor_is_not_believed(models, tmp_path, change, capsys):
    quantized, binary = models.split(",")
    graph = decode(Path(binary).read_bytes())
    name = "relu2_QuantizeLinear_Output"
    graph.tensors[name] = replace(graph.tensors[name], **change)
    lying = tmp_path / "lying.bin"
    lying.write_bytes(encode(graph))
    assert main(["-m", f"{quantized},{lying}", "-b", FAULTY]) == 2
    assert "model.bin" in capsys.readouterr().err


def lying(models, tmp_path, change):
    quantized, binary = models.split(",")
    graph = decode(Path(binary).read_bytes())
    change(graph)
    (tmp_path / "lying.bin").write_bytes(encode(graph))
    return f"{quantized},{tmp_path / 'lying.bin'}"


def test_weights_and_words_are_judged_and_the_rounding_is_that_of_the_onnx(models, tmp_path, capsys):
    def other_weights(graph):
        name = next(n for n, v in graph.constants.items() if v.ndim == 4)
        graph.constants[name] = graph.constants[name] + 1

    def other_words(graph):
        at = next(i for i, n in enumerate(graph.nodes) if n.op == "conv")
        graph.nodes[at] = replace(graph.nodes[at], words=(*graph.nodes[at].words[:-1], graph.nodes[at].words[-2] + 1))

    def other_rounding(graph):
        graph.rounding = "pow2-floor"

    for change in (other_weights, other_words):  # a compiler's mistake: judged, and blamed there
        assert main(["-m", lying(models, tmp_path, change), "-b", "local"]) == 1
        assert "blame: compiler at" in capsys.readouterr().out
    assert main(["-m", lying(models, tmp_path, other_rounding), "-b", "local"]) == 2
    assert "its rounding: pow2-floor, wanted ref-exact" in capsys.readouterr().err


def test_no_constant_of_a_model_bin_widens_a_limit(tmp_path, capsys, digits):
    """The shift of an add in an integer mode: of the scales, not of the file."""
    from qverify.compare.limits import eight_bit_bound

    scaled = {n: replace(spec(n), scale=(s,)) for n, s in (("a", 0.5), ("b", 0.5), ("y", 1.0))}
    rq = {"rq": np.array([0, 0, 0], np.int32)}
    node = Node("y", "add", ("a", "b", "rq"), ("y",), (0, -128, 127))
    graph = Graph([node], scaled, rq, ("a", "b"), ("y",), rounding="mul15")
    assert eight_bit_bound(units(graph)[0], graph) == 1


def test_a_frame_that_could_not_be_prepared_leaves_no_passed(models, tmp_path, capsys):
    np.save(tmp_path / "0.npy", np.zeros((1, 1, 8, 8), np.float32))
    np.save(tmp_path / "1.npy", np.zeros((1, 1, 8, 7), np.float32))
    assert main(["-m", models, "-b", "local", "-i", str(tmp_path)]) == 2
    lines = [line for line in capsys.readouterr().out.splitlines() if "Strict check" in line]
    assert lines and all("INCONCLUSIVE" in line and "could not be prepared" in line for line in lines)


def test_a_scale_that_one_dump_alone_gives_is_named(tmp_path, capsys):
    rng = np.random.default_rng(0)
    (tmp_path / "b").mkdir()
    np.savez(tmp_path / "a.npz", x=rng.integers(-100, 100, 50, np.int8))
    rng.integers(-100, 100, 50, np.int8).tofile(tmp_path / "b" / "x.bin")
    entry = {"name": "x", "file": "x.bin", "dtype": "int8", "shape": [50], "scale": 1e-12, "zero_point": 0}
    (tmp_path / "b" / "dump.json").write_text(json.dumps({"tensor": [entry]}))
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b")]) == 0
    assert "read by a scale that only one dump gives, first x" in capsys.readouterr().out.splitlines()[-1]


def test_a_model_bin_that_calls_its_nodes_float_is_not_believed(models, tmp_path, capsys):
    quantized, binary = models.split(",")
    graph = decode(Path(binary).read_bytes())
    graph.nodes = [replace(n, integer_reference=False) for n in graph.nodes]
    lying = tmp_path / "lying.bin"
    lying.write_bytes(encode(graph))
    assert main(["-m", f"{quantized},{lying}", "-b", "local"]) == 2
    assert "integer_reference is False, wanted True" in capsys.readouterr().err


def test_the_weakest_scope_of_frames_and_boards_stands_in_the_last_lines(models, tmp_path, capsys):
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.random.default_rng(number).random((1, 1, 8, 8), np.float32))
    assert main(["-m", models, "-b", "finals:local", "-i", str(tmp_path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "3 frames" in last and "final outputs only" in last
    assert main(["-m", models, "-b", "local", "-b", "finals:local"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "2 boards" in last and "final outputs only" in last


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("decimals:3", {"digits": 3}),
        ("exact", {"rule": "exact"}),
        ("cosine:0.98", {"min_cosine": 0.98}),
        ("close:atol=0.01,rtol=0.005", {"atol": 0.01, "rtol": 0.005}),
        ("close:rtol=1", {"rtol": 1.0}),
        ("lsb:1", {"max_lsb": 1.0}),
        ("rmse:0.1", {"max_rmse": 0.1}),
        ("sqnr:30", {"min_sqnr_db": 30.0}),
    ],
)
def test_one_spelling_for_every_gate(text, fields):
    assert parse_gates([text]) == fields


def test_of_one_kind_the_strictest_gate_holds():
    texts = ["decimals:1", "decimals:3", "lsb:2", "lsb:1", "cosine:0.9", "cosine:0.5", "exact", "exact"]
    for given in (texts, texts[::-1]):
        assert parse_gates(given) == {"digits": 3, "max_lsb": 1.0, "min_cosine": 0.9, "rule": "exact"}


@pytest.mark.parametrize(
    "texts",
    [
        ["decimals"],
        ["decimals:x"],
        ["decimals:1.5"],
        ["cosine"],
        ["close:"],
        ["close:atol"],
        ["close:atol=1,atol=2"],
        ["exact:1"],
        ["lsb:"],
        ["foo:1"],
        ["lsb:1", "lsb:nan"],
        ["close:atol=inf"],
        [""],
        ["close:atol=1", "close:atol=2"],
    ],
    ids=str,
)
def test_any_other_gate_is_refused(texts):
    with pytest.raises(UsageError, match="--gate"):
        parse_gates(texts)


def test_a_gate_out_of_range_or_given_twice_is_refused(models, capsys):
    for words in (
        ["--gate", "cosine:2"],
        ["--gate", "cosine:nan"],
        ["--gate", "decimals:3", "-c", "3"],
        ["--gate", "lsb:1", "--max-lsb", "1"],
    ):
        assert main(["-m", models, "-b", "local", *words]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("inputs", [[], ["-i", "digit_0.npy"]], ids=["random", "a file"])
@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[inputs.image]\nformat = "gray"\nbogus = 1\n', "unknown key 'bogus'"),
        ('[inputs.nobody]\nformat = "gray"\n', "description of input 'nobody': no such input"),
    ],
)
def test_a_description_that_does_not_fit_is_refused_whatever_the_inputs_are(
    digits, tmp_path, table, said, inputs, capsys
):
    (tmp_path / "d.toml").write_text(table)
    words = [str(digits / "digits" / word) if word.endswith(".npy") else word for word in inputs]
    assert main(["-m", str(digits / "digits_quant.onnx"), "--description", str(tmp_path / "d.toml"), *words]) == 2
    assert said in capsys.readouterr().err

"""The arithmetic of a board is learned from probes of single operators."""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.arithmetic.forms import Form
from qverify.cli.main import main
from qverify.compare.identify.arithmetic_file import read_arithmetic
from qverify.compare.identify.fit import RecordedUnit, collect
from qverify.compare.identify.solve import Triples, solve
from qverify.compare.identify.solve_additions import Additions, solve_additions
from qverify.compare.probing.draws import near_scale
from qverify.compare.probing.places import describe_places
from qverify.compare.probing.plan import DTYPES, PROBED, first_probes, further_probes
from qverify.compare.probing.split import choose
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.model_bin.units import units
from qverify.onnx_model.write_probes import write_probes
from qverify.sides.simulator import Simulator
from qverify.tensors.one_op import OneOp

CHIP = Path(__file__).with_name("probed_chip.py")


def chip(*words: str) -> list[str]:
    """Returns the options of a board that runs the chip."""
    command = " ".join([sys.executable, str(CHIP), "{model}", "{npys}", "{out}", *words])
    return ["-b", "local", "--runner", command]


def forms(path: Path) -> dict[str, str]:
    return {op: learned.form for op, learned in read_arithmetic(str(path)).ops.items()}


@pytest.mark.parametrize("op", PROBED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_probes_are_of_their_op_and_always_the_same(op: str, dtype: str) -> None:
    probes = [*first_probes(op, dtype), *further_probes(op, dtype, 1)]
    assert len({p.key for p in probes}) == len(probes)
    data = write_probes(probes)
    assert data == write_probes([*first_probes(op, dtype), *further_probes(op, dtype, 1)])
    graph = compile_model(data, "probes.onnx", CompilerOptions()).graph
    made = {n.outputs[0]: n.op for n in graph.nodes}
    assert {made[p.output] for p in probes} == {op}
    assert graph.meta["check"]["over"] == []


@pytest.mark.parametrize("rounding", ["ref-exact", "gemmlowp", "mul15", "pow2-floor"])
def test_the_mode_of_a_board_is_found(tmp_path: Path, rounding: str, capsys: pytest.CaptureFixture[str]) -> None:
    written, script = tmp_path / "board.toml", "from qverify.cli.main import main; import sys; sys.exit(main())"
    build = f"{sys.executable} -c '{script}' compile {{onnx}} -o {{model}} --rounding {rounding}"
    ops = "conv,fully_connected,mul"
    words = ["identify", "-b", "local", "--ops", ops, "--build-cmd", build, "-o", str(written), "--types", "int8"]
    assert main(words) == 0
    learned = read_arithmetic(str(written)).ops
    assert {op: o.form for op, o in learned.items()} == dict.fromkeys(ops.split(","), rounding)
    assert learned["conv"].decided and learned["conv"].nodes >= 14
    assert "asks 34 probes of 3 ops in 3 models; 6 runs" in capsys.readouterr().err


def test_parameters_are_solved_and_shown_on_probes_asked_after(tmp_path: Path) -> None:
    written = tmp_path / "chip.toml"
    words = ["--ops", "mul", "--probes-per-model", "64", "-o", str(written)]
    assert main(["identify", *chip("bits=11"), *words]) == 0
    op = read_arithmetic(str(written)).ops["mul"]
    assert op.form == "half up, multiplier of 11 fraction bits"
    assert (op.held_out or 0) > 500 and (op.decided or 0) > 100 and op.against


@pytest.mark.parametrize(("how", "said"), [("fail", "status 7: the supply dropped"), ("kill", "signal 9")])
def test_learning_goes_on_after_a_run_that_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str, said: str
) -> None:
    """The fifth probe begins with the ninth run. What is learned after that is what is learned without it, and no probe is
    repeated but those that show that the board is the same."""
    written, state = tmp_path / "chip.toml", tmp_path / "runs"
    board = chip("bits=8", f"{how}=9", f"state={state}")
    words = ["identify", *board, "--ops", "mul", "--types", "int8", "-o", str(written)]
    assert main(words) == 3
    _, error = capsys.readouterr().err.splitlines()
    assert error.startswith("qverify: answer 5, probe 'mul") and said in error
    assert f"4 answers of 10 kept in {written}.probes: the same command goes on there" in error
    assert not written.exists()
    assert main(words) == 0
    assert "4 of them answered before; 12 runs" in capsys.readouterr().err
    op = read_arithmetic(str(written)).ops["mul"]
    assert op.form == "multiplier of 8 fraction bits"
    assert int(state.read_text()) == 9 + 4 + 2 * (op.nodes - 4) + 2  # the first, the last and the first new one again
    first = written.read_bytes()
    state.write_text("100")
    assert main([*words, "--afresh"]) == 0
    assert written.read_text().replace(" --afresh", "").encode() == first


def test_an_answer_that_changes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another firmware that the board does not state, and one that the user states."""
    written = tmp_path / "chip.toml"
    words = ["--ops", "mul", "--types", "int8", "--probes-per-model", "64", "-o", str(written), "--engine"]
    rule = tmp_path / "rule"
    rule.write_text("rule=up")
    board = chip(f"$(cat {rule})")
    assert main(["identify", *board, *words, "firmware 1"]) == 0
    rule.write_text("rule=down")
    capsys.readouterr()
    assert main(["identify", *board, *words, "firmware 1"]) == 3
    error = capsys.readouterr().err.splitlines()[-1]
    assert "otherwise than before: another firmware, or it is not deterministic" in error and "--afresh" in error
    assert main(["identify", *board, *words, "firmware 2"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "its answers are of engine 'firmware 1', and the board is of engine 'firmware 2'" in error
    assert main(["identify", *board, *words, "firmware 2", "--afresh"]) == 0
    learned = read_arithmetic(str(written))
    assert learned.engine == "firmware 2"
    assert learned.ops["mul"].form == "floor, multiplier of 12 fraction bits"


def test_a_board_that_is_not_deterministic_is_refused_with_the_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "chip.toml"
    assert main(["identify", *chip("flaky"), "--ops", "mul", "-o", str(written)]) == 3
    error = capsys.readouterr().err.splitlines()[-1]
    assert "not deterministic: probe 'mul, general scales, uint8': 1 of 315 elements differ between two runs" in error
    assert "first at [0, 0, 0, 5]: " in error and not written.exists()


def test_two_ways_are_not_one_arithmetic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "chip.toml"
    words = ["--ops", "mul", "--types", "int8", "--probes-per-model", "64", "-o", str(written)]
    assert main(["identify", *chip("bits=14", "last=7"), *words]) == 1
    op = read_arithmetic(str(written)).ops["mul"]
    assert op.form == ""
    assert "half up, multiplier of 14 fraction bits gives every element outside the last column" in op.why
    assert "column 8 of 9" in op.why
    assert "mul: not one arithmetic: " in capsys.readouterr().out


def test_ops_whose_inputs_a_runner_does_not_take_are_left_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "chip.toml"
    command = f"{sys.executable} {CHIP} {{model}} {{npy}} {{out}} bits=10"
    words = [
        "identify",
        "-b",
        "local",
        "--runner",
        command,
        "--ops",
        "mul,lookup",
        "--types",
        "int8",
        "-o",
        str(written),
    ]
    assert main(words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "probe 'mul, general scales, int8': --runner: {npy}: the model's inputs are " in error
    assert "(--keep-going leaves mul out)" in error
    assert main([*words, "--keep-going"]) == 1
    learned = read_arithmetic(str(written)).ops
    assert learned["mul"].form == "" and learned["mul"].why.startswith("the board did not run it: --runner: {npy}: ")
    assert "half up, multiplier of 10 fraction bits" in learned["lookup"].why


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
def test_litert_is_probed_by_a_tflite_of_each_op(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs give one answer."""
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    words = ["identify", "-b", "local", "--runtime", "litert", "--python", sys.executable, "-o"]
    assert main([*words, str(first)]) in (0, 1)
    learned = read_arithmetic(str(first)).ops
    assert {*learned} == {*PROBED} - {"concat"}  # it joins tensors of one scale only
    assert learned["mul"].form == "gemmlowp" and learned["add"].form == "each operand scaled by itself, gemmlowp"
    assert "probes left out, which the runtime has no operator of" in capsys.readouterr().out
    assert main([*words, str(second), "--ops", "mul,add"]) == 0
    assert read_arithmetic(str(second)).ops == {op: learned[op] for op in ("add", "mul")}


@pytest.mark.parametrize(
    "words, error",
    [
        (["-o", "a.toml"], "wanted a dump (DUMP -m MODEL) or a board (-b BOARD -o NAME.toml)"),
        (["-b", "local"], "-b needs -o NAME.toml"),
        (["-b", "local", "-o", "a.toml", "--ops", "conf"], "--ops conf: did you mean 'conv'? wanted some of conv, "),
        (["-b", "local", "-o", "a.toml", "--ops", "conv,"], "--ops conv,: an empty name"),
        (["-b", "local", "-o", "a.toml", "--types", "int16"], "--types int16: "),
        (["-b", "local", "-o", "a.toml", "-m", "m.onnx"], "-m is of no use for a board"),
        (["-b", "local", "-o", "a.toml", "--build-cmd", "tool"], "--build-cmd 'tool': it must contain {onnx}, and"),
        ([".", "-m", "m.onnx", "--keep-going"], "--keep-going is of no use for a dump"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = [str(tmp_path / w) if w == "a.toml" else w for w in words]
    assert main(["identify", *written]) == 2
    said = capsys.readouterr().err
    assert error in said and said.count("\n") == 1


def test_a_folder_of_answers_that_is_damaged_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "board.toml"
    words = ["identify", "-b", "local", "--ops", "concat", "--types", "int8", "-o", str(written)]
    assert main(words) == 0
    answer = next((tmp_path / "board.toml.probes").glob("*.npz"))
    answer.write_bytes(answer.read_bytes()[:100])
    assert main(words) == 2
    assert ".npz: damaged (" in capsys.readouterr().err
    (tmp_path / "board.toml.probes" / "board.json").write_text('{"format": 2}')
    assert main(words) == 2
    assert "board.json: not of answers of probes, of format 1" in capsys.readouterr().err
    assert main([*words, "--afresh"]) == 0
    (tmp_path / "board.toml.probes" / "thesis.doc").write_text("")
    assert main([*words, "--afresh"]) == 2
    assert "has thesis.doc, so it is no folder of answers" in capsys.readouterr().err


def triples(form: str, seed: int) -> Triples:
    """Returns what a node in this form shows: 40 scales, some powers of two."""
    rng = np.random.default_rng(seed)
    scale = np.repeat(np.exp2(-(rng.uniform(1, 16, 40) if seed % 3 else rng.integers(1, 8, 40).astype(float))), 200)
    acc, zero = np.rint(rng.uniform(-150, 150, scale.size) / scale).astype(np.int64), int(rng.integers(-5, 6))
    empty = Triples(acc, {"": scale}, np.zeros(0, np.int64), zero, (-128, 127))
    return Triples(acc, {"": scale}, empty.compute(Form.parse(form)), zero, (-128, 127))


@pytest.mark.parametrize(
    "form",
    [
        "half up, multiplier of 15 bits, 3 fraction bits kept first (floor)",
        "floor, multiplier of 12 bits",
        "half away from zero, multiplier of 16 bits, product shifted by 15 first (floor)",
        "half up, multiplier of 11 bits, multiplier rounded down, 6 fraction bits kept first (half up)",
        "toward zero, multiplier of 9 fraction bits",
        "half even, multiplier of 18 bits, the zero point added before",
        "ceiling, power of two, multiplier rounded down",
    ],
)
def test_parameters_are_found_and_one_wrong_element_excludes_all(form: str) -> None:
    shown = [triples(form, seed) for seed in range(6)]
    found = solve(shown)
    assert found[0] == Form.parse(form) and all(t.is_given_by(f) for f in found for t in shown)
    inside = np.flatnonzero((shown[2].out > -100) & (shown[2].out < 100))[7]
    shown[2].out[inside] += 2
    assert solve(shown) == []


@pytest.mark.parametrize(
    "form",
    [
        "half up, multiplier of 12 bits, multiplier rounded down",
        "each operand scaled by itself, mul16",
        "half even, multiplier of 14 bits, 4 fraction bits kept first (floor)",
        "each operand in whole steps of the output, half even",
        "each operand to 4 fraction bits of the output first (their sum half up), floor, multiplier of 16 bits",
        "each operand in steps of the larger scale first (half up), gemmlowp with halves up at its second rounding",
    ],
)
def test_parameters_of_additions_are_found(form: str) -> None:
    rng, shown = np.random.default_rng(3), list[Additions]()
    for number in range(4):
        first, second = rng.integers(-128, 128, (2, 3000))
        ratios = (0.5, 0.25) if not number else (rng.uniform(0.1, 0.9), rng.uniform(0.1, 0.9))
        one = Additions(first, {}, first, number - 2, (-128, 127), second, ratios)
        shown.append(replace(one, out=one.compute(Form.parse(form))))
    found = solve_additions(shown)
    assert Form.parse(form) in found and all(t.is_given_by(f) for f in found for t in shown)
    shown[1].out[np.flatnonzero(np.abs(shown[1].out) < 100)[7]] += 2
    assert solve_additions(shown) == []


@pytest.mark.parametrize("op", [op for op in PROBED if op != "softmax"])
def test_every_op_has_exact_ties_of_general_scales(op: str) -> None:
    """They lie there for rational numbers and for float64 alike; a multiplier of 31 bits misses some."""
    probes = [p for p in first_probes(op, "int8") if "exact ties" in p.name]
    assert probes
    split = 0
    for unit in predicted(probes):
        assert unit.ties is not None and unit.ties[0] >= 1
        split += int(np.count_nonzero(unit.compute("half up") != unit.compute("tflite-single")))
        triples = unit.triples
        if op == "add":
            a, b = (Fraction(float(np.asarray(o.scale))) for o in probes[0].inputs)
            assert a == b
        elif op != "concat":
            assert triples is not None
            assert ties_of(triples) == unit.ties[0]
    assert split


def test_near_ties_are_no_ties() -> None:
    """An exact tie that float64 misses would contradict a board that computes the exact value."""
    random = np.random.default_rng(5)
    for ratio in (0.03125, float(np.float32(0.0421)), 0.75):
        for scale in (near_scale(random, ratio, 9) for _ in range(60)):
            assert Fraction(ratio / scale).limit_denominator(40) != Fraction(ratio) / Fraction(scale)


def predicted(probes: list[OneOp]) -> list[RecordedUnit]:
    """Returns the units of these probes with the reference's output."""
    graph = compile_model(write_probes(probes), "probes.onnx", CompilerOptions()).graph
    given = {n: o.codes for p in probes for n, o in zip((f"{n}_q" for n in p.feeds()), p.inputs, strict=True)}
    wanted = [u for u in units(graph) if u.outputs[0] in {p.output for p in probes}]
    run = Simulator(graph, None).run_unit
    values = dict(given)
    for unit in wanted:
        values |= run(unit, {n: given[n] for n in unit.inputs})
    return collect(wanted, graph, values.get, run)


def ties_of(triples: Triples) -> int:
    """Returns how many sums are exactly at a tie, by rational numbers."""
    count = 0
    for scale in np.unique(triples.scale[""]):
        ratio = Fraction(float(scale)).limit_denominator(10**9)
        twice = [2 * int(a) * ratio for a in triples.acc[triples.scale[""] == scale]]
        count += sum(t.denominator == 1 and t.numerator % 2 == 1 for t in twice)
    return count


def test_probes_are_chosen_by_what_they_split() -> None:
    """The forms are a, b and c: probe 0 splits none, 1 splits off c, 2 splits off a, 3 all."""
    guesses = [(0, ("x", "x", "x")), (1, ("x", "x", "y")), (2, ("z", "x", "x")), (3, ("u", "v", "w"))]
    assert choose(guesses, 8) == [3]
    assert choose(guesses[:3], 8) == [1, 2]
    assert choose(guesses[:1], 8) == [] and choose([], 8) == []


def test_places_are_named_by_channels_rows_and_columns() -> None:
    wrong = np.zeros((1, 11, 9, 13), bool)
    assert describe_places(wrong | True) == "1287 of 1287 elements"
    wrong[0, 8:, 2, 3] = wrong[0, 10, 5, 12] = True
    assert describe_places(wrong) == "4 of 1287 elements: channels 8-10 of 11, rows 2, 5 of 9, columns 3, 12 of 13"

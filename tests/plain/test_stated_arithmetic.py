"""A board whose arithmetic is stated: bit equality, free-running, and the distance from the reference."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import qverify.example
from qverify.cli.main import main
from qverify.compare.identify.arithmetic_file import to_text
from qverify.compare.options import Options
from qverify.compare.stated_arithmetic import StatedArithmetic
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import units
from qverify.renderers import verdict_lines
from qverify.report.document import ReportDocument
from qverify.report.learned import Arithmetic, LearnedOp
from qverify.report.report_json import to_json
from qverify.report.schema import report_schema
from qverify.session.host_sides import HostSides, SideResults
from qverify.session.make_report import make_report
from qverify.session.models import Models, open_models
from qverify.session.runner import describe_runner
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array

EXAMPLE = Path(qverify.example.__file__).parent / "digits_quant.onnx"

Change = Callable[[str, Array], Array]
FORMS = {"quantize": "ref-exact", "conv": "gemmlowp", "max_pool": "ref-exact", "fully_connected": "gemmlowp"}


def arithmetic(**forms: str) -> Arithmetic:
    return Arithmetic("chip", "", "", {op: LearnedOp(op, form, 1, 1) for op, form in {**FORMS, **forms}.items()})


class Run:
    """The sides of the example under an arithmetic. The board has the simulator's tensors of `board`."""

    def __init__(self, stated: Arithmetic, board: Arithmetic, file: str | None = None):
        self.models, self.prepared, self.ran = _run(stated, file)
        _, _, other = _run(board, file)
        simulated = other.recordings["simulator"]
        self.tensors = {name: np.array(value) for name, value in simulated.tensors.items()}
        self._side = replace(simulated, side="board", engine="runner", runtime="runner", digests={}, settings={})

    @property
    def graph(self) -> Graph:
        return self.models.graph

    def drop(self, name: str) -> None:
        """Makes it a board that never had this tensor."""
        self.tensors.pop(name, None)
        self._side = replace(self._side, specs={n: s for n, s in self._side.specs.items() if n != name})

    def judge(self, runtime: str = "runner", **options: object) -> ReportDocument:
        self.ran.recordings["board"] = replace(self._side, runtime=runtime, tensors=dict(self.tensors))
        return make_report(self.models, self.prepared, self.ran, Options(dump_all=True, **options))  # type: ignore[arg-type]


def _run(stated: Arithmetic, file: str | None) -> tuple[Models, PreparedInputs, SideResults]:
    models = open_models([str(EXAMPLE)], arithmetic=stated)
    prepared = prepared_inputs(models.graph, InputRequest(file))
    return models, prepared, HostSides(models).run(prepared, True)


def first_of(graph: Graph, op: str) -> str:
    return next(n.outputs[0] for n in graph.nodes if n.op == op)


def test_a_board_of_this_arithmetic_is_bit_equal_and_its_distance_is_stated() -> None:
    report = Run(arithmetic(), arithmetic()).judge()
    assert report.verdict == "PASSED" and [(p.a, p.b) for p in report.pairs] == [("simulator", "board")]
    pair = report.pairs[0]
    assert pair.bit_equal and pair.gate == "bit equality" and pair.node_by_node is None
    (distance,) = report.distance
    assert distance.side == "simulator" and 0 < distance.tensors < distance.of and distance.elements > 0
    assert distance.outputs and not distance.misses
    jsonschema.validate(to_json(report), report_schema())


def test_one_lsb_at_one_node_is_blamed_there() -> None:
    run = Run(arithmetic(), arithmetic())
    name = first_of(run.graph, "conv")
    run.tensors[name].reshape(-1)[7] += 1
    report = run.judge()
    assert report.verdict == "FAILED" and report.blame is not None
    assert (report.blame.side, report.blame.node) == ("board", name)
    assert "1 too high by 1 LSB" in report.blame.why and "limit bit equality" in report.blame.why
    assert [d.side for d in report.distance] == ["simulator", "board"]


def test_another_arithmetic_at_one_op_is_blamed_and_named() -> None:
    report = Run(arithmetic(), arithmetic(conv="rounded down (floor)")).judge()
    assert report.verdict == "FAILED" and report.blame is not None and report.blame.side == "board"
    assert "rounded down (floor) gives every element" in report.blame.why


def other_rounding_of(stated: Arithmetic) -> Run:
    """A board of this arithmetic whose convolutions round as mul8 does."""
    return Run(stated, replace(stated, ops={**stated.ops, "conv": LearnedOp("conv", "mul8", 1, 1)}))


def test_another_rounding_than_a_shipped_one_is_said_and_blames_nobody() -> None:
    shipped = open_arithmetic("esp32-s3")
    run = other_rounding_of(shipped)
    report = run.judge()
    assert report.verdict == "FAILED" and not report.blamed and report.pairs[0].cause == "other_rounding"
    rows = [row for row in report.pairs[0].tensors if row.op == "conv" and row.forced is not None]
    assert rows and any(row.forced.verdict == "FAILED" for row in rows if row.forced is not None)
    said = "differs from arithmetic esp32-s3 at conv: rounding mul8 (qverify compile --rounding mul8) gives every byte"
    assert any(said in text for text in report.pairs[0].relaxed)
    assert not any("the shipped arithmetic" in note for note in report.pairs[0].notes)
    run.tensors[first_of(run.graph, "fully_connected")].reshape(-1)[0] += 1
    wrong = run.judge()
    assert (
        wrong.blame is not None and wrong.blame.node == first_of(run.graph, "fully_connected") and not wrong.blame.also
    )


def test_a_fault_beside_another_rounding_than_a_shipped_one_is_blamed() -> None:
    run = other_rounding_of(open_arithmetic("esp32-s3"))
    name = first_of(run.graph, "conv")
    run.tensors[name].reshape(-1)[7] ^= 64
    report = run.judge()
    assert report.verdict == "FAILED" and report.blame is not None and report.blame.node == name


def test_another_rounding_than_one_that_was_learned_is_blamed() -> None:
    report = other_rounding_of(replace(open_arithmetic("esp32-s3"), name="mine")).judge()
    assert report.verdict == "FAILED" and report.blame is not None and report.blame.side == "board"


def test_a_form_that_a_node_cannot_have_is_not_called_missing() -> None:
    models = open_models([str(EXAMPLE)])
    node = next(n for n in models.graph.nodes if n.op == "conv")
    stated = StatedArithmetic("chip", {"conv": "half even"}, frozenset([node.name]))
    said = stated.describe(units(models.graph), models.graph)
    assert "without a form: quantize" in said and "conv" not in said.partition("without a form: ")[2].partition(";")[0]
    assert said.endswith("; stated in a form that the simulator cannot compute: conv (half even)")


def test_a_node_without_a_form_is_judged_as_of_a_board_that_is_not_qvrt() -> None:
    run = Run(arithmetic(conv=""), arithmetic())
    report = run.judge()
    assert report.verdict == "PASSED" and report.pairs[0].node_by_node is not None
    assert any("without a form: conv" in caveat for caveat in report.caveats)
    run.tensors[first_of(run.graph, "conv")].reshape(-1)[::3] -= 1
    failed = run.judge()
    assert failed.verdict == "FAILED" and failed.blame is not None and failed.blame.side == "board"


def test_what_follows_a_node_without_a_form_is_held_to_every_bit() -> None:
    run = Run(arithmetic(conv=""), arithmetic())
    name = first_of(run.graph, "fully_connected")
    run.tensors[name].reshape(-1)[0] -= 1
    report = run.judge()
    assert report.verdict == "FAILED" and report.blame is not None and report.blame.node == name


def fused_tail(by: int) -> ReportDocument:
    """The report on a board that fuses all behind the first pooling, whose last layer is off by this, up and down in
    turns."""
    run = Run(arithmetic(), arithmetic())
    last = first_of(run.graph, "fully_connected")
    inside = [n.outputs[0] for n in run.graph.nodes if n.op in ("conv", "max_pool", "reshape")][2:]
    for name in inside:
        run.drop(name)
    values = run.tensors[last].reshape(-1).astype(np.int64)
    values += np.where(np.arange(values.size) % 2, by, -by)
    limits = np.iinfo(run.tensors[last].dtype)
    values = np.clip(values, limits.min, limits.max)
    run.tensors[last] = values.astype(run.tensors[last].dtype).reshape(run.tensors[last].shape)
    return run.judge()


@pytest.mark.parametrize(("by", "verdict"), [(1, "INCONCLUSIVE"), (6, "FAILED")])
def test_no_bound_excuses_fused_nodes_that_are_stated(by: int, verdict: str) -> None:
    """The choice of what is rounded inside is all that the arithmetic leaves open."""
    report = fused_tail(by)
    forced = next(r.forced for r in report.pairs[0].tensors if r.op == "fully_connected")
    assert report.verdict == "FAILED" and forced is not None and forced.region is not None
    assert forced.verdict == verdict and (report.blame is not None) == (verdict == "FAILED")


def test_a_board_that_fuses_stated_nodes_and_gives_the_same_bytes_is_right() -> None:
    report = fused_tail(0)
    assert report.verdict == "PASSED" and report.pairs[0].bit_equal


def test_strict_wants_every_byte_equal_free_running() -> None:
    report = Run(arithmetic(conv=""), arithmetic()).judge(strict=True)
    assert report.verdict == "FAILED"


def test_real_values_are_read_as_integers_and_others_are_missing() -> None:
    run = Run(arithmetic(), arithmetic())
    name = first_of(run.graph, "conv")
    spec = run.graph.spec(name)
    run.tensors[name] = spec.dequantized(run.tensors[name]).astype(np.float32)
    assert run.judge().verdict == "PASSED"
    run.tensors[name].reshape(-1)[3] += np.float32(0.4 * spec.scale[0])
    report = run.judge()
    assert report.verdict == "INCONCLUSIVE"
    assert [m.tensor for m in report.pairs[0].coverage.missing] == [name]


def test_a_given_gate_limits_the_distance_and_blames_nobody(tmp_path: Path) -> None:
    np.save(tmp_path / "faint.npy", np.random.default_rng(1).uniform(0, 0.3, (1, 1, 8, 8)).astype(np.float32))
    floors = Run(arithmetic(conv="pow2-floor"), arithmetic(conv="pow2-floor"), str(tmp_path / "faint.npy"))
    assert floors.judge().verdict == "PASSED"
    assert floors.judge(min_cosine=0.01).verdict == "PASSED"
    report = floors.judge(min_sqnr_db=200.0)
    assert report.verdict == "FAILED" and report.blame is None
    pair = report.pairs[0]
    assert (pair.verdict, pair.cause) == ("FAILED", "distance") and "sqnr_db" in report.distance[0].misses
    assert "result Strict check FAILED (simulator ~ reference: " in verdict_lines.render(report)


def test_a_given_gate_without_a_reference_is_inconclusive() -> None:
    run = Run(arithmetic(), arithmetic())
    run.ran.recordings["reference"] = replace(run.ran.recordings["reference"], state="did not run", why="it ended")
    report = run.judge(min_cosine=0.5)
    assert (report.verdict, report.pairs[0].cause) == ("INCONCLUSIVE", "distance")
    del run.ran.recordings["reference"]
    assert run.judge(min_cosine=0.5).verdict == "INCONCLUSIVE"
    assert run.judge().verdict == "PASSED"


def test_printed_values_do_not_lift_a_missed_gate(tmp_path: Path) -> None:
    np.save(tmp_path / "faint.npy", np.random.default_rng(1).uniform(0, 0.3, (1, 1, 8, 8)).astype(np.float32))
    floors = Run(arithmetic(conv="pow2-floor"), arithmetic(conv="pow2-floor"), str(tmp_path / "faint.npy"))
    report = floors.judge(min_sqnr_db=200.0)
    board = replace(floors.ran.recordings["board"], settings={"precision": 6})
    describe_runner(report, board, Options(min_sqnr_db=200.0))
    assert report.verdict == "FAILED"


def test_qvrt_may_give_no_other_type() -> None:
    run = Run(arithmetic(), arithmetic())
    name = first_of(run.graph, "conv")
    run.tensors[name] = run.graph.spec(name).dequantized(run.tensors[name]).astype(np.float32)
    report = run.judge(runtime="qvrt")
    assert report.verdict == "FAILED" and not report.pairs[0].coverage.missing


def test_a_tensor_that_the_board_lacks_is_never_passed() -> None:
    run = Run(arithmetic(), arithmetic())
    del run.tensors[first_of(run.graph, "conv")]
    assert run.judge().verdict == "INCONCLUSIVE"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "chip.toml"
    path.write_text(to_text(arithmetic()))
    return path


def test_the_main_job_passes_qvrt_under_an_arithmetic(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-m", str(EXAMPLE), "-b", "local", "-r", "True", "--arithmetic", str(written)]
    out = written.parent / "r.json"
    assert main([*words, "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert "distance of the simulator from the reference: " in text and "Quanti.onnx" not in text
    report = json.loads(out.read_text())
    assert any(caveat.startswith("arithmetic chip: ") for caveat in report["caveats"]) and report["distance"]


def test_without_a_board_nothing_is_judged_and_without_a_simulator_it_is_refused(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-m", str(EXAMPLE), "--arithmetic", str(written)]
    assert main(words) == 3
    assert "distance of the simulator" in capsys.readouterr().out
    assert main([*words, "-b", "local", "-s", "False"]) == 2
    assert "--arithmetic is computed by the simulator; give -s True" in capsys.readouterr().err


def test_a_name_that_is_neither_file_nor_shipped_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", str(EXAMPLE), "-b", "local", "--arithmetic", "no-such"]) == 2
    assert "--arithmetic no-such: no such file, and no shipped arithmetic" in capsys.readouterr().err


def test_a_board_of_the_inventory_has_its_arithmetic_for_its_versions(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    learned = replace(arithmetic(), learned_on={"firmware": "2.1"})
    written.write_text(to_text(learned))
    boards = written.parent / "boards.toml"
    monkeypatch.setenv("QVERIFY_BOARDS", str(boards))
    entry = '[boards.desk]\nuri = "local"\narithmetic = "chip.toml"\ntags = {{ firmware = "{0}" }}\n'
    boards.write_text(entry.format("2.1"))
    assert main(["-m", str(EXAMPLE), "-b", "desk"]) == 0
    assert "arithmetic chip" in capsys.readouterr().out
    boards.write_text(entry.format("2.2"))
    assert main(["-m", str(EXAMPLE), "-b", "desk"]) == 2
    assert "learned on firmware 2.1, and boards.toml says 2.2 of desk" in capsys.readouterr().err


DEVICE = """import sys
import numpy as np
from qverify.compare.identify.arithmetic_file import read_arithmetic
from qverify.model_bin.units import units
from qverify.session.models import open_models
from qverify.sides.simulator import Simulator

model, file, inputs, out, wrong = sys.argv[1:]
models = open_models([model], arithmetic=read_arithmetic(file))
simulator, values = Simulator(models.graph), {models.graph.inputs[0]: np.load(inputs)}
for unit in units(models.graph):
    made = dict(simulator.run_unit(unit, values))
    if unit.nodes[0].op == wrong:
        made[unit.outputs[0]].reshape(-1)[5] += 1
    values |= made
for name in models.graph.observable():
    np.save(f"{out}/{name}.npy", values[name])
"""


@pytest.mark.parametrize("wrong", ["", "fully_connected"])
def test_triage_of_a_runner_is_between_simulator_and_board(
    wrong: str, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = written.parent / "device.py"
    device.write_text(DEVICE)
    runner = f"{sys.executable} {device} {EXAMPLE} {written} {{npy}} {{out}} '{wrong}'"
    words = ["triage", "-m", str(EXAMPLE), "-b", "local", "--runner", runner, "--arithmetic", str(written)]
    assert main([*words, "--explain", "1"]) == (1 if wrong else 0)
    out = capsys.readouterr().out
    assert "reference ~ board" not in out and "main job: Sim and Arm result" in out
    if wrong:
        assert "simulator ~ board: FAILS" in out and "(fully_connected)" in out
        assert "ValueError" not in out and "IndexError" not in out


def test_many_frames_say_the_farthest_distance(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written.parent
    for at in range(2):
        np.save(folder / f"{at}.npy", np.random.default_rng(at).uniform(0, 1, (1, 1, 8, 8)).astype(np.float32))
    (folder / "frames.txt").write_text("0.npy\n1.npy\n")
    words = ["-m", str(EXAMPLE), "-b", "local", "--arithmetic", str(written), "-i", str(folder / "frames.txt")]
    assert main(words) == 0
    assert ", the farthest of 2: " in capsys.readouterr().out


def test_a_model_bin_brings_its_arithmetic_along(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary = str(written.parent / "m.bin")
    assert main(["compile", str(EXAMPLE), "--arithmetic", str(written), "-o", binary]) == 0
    assert "; conv: gemmlowp; " in capsys.readouterr().out
    capture = str(written.parent / "cap")
    assert main(["-m", f"{EXAMPLE},{binary}", "-b", "local", "--capture", capture]) == 0
    assert "arithmetic chip" in capsys.readouterr().out
    assert main(["replay", capture]) == 0
    assert "arithmetic chip" in capsys.readouterr().out
    plain = str(written.parent / "plain.bin")
    assert main(["compile", str(EXAMPLE), "-o", plain]) == 0
    assert main(["-m", f"{EXAMPLE},{plain}", "-b", "local", "--arithmetic", str(written)]) == 2
    assert "the model.bin of -m was compiled without an arithmetic" in capsys.readouterr().err


def test_compare_recomputes_both_dumps_under_it(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, binary = written.parent, str(written.parent / "m.bin")
    assert main(["compile", str(EXAMPLE), "--arithmetic", str(written), "-o", binary]) == 0
    for name in ("a", "b"):
        words = ["infer", "-m", f"{EXAMPLE},{binary}", "--side", "simulator", "-o", str(folder / name)]
        assert main(words) == 0
    sides = [str(folder / "a"), str(folder / "b"), "-m", str(EXAMPLE), "--arithmetic", str(written), "--gate", "exact"]
    assert main(["compare", *sides]) == 0
    path = next((folder / "b").glob("relu2*.npy"))
    value = np.load(path)
    value.reshape(-1)[0] ^= 1
    np.save(path, value)
    capsys.readouterr()
    assert main(["compare", *sides]) == 1
    out = capsys.readouterr().out
    assert "blame: B at relu2" in out and "limit bit equality" in out and "arithmetic chip" in out

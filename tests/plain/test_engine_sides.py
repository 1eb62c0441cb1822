"""Engines on this host as sides of the main job, of triage, of the Python functions and of a suite."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import qverify
from qverify.cli.main import main
from qverify.engines import RunnerChoice
from qverify.errors import UsageError
from qverify.session.chosen_sides import ChosenSides, choose_board, choose_sides
from qverify.session.request import Request
from qverify.session.runner import _check_own_files

from tests.onnx_engine import engine_command

FAULTY = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    path.write_text("")
    return path


@pytest.fixture
def engine(log: Path) -> str:
    return f"command,command={engine_command(log)}"


def sides_of(report: Any) -> list[str]:
    return [f"{pair['a']} ~ {pair['b']}" for pair in report.to_json()["pairs"]]


@pytest.mark.parametrize(
    ("options", "pairs"),
    [
        ({"simulator": "E"}, ["reference ~ simulator", "reference ~ command", "simulator ~ command"]),
        ({"simulator": ("E", "E"), "run_sim": False}, ["reference ~ command", "reference ~ command-2", "command ~ command-2"]),
        ({"run_sim": "E"}, ["reference ~ command"]),
        ({"reference": "E"}, ["simulator ~ command"]),
    ],
)  # fmt: skip
def test_the_python_function_takes_engines(
    options: dict[str, Any], pairs: list[str], engine: str, digits: Path
) -> None:
    texts = {"E": engine, ("E", "E"): [engine, engine]}
    report = qverify.verify(digits / "digits_quant.onnx", **{k: texts.get(v, v) for k, v in options.items()})
    assert report.verdict == "PASSED" and sides_of(report) == pairs


def test_triage_begins_with_the_main_jobs_verdicts(
    engine: str, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, options = digits / "digits_quant.onnx", {"board": FAULTY, "simulator": engine}
    run = qverify.verify(model, **options)
    found = qverify.triage(model, **options, explain=0, capture=tmp_path / "capture")
    document = found.to_json()
    expected = [(p["a"], p["b"], p["verdict"]) for p in run.to_json()["pairs"]]
    assert [(p["a"], p["b"], p["verdict"]) for p in document["main_job"]["pairs"]] == expected
    assert "reference ~ command" in {f"{r['a']} ~ {r['b']}" for r in document["rungs"]}
    assert [s["kind"] for s in document["stages"]] == ["reference", "simulator", "engine", "board"]
    folder, json_file = str(tmp_path / "capture"), tmp_path / "T.json"
    assert main(["triage", folder, "--explain", "0", "--json", str(json_file)]) == 1
    again = json.loads(json_file.read_text())
    assert [(p["a"], p["b"], p["verdict"]) for p in again["main_job"]["pairs"]] == expected
    assert main(["triage", folder, "--simulator", engine]) == 2
    assert "has the engines of its run; leave --simulator" in capsys.readouterr().err


def test_triage_without_the_reference_starts_at_the_simulator(engine: str, digits: Path) -> None:
    document = qverify.triage(digits / "digits_quant.onnx", board="local", reference=engine).to_json()
    assert document["verdict"] == "PASSED"
    assert {f"{r['a']} ~ {r['b']}" for r in document["rungs"]} == {"simulator ~ board", "simulator ~ command"}


def test_an_engine_that_does_not_run_is_the_next_step(digits: Path) -> None:
    engine = "command,command=: {model} {npy} {out}; echo no licence; exit 3"
    document = qverify.triage(digits / "digits_quant.onnx", board="local", simulator=engine).to_json()
    assert document["verdict"] == "INCONCLUSIVE" and "no licence" in document["next_step"]
    assert document["next_step"].startswith("get that runtime to run first")


def test_a_suite_of_the_user_writes_engines_out(
    engine: str, log: Path, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """One run of the engine serves both boards, also where the second suite names it."""
    monkeypatch.chdir(tmp_path)
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "boards.toml"))
    command = engine.partition(",command=")[2]
    boards = f'[boards.good]\nuri = "local"\n[boards.bad]\nuri = "{FAULTY}"\n'
    Path("boards.toml").write_text(f"{boards}[engines.mine]\nruntime = 'command'\ncommand = '''{command}'''\n")
    Path("quant.onnx").write_bytes((digits / "digits_quant.onnx").read_bytes())
    text = 'models = ["quant.onnx"]\nboards = ["good", "bad"]\n[options]\nsimulator = '
    Path("s.toml").write_text(f"{text}['''{engine}''']\n")
    assert main(["suite", "run", "s.toml", "--json", "S.json"]) == 1
    jobs = {job["board"]: job for job in json.loads(Path("S.json").read_text())["jobs"]}
    assert (jobs["good"]["verdict"], jobs["bad"]["verdict"], jobs["bad"]["blame_side"]) == ("PASSED", "FAILED", "board")
    assert log.read_text() == "x"
    Path("s.toml").write_text(f'{text}["mine"]\n')
    assert main(["suite", "run", "s.toml"]) == 1
    assert "1 PASSED" in capsys.readouterr().out


def chosen(**options: Any) -> ChosenSides:
    return choose_sides(Request(["m.onnx"], **options))


def test_what_runs_is_one_value(tmp_path: Path) -> None:
    """It is decided without a model or a board."""
    for name in ("n.quantization.cfg", "n.model", "n.data"):
        (tmp_path / name).touch()
    sides = chosen(
        board="10.0.0.5",
        reach={"runtime": "onnxruntime", "form": "original"},
        simulators=("rknn,python=p", "openvino", "rknn"),
        run_sim=False,
        quantization=(str(tmp_path / "n.quantization.cfg"),),
    )
    assert sides.board is not None and sides.runner is None
    assert (sides.board.engine, sides.board.file, sides.board.gives_our_bytes) == ("onnxruntime", "network", False)
    assert [*sides.engines] == ["rknn", "openvino", "rknn-2"] and not sides.simulator
    rknn, openvino, _ = sides.engines.values()
    assert (rknn.file, openvino.file, rknn.where) == ("float", "network", "local")
    assert rknn.page is not None and rknn.page.options["quantization"] == (str(tmp_path / "n.quantization.cfg"),)
    assert choose_board("local").gives_our_bytes and choose_board("local").file == "model.bin"
    runner = choose_board("local", (("runtime", "openvino"),))
    assert runner.page is not None and (runner.file, runner.page.build) == ("last", "cp {onnx} {model}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"runner": (("command", "x"),)}, "give -b BOARD"),
        ({"repeat": 2}, "--repeat runs a board again"),
        ({"paranoid": True}, "--paranoid compares a board with the simulator"),
        ({"reference_python": ("p",)}, "takes part in --reference-spread"),
        ({"simulators": ("openvino",) * 17}, "at most 16"),
        ({"simulators": ("qvrt",)}, "sides of their own"),
        ({"simulators": ("openvino,devices=1",)}, "has no such option"),
        ({"reference_engine": ("a:b",), "paranoid": True}, "--paranoid needs an integer graph"),
        ({"reference_engine": ("a:b",), "board": "local"}, "say what runs it on the board"),
    ],
)
def test_requests_that_contradict_themselves(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chosen(**options)


def test_two_sides_of_one_engine_say_that_they_share_its_faults(engine: str, digits: Path) -> None:
    report = qverify.verify(digits / "digits_quant.onnx", simulator=[engine, engine], run_sim=False)
    relaxed = {f"{p.a} ~ {p.b}": "; ".join(p.relaxed) for p in report.document.pairs}
    shared = "what it computes wrongly is equal on both"
    assert shared in relaxed["command ~ command-2"] and shared not in relaxed["reference ~ command"]


def test_final_outputs_alone_lead_to_the_option_that_asks_for_more(engine: str, digits: Path) -> None:
    report = qverify.verify(digits / "digits_quant.onnx", simulator=engine)
    assert any("-r True judges every node" in pair.scope for pair in report.document.pairs if pair.b == "command")


def test_a_model_that_the_engine_would_not_run_is_refused(tmp_path: Path) -> None:
    """Beside --quantization lie the toolkit's own files, which an engine runs instead of the board's model."""
    models = SimpleNamespace(float_onnx=b"float")
    runner = RunnerChoice("rknn", {"quantization": ("/x/n.quantization.cfg",)})
    _check_own_files(runner, "float.onnx", b"float", cast(Any, models))
    _check_own_files(RunnerChoice("rknn", {}), "other.onnx", b"other", cast(Any, models))
    with pytest.raises(
        UsageError, match=r"-m other.onnx: rknn runs the files beside /x/n.quantization.cfg, not this one"
    ):
        _check_own_files(runner, "other.onnx", b"other", cast(Any, models))

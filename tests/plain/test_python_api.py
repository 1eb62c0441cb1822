"""import qverify: the functions take the commands' options, judge as they do, and leave the process as it was."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify import errors, example
from qverify.cli.main import main
from qverify.options.commands import keywords

QUANT = str(Path(example.__file__).parent / "digits_quant.onnx")
FAULTY = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"
with np.load(Path(example.__file__).parent / "digits.npz") as _digits:
    DIGIT = _digits["digit_3"]
OWN = {  # the parameters that are not options of the command, in order
    "verify": ("models", "keep_tensors", "drawings", "progress", "cancel"),
    "compile": ("model", "output", "progress"),
    "compare": ("a", "b", "drawings"),
    "triage": ("models", "replay", "drawings", "progress", "cancel"),
    "replay": ("folder", "drawings", "progress"),
    "quantize": ("model", "output", "inputs", "progress", "cancel"),
    "inputs_diff": ("a", "b", "progress", "cancel"),
    "outputs_diff": ("reference", "device", "progress", "cancel"),
}


@pytest.fixture
def digit(tmp_path: Path) -> Path:
    with np.load(Path(example.__file__).parent / "digits.npz") as digits:
        np.save(tmp_path / "digit_3.npy", digits["digit_3"])
    return tmp_path / "digit_3.npy"


def test_public_names():
    """These are the API: a name less, or another one, is a new major version."""
    names = ["__version__", "verify", "compile", "compare", "triage", "replay"]
    names += ["quantize", "inputs_diff", "outputs_diff", "report_diff", "report_matrix", "suite"]
    results = ["Report", "Triage", "Compiled", "Quantized"]
    results += ["InputsDiff", "OutputsDiff", "ReportDiff", "ReportMatrix", "Suite"]
    assert qverify.__all__ == [*names, *results, "errors"]
    members = {n for n in dir(qverify.Report) if not n.startswith("_")}
    assert members >= {"verdict", "passed", "blame", "exit_status", "text", "to_frame", "to_json", "save", "tensor"}
    assert all(hasattr(qverify, name) for name in qverify.__all__) and set(qverify.__all__) <= set(dir(qverify))


@pytest.mark.parametrize("name", OWN)
def test_options_are_the_commands(name):
    """Every option of the command is a parameter, by its name and with its default, and there is no other."""
    parameters = inspect.signature(getattr(qverify, name)).parameters
    options = set(keywords(name))
    assert set(parameters) - options == set(OWN[name]) - options
    assert options - set(parameters) == set()
    commands = {"repeat": 1, "timeout": 120.0, "seed": 0, "pull": "differ", "run_sim": True, "no_host": False}
    shown = {n: p.default for n, p in parameters.items() if n in commands}
    assert shown == {n: commands[n] for n in shown}


def test_the_import_is_light():
    heavy = "['numpy', 'onnx', 'click', 'onnxruntime', 'qverify.errors']"
    words = f"import sys, qverify; print([n for n in {heavy} if n in sys.modules], dir(qverify) != [])"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[] True\n"


def test_functions_that_are_called_like_rooms():
    """`compare` and `triage` stay functions, whatever was imported before, and the rooms can still be imported."""
    words = (
        "import qverify.compare.options, qverify.triage.ladder; import qverify; from qverify.compare import judge\n"
        "import inspect; print(inspect.isfunction(qverify.compare), inspect.isfunction(qverify.triage), judge.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True True qverify.compare.judge\n"
    with pytest.raises(AttributeError, match="verdict"):
        qverify.verdict  # noqa: B018


def test_the_report_is_the_commands(digit, tmp_path, capfd):
    report = qverify.verify(QUANT, board=FAULTY, inputs=digit, dump_all_nodes_results=True, spot_seed=1)
    assert capfd.readouterr() == ("", "")
    assert (report.verdict, report.passed, report.exit_status) == ("FAILED", False, 1)
    assert report.blame is not None and (report.blame.side, report.blame.node[:5]) == ("board", "relu2")
    path = tmp_path / "by_command.json"
    words = ["-m", QUANT, "-b", FAULTY, "-i", str(digit), "-r", "True", "--spot-seed", "1", "--json", str(path)]
    assert main(words) == 1
    ours, theirs = report.to_json(), json.loads(path.read_text())
    for key in ("verdict", "blame", "pairs", "inputs", "models", "decimals", "not_run", "notes"):
        assert ours[key] == theirs[key], key


def test_a_run_leaves_the_process_as_it_was(digit):
    before, handlers = dict(os.environ), [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    steps = []
    report = qverify.verify([QUANT], board="local", inputs=digit, progress=lambda *step: steps.append(step))
    assert report.passed
    assert "board" in {step[0] for step in steps} and all(done <= of for _, done, of in steps)
    assert handlers == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    added = {n: v for n, v in os.environ.items() if before.get(n) != v}
    assert added in ({}, {"ORT_DISABLE_TELEMETRY": "1"})


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: qverify.verify("no.onnx"), errors.BadFileError, "no.onnx"),
        (lambda: qverify.verify(QUANT, run_sim=False), errors.UsageError, "only one side"),
        (lambda: qverify.verify(QUANT, repeat=0), errors.UsageError, "--repeat"),
        (lambda: qverify.verify(QUANT, timeout=object()), errors.UsageError, "timeout: got <object object"),
        (lambda: qverify.verify(QUANT, board="serial:///no?bud=1"), errors.UsageError, "bud"),
        (lambda: qverify.verify(QUANT, no_host="yes"), errors.UsageError, "True or False"),
        (lambda: qverify.verify(QUANT, tolerance=1), TypeError, "tolerance"),
        (lambda: qverify.verify(QUANT, json="x.json"), TypeError, "json"),
        (lambda: qverify.compare("no", "no"), errors.UsageError, "no"),
        (lambda: qverify.replay("no"), errors.UsageError, "no"),
        (lambda: qverify.triage(), errors.UsageError, "-m"),
        (lambda: qverify.verify(QUANT, inputs={"image": np.zeros((2, 2), "f4")}), errors.UsageError, "image"),
        (lambda: qverify.verify(QUANT, inputs=DIGIT * np.nan), errors.UsageError, "^an array: contains NaN"),
        (lambda: qverify.verify(QUANT, inputs={"no": DIGIT}), errors.UsageError, r"^inputs: 'no' is no input; .*image"),
        (
            lambda: qverify.verify(QUANT, inputs=DIGIT.astype("f8")),
            errors.UsageError,
            r"^an array: .*astype\('float32'\)",
        ),
        (
            lambda: qverify.triage(QUANT, inputs=DIGIT[0]),
            errors.UsageError,
            r"^an array: float32\[1, 8, 8\] .*8\]; save",
        ),
        (lambda: qverify.verify(QUANT, inputs=DIGIT.tolist()), errors.UsageError, "^inputs: got a list within"),
        (lambda: qverify.verify(QUANT, inputs={"image": DIGIT.tolist()}), errors.UsageError, "^inputs: got a list"),
        (lambda: qverify.verify(QUANT, inputs=[DIGIT]), errors.UsageError, "^inputs: got a ndarray within"),
        (lambda: qverify.verify(QUANT, inputs={}), errors.UsageError, "empty mapping"),
        (lambda: qverify.verify(QUANT, inputs={1: DIGIT}), errors.UsageError, "keys are names"),
        (lambda: qverify.verify(QUANT, inputs=np.array(["a"])), errors.UsageError, "wanted numbers"),
        (lambda: qverify.verify(QUANT, inputs=np.ma.masked_less(DIGIT, 1)), errors.UsageError, "masked"),
        (lambda: qverify.triage(QUANT, reduce="x"), errors.UsageError, "--reduce needs the board"),
        (lambda: qverify.triage(QUANT, board="local", build_cmd="cc"), errors.UsageError, "build-cmd"),
    ],
)
def test_mistakes_are_exceptions_of_one_line(call, kind, said, capfd):
    with pytest.raises(kind, match=said) as caught:
        call()
    assert "\n" not in str(caught.value) and "/qverify-" not in str(caught.value) and capfd.readouterr() == ("", "")


def test_no_result_is_a_truth_value(digit):
    report = qverify.verify(QUANT, inputs=np.load(digit))
    with pytest.raises(TypeError, match="passed"):
        assert report
    assert report.document.inputs[0]["source"] == "an array"
    assert str(report).startswith("Quanti.onnx and Sim result Strict check PASSED")


def test_files_by_suffix_and_by_format(digit, tmp_path):
    report = qverify.verify(QUANT, inputs=digit, board=FAULTY, dump_all_nodes_results=True)
    for suffix in ("html", "xml", "csv", "md", "json"):
        path = report.save(tmp_path / f"report.{suffix}")
        assert "relu2_QuantizeLinear_Output" in Path(path).read_text(encoding="utf-8").replace("\\_", "_")
    drawn = qverify.verify(QUANT, inputs=digit, board=FAULTY, dump_all_nodes_results=True, drawings=True)
    assert len(drawn.document.pairs[1].drawings) > len(report.document.pairs[1].drawings)
    assert json.loads(Path(report.save(tmp_path / "x", "json")).read_text()) == report.to_json()
    for path, format in ((tmp_path / "x.pdf", None), (tmp_path / "x", "pdf"), ("-", "json")):
        with pytest.raises(errors.UsageError):
            report.save(path, format)


def test_tensors_of_the_sides(digit, tmp_path):
    name = "relu2_QuantizeLinear_Output"
    options = {"board": FAULTY, "inputs": digit, "dump_all_nodes_results": True}
    kept = qverify.verify(QUANT, keep_tensors=True, **options)
    captured = qverify.verify(QUANT, capture=tmp_path / "capture", **options)
    for report in (kept, captured, qverify.replay(tmp_path / "capture")):
        reference, board = report.tensor("reference", name), report.tensor("board", name)
        assert board.dtype == reference.dtype == np.uint8 and (board != reference).sum() == 1
        before = "relu1_QuantizeLinear_Output"  # the digests agree: it never crossed the link
        assert np.array_equal(report.tensor("board", before), report.tensor("simulator", before))
        for side, tensor, frame in (("sim", name, 0), ("board", "no", 0), ("board", name, 1)):
            with pytest.raises(errors.UsageError):
                report.tensor(side, tensor, frame)
    with pytest.raises(errors.UsageError, match="keep_tensors"):
        qverify.verify(QUANT, inputs=digit).tensor("reference", name)


def test_frames_by_folder(digit, tmp_path):
    steps = []
    np.save(tmp_path / "another.npy", np.load(digit))
    report = qverify.verify(QUANT, inputs=tmp_path, keep_tensors=True, progress=lambda *step: steps.append(step))
    assert report.passed and len(report.document.frames) == 2 and ("frames", 2, 2) in steps
    with pytest.raises(errors.UsageError, match="capture"):
        report.tensor("reference", "prob")


def test_rows_are_the_csvs(digit, tmp_path, monkeypatch):
    report = qverify.verify(QUANT, inputs=digit, board=FAULTY, dump_all_nodes_results=True)
    lines = [t for t in Path(report.save(tmp_path / "r.csv")).read_text().splitlines() if not t.startswith("#")]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'qverify\[frames\]'"):
        report.to_frame()
    monkeypatch.undo()
    pandas = pytest.importorskip("pandas")
    frame = report.to_frame()
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == lines[0].split(",")
    assert len(frame) == len(lines) - 1 and set(frame[frame.verdict == "FAILED"].pair) <= set(frame.pair)


def test_notebooks(digit):
    report = qverify.verify(QUANT, inputs=digit, board=FAULTY, dump_all_nodes_results=True)
    report.document.pairs[1].tensors[0].name = "<script>alert(1)</script>"
    report.document.pairs[1].tensors[0].bit_equal = False
    shown = report._repr_html_()
    assert "FAILED" in shown and "relu2_QuantizeLinear_Output" in shown and "<table>" in shown
    assert "<script>" not in shown and "&lt;script&gt;" in shown


def test_threads(digit):
    """Several runs at once, also with mistakes among them."""
    verdicts, wrong = {}, []

    def run(number: int, board: str) -> None:
        verdicts[number] = qverify.verify(QUANT, board=board, inputs=digit, dump_all_nodes_results=True).verdict

    def fail() -> None:
        with pytest.raises(errors.UsageError) as caught:
            qverify.verify(QUANT, repeat=0)
        wrong.append(str(caught.value))

    threads = [threading.Thread(target=run, args=(n, b)) for n, b in enumerate(("local", FAULTY, "local"))]
    threads.append(threading.Thread(target=fail))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert verdicts == {0: "PASSED", 1: "FAILED", 2: "PASSED"} and len(wrong) == 1


def test_compile_compare_and_triage(digit, tmp_path):
    made = qverify.compile(QUANT, tmp_path / "model.bin", rounding="mul16")
    assert made.size_bytes == (tmp_path / "model.bin").stat().st_size and made.check is not None and made.nodes
    assert repr(made) == f"<qverify.Compiled {made.path}: {made.size_bytes} bytes, {len(made.nodes)} nodes>"
    one, other = tmp_path / "a", tmp_path / "b"
    for folder, value in ((one, 1.0), (other, 2.0)):
        folder.mkdir()
        np.save(folder / "x.npy", np.full(4, value, "f4"))
    assert qverify.compare(one, one).passed
    assert qverify.compare(one, other).verdict == "FAILED"
    found = qverify.triage([QUANT], board=FAULTY, inputs=digit, explain=0)
    assert found.verdict == "FAILED" and found.broken and found.next_step and "<pre>" in found._repr_html_()
    assert json.loads(Path(found.save(tmp_path / "t.json")).read_text())["broken"] == found.broken
    assert found.broken in Path(found.save(tmp_path / "t.csv")).read_text()
    assert "qverify triage" in found.document.command and QUANT in found.document.command


def test_triage_of_an_array_is_drawn_and_reduced(tmp_path, capfd):
    """This is what `triage -i --html --reduce` does; no result names the file that the array became."""
    steps = list[tuple[str, int, int]]()
    folder = tmp_path / "reduced"
    found = qverify.triage(
        [QUANT],
        board=FAULTY,
        inputs=DIGIT,
        explain=0,
        drawings=True,
        reduce=folder,
        capture=tmp_path / "capture",
        progress=lambda *s: steps.append(s),
    )
    outcome = found.document.reduced
    assert (outcome["state"], outcome["node"], outcome["nodes"]) == ("reduced", "relu2_QuantizeLinear_Output", 1)
    assert outcome["folder"] == str(folder) and (folder / "model.bin").is_file()
    assert [s for s in steps if s[0] == "reduce"][-1][1] >= 1
    page = Path(found.save(tmp_path / "t.html")).read_text()
    assert "Density: " in page and "the smallest part" in page.lower()
    bundle = (folder / "report.json").read_text() + (tmp_path / "capture/capture.json").read_text()
    assert "/qverify-" not in json.dumps(found.to_json()) + page + str(found) + bundle
    assert [i["source"] for i in found.to_json()["inputs"]] == ["an array"] == found.to_json()["frames"]
    assert (
        qverify.triage([QUANT], board="local", inputs=DIGIT, reduce=tmp_path / "n").document.reduced["state"]
        == "nothing"
    )
    assert capfd.readouterr() == ("", "")


def test_no_board_is_none_and_never_an_empty_list():
    with pytest.raises(errors.UsageError, match="an empty list"):
        qverify.verify([QUANT], board=[])
    with pytest.raises(errors.UsageError, match="Python objects"):
        qverify.verify([QUANT], inputs=np.array([object()]))

"""The door of runners: a tool that is not qvrt runs on the board, and what it leaves is judged, or is never PASSED."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.session.chosen_sides import find_syntax_error

TOOL = Path(__file__).with_name("runner_tool.py")
BOARD = "local"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    """The simulator's tensors of the example on the random input of seed 0."""
    folder = tmp_path_factory.mktemp("golden") / "dump"
    assert main(["infer", "-m", str(digits / "digits_quant.onnx"), "--side", "simulator", "-o", str(folder)]) == 0
    return folder


class Run:
    """Runs the main job with the tool as the board's runner."""

    def __init__(self, digits: Path, golden: Path, tmp_path: Path):
        self.onnx, self.golden, self.json = digits / "digits_quant.onnx", golden, tmp_path / "R.json"
        self.vendor = tmp_path / "vendor.bin"
        self.vendor.write_bytes(b"\x13\x00opaque" * 50)

    def __call__(self, *words: str, options: str = "", board: str = BOARD) -> int:
        line = f"{shlex.quote(sys.executable)} {TOOL} --golden {self.golden} --model {{model}} --input {{input}} --out {{out}} {options}"
        given = ["-m", f"{self.onnx},{self.vendor}", "-b", board, "--runner", line, "--json", str(self.json), *words]
        return main(given)

    @property
    def report(self) -> dict[str, object]:
        content: dict[str, object] = json.loads(self.json.read_text())
        return content


@pytest.fixture
def run(digits: Path, golden: Path, tmp_path: Path) -> Run:
    return Run(digits, golden, tmp_path)


def test_every_node_is_judged_and_forced(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-r", "--runner-option", "success=^done$", "--runner-option", r"timing=took (?P<ms>[\d.]+) ms") == 0
    shown = capsys.readouterr().out
    assert "Sim and Arm result Strict check PASSED" in shown and "nothing ties vendor.bin to digits_quant.onnx" in shown
    board = next(s for s in run.report["sides"] if s["name"] == "board")  # type: ignore[attr-defined]
    assert board["settings"]["measured_s"] == 0.0125
    assert all(p["coverage"]["compared"] == 8 for p in run.report["pairs"])  # type: ignore[attr-defined]


def test_the_time_of_the_timing_line_is_shown_and_its_absence_said(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-v", "--runner-option", r"timing=took (?P<ms>[\d.]+) ms") == 0
    assert "(12.50 ms by its own timing line), complete" in capsys.readouterr().out
    assert run("--runner-option", r"timing=lasted ([\d.]+)") == 0
    assert "no time: no line of the runner's output has a number where timing=lasted" in capsys.readouterr().out


def test_a_spoilt_node_is_blamed(run: Run) -> None:
    assert run("-r", options="--spoil pool1_QuantizeLinear_Output") == 1


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("status", "the runner ended with status 7: E cannot open the device"),
        ("killed", "the runner was killed by signal 9"),
        ("nothing", "the runner ended with success, but left no new file"),
        ("truncated", "prob.npy: byte 128: 39 bytes, float32[1, 10] has 40"),
        ("stale", "s older than this run: a stale file"),
        ("link", "a link to "),
        ("pipe", "not a regular file"),
        ("hardlink", "has another name on the board (a hard link), so it may be a stale file"),
        ("nan", "NaN or Inf on one side only"),
        ("wrong_shape", "prob: shape [1, 10] in the reference, [9] on the board"),
    ],
)
def test_what_goes_wrong_is_never_passed(run: Run, mode: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(options=f"--only prob --mode {mode}") in (1, 3)
    shown = capsys.readouterr().out
    arm = next(line for line in shown.splitlines() if line.startswith("Quanti.onnx and Arm"))
    assert "PASSED" not in arm and said in arm


@pytest.mark.parametrize(
    ("setup", "end", "teardown", "why"),
    [
        ("echo on", "echo broken; exit 7", "echo off", "the runner ended with status 7: broken"),
        ("echo on", "exit 7", "echo off", "the runner ended with status 7, without any output"),
        ("echo on", "echo done", "echo stuck; exit 4", "the runner's teardown ended with status 4: stuck"),
        ("echo none; exit 5", "echo done", "echo off", "the runner's setup ended with status 5: none"),
    ],
)
def test_each_step_is_quoted_by_its_own_last_line(
    setup: str, end: str, teardown: str, why: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    around = ("--runner-option", f"setup={setup}", "--runner-option", f"teardown={teardown}")
    line = f"(: {{model}} {{input}}; touch {{out}}/x; {end})"
    assert main(["-m", str(run.onnx), "-b", BOARD, "--runner", line, *around]) == 3
    assert f"the board did not run: {why};" in capsys.readouterr().out


def test_a_folder_of_outputs_that_became_a_link_is_never_passed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"rmdir {{out}}; ln -s {run.golden} {{out}}; : {{model}} {{input}}"
    assert main(["-m", str(run.onnx), "-b", BOARD, "--runner", line]) == 3
    said = "the runner replaced the folder of its outputs by a link, so they may be stale files"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["twice", "member"])
def test_several_files_of_one_tensor_are_never_passed(run: Run, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The right one is among them; which is meant, nobody knows."""
    assert run(options=f"--only prob --mode {mode}") == 3
    assert "the runner wrote several files of it: " in capsys.readouterr().out


def test_a_text_with_other_values_of_a_tensor_is_never_passed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix in ("txt", "csv"):
        assert run(options=f"--only prob --mode printed --text {suffix}") == 3
        said = f"prob.npy and prob.{suffix} have different values; keep one, or name a profile"
        assert said in capsys.readouterr().out
    assert run(options="--only prob --mode 'raw and printed'") == 3
    assert "prob.bin and prob.txt have different values; keep one, or name a profile" in capsys.readouterr().out
    assert run(options="--only prob --mode logged") == 0


def test_a_runtime_and_a_runner_are_one_too_many(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--runtime", "onnxruntime") == 2
    assert "--runtime onnxruntime and --runner each say what computes on the board" in capsys.readouterr().err


def test_a_line_that_must_come_did_not(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--runner-option", "success=infer success") == 3
    assert "no line of its output matches 'infer success'" in capsys.readouterr().out
    assert run("--runner-option", "failure=took .* ms") == 3
    assert "the runner ended with status 0, but says: inference took 12.5 ms" in capsys.readouterr().out


def test_final_outputs_alone_are_judged_alone(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-r", options="--only prob") == 0
    assert "PASSED (final outputs only: the board offers no per-node dump" in capsys.readouterr().out
    assert run("-r", "--runner-option", "per_node=0") == 0
    assert "PASSED (final outputs only: per_node=0 was given" in capsys.readouterr().out
    assert run("-r", options="--only pool1_QuantizeLinear_Output,prob") == 0
    assert "the board's runner gave 2 of 8 tensors" in capsys.readouterr().out
    assert run("-r", options="--only pool1_QuantizeLinear_Output") == 3
    assert "prob is missing on the board: no file of it among those that the runner wrote" in capsys.readouterr().out


def test_an_input_that_nothing_takes_is_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", f"{run.onnx},{run.vendor}", "-b", "local", "--runner", "tool --model {model} --out {out}"]) == 2
    assert "nothing takes input 'image', so the tool would run on something else" in capsys.readouterr().err


def test_a_runner_is_tried_step_by_step(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"{sys.executable} {TOOL} --golden {run.golden} --model {{model}} --input {{input}} --out {{out}}"
    boards = tmp_path / "boards.toml"
    boards.write_text(
        f"[boards.chip]\nuri = 'local'\n[boards.chip.runner]\ncommand = '''{line}'''\nsuccess = '^done$'\n"
    )
    monkeypatch.setenv("QVERIFY_BOARDS", str(boards))
    assert main(["boards", "runner", "test", "chip"]) == 0
    assert main(["boards", "runner", "test", "chip", "-m", f"{run.onnx},{run.vendor}"]) == 0
    shown = capsys.readouterr().out
    assert "1 final output, 7 of 7 nodes" in shown and "it says: done" in shown
    assert main(["-m", f"{run.onnx},{run.vendor}", "-b", "chip"]) == 0
    assert main(["boards", "runner", "test", "chip", "-m", str(run.onnx), "--runner", "no_such {model} {input}"]) == 3
    assert "FAILED  the runner ended with status 127" in capsys.readouterr().out
    assert main(["boards", "runner", "list"]) == 0 and "command: any command line" in capsys.readouterr().out


def test_a_capture_is_judged_again(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-r", "--capture", str(tmp_path / "cap"), options="--nudge prob") == 0
    assert main(["replay", str(tmp_path / "cap")]) == 1  # nobody but the user says that its bytes need not be equal
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "cap"), "--runtime", "command"]) == 0
    assert "Sim and Arm result Strict check PASSED" in capsys.readouterr().out


def test_what_runs_again_is_the_runner(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-r", "--repeat", "3") == 0
    assert "3 runs" in capsys.readouterr().out


def test_what_ties_the_two_models_is_said_and_checked(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    digest = {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in (("source", run.onnx), ("model", run.vendor))}
    manifest = Path(f"{run.vendor}.built.json")
    content = {"source_sha256": digest["source"], "model_sha256": digest["model"], "command": "vendor_compile -O2"}
    manifest.write_text(json.dumps(content))
    assert run() == 0
    shown = capsys.readouterr().out
    assert "nothing ties" not in shown and "built by 'vendor_compile -O2'" in shown
    manifest.write_text(json.dumps({**content, "source_sha256": "0" * 64}))
    assert run() == 2 and "it was built from another ONNX than digits_quant.onnx" in capsys.readouterr().err
    assert run("--allow-other-model") == 0
    assert "PASSED (final outputs" not in (shown := capsys.readouterr().out)
    assert "vendor.bin was built from another ONNX than digits_quant.onnx" in shown
    manifest.write_text(json.dumps({**content, "model_sha256": "0" * 64}))
    assert run() == 2 and "describes another file than" in capsys.readouterr().err


def test_a_board_alone_is_no_comparison(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", str(run.vendor), "-b", "local", "--runner", "tool {model} {input}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["-m", str(run.onnx), "--runner", "tool {model} {input}"]) == 2
    assert "give -b BOARD" in capsys.readouterr().err


def test_triage_takes_the_runners_board(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        f"{shlex.quote(sys.executable)} {TOOL} --golden {run.golden} --model {{model}} --input {{input}} --out {{out}}"
    )
    words = ["triage", "-m", f"{run.onnx},{run.vendor}", "-b", BOARD, "--explain", "1", "--runner"]
    assert main([*words, f"{line} --spoil pool1_QuantizeLinear_Output"]) == 1
    assert "pool1_QuantizeLinear_Output" in capsys.readouterr().out
    assert main([*words, line]) == 0


def test_infer_writes_what_the_runner_gave(run: Run, tmp_path: Path) -> None:
    line = (
        f"{shlex.quote(sys.executable)} {TOOL} --golden {run.golden} --model {{model}} --input {{input}} --out {{out}}"
    )
    out = tmp_path / "out"
    words = ["infer", "-m", f"{run.onnx},{run.vendor}", "-b", BOARD, "--side", "board", "--runner", line]
    assert main([*words, "-o", str(out)]) == 0
    assert {p.name for p in out.glob("*.npy")} == {p.name for p in run.golden.glob("*.npy")}


def test_a_soak_compares_a_runner_with_its_own_first_run(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tool spoils a node every time but the first."""
    line = (
        f"{shlex.quote(sys.executable)} {TOOL} --golden {run.golden} --model {{model}} --input {{input}} --out {{out}}"
    )
    mark = tmp_path / "mark"
    words = ["soak", "-m", f"{run.onnx},{run.vendor}", "-b", BOARD, "--for", "0.8", "--runner"]
    assert main([*words, line]) == 0
    said = capsys.readouterr().out
    assert "0 differ from the first one, by which alone they are judged" in said and "wrong" not in said
    assert main([*words[:-2], "0.1", "--runner", line]) == 0
    assert "2 runs" in capsys.readouterr().out  # one run is compared with nothing
    later = f"spoil=; [ ! -e {mark} ] || spoil='--spoil prob'; touch {mark}; {line} $spoil"
    assert main([*words, later]) == 1
    assert "the first at prob" in capsys.readouterr().out


def test_perf_of_a_runner_is_one_line(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where only the inventory names it: qvrt must not run in its place."""
    assert main(["perf", "-m", f"{run.onnx},{run.vendor}", "-b", BOARD, "--runner", "tool {input}"]) == 2
    assert "runner command tells no times of" in capsys.readouterr().err


def test_a_capture_of_a_runner_is_judged_again_and_kept_as_a_baseline(run: Run, tmp_path: Path) -> None:
    capture, file = str(tmp_path / "capture"), str(tmp_path / "baseline.json")
    assert run("-r", "--capture", capture) == 0
    assert main(["baseline", "save", file, capture]) == 0 and main(["baseline", "check", file, capture]) == 0


def test_several_frames_are_one_call_each(digits: Path, tmp_path: Path) -> None:
    """The runner is qvrt itself: each frame is computed anew."""
    import numpy as np
    from qverify_agents.binaries import host_architecture, runtime_path

    frames, report, model = tmp_path / "frames", tmp_path / "R.json", tmp_path / "model.bin"
    frames.mkdir()
    for number in range(2):
        drawn = np.random.default_rng(number).random((1, 1, 8, 8), np.float32)
        np.save(frames / f"{number}.npy", drawn)
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(model)]) == 0
    program = runtime_path(host_architecture(), False)
    runner = f"{program} infer --model_file={{model}} --input_file={{input}} --enable_dump=1 --dump_dir={{out}}"
    words = ["-m", f"{digits / 'digits_quant.onnx'},{model}", "-b", "local", "--runner", runner, "-i", str(frames)]
    assert main([*words, "--json", str(report)]) == 0
    rows = json.loads(report.read_text())["frames"]
    assert [row["verdict"] for row in rows] == ["PASSED", "PASSED"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--runner", "tool '{input} --out {out}"], "runner option command=tool '{input} --out {out}: "),
        (["--runner", "tool {input} {out}", "--runner-option", "setup=if true"], "runner option setup=if true: "),
        (
            ["--runner", "tool {input} {out}", "--runner-option", "profile=Nosuch"],
            "profile=Nosuch: no such profile; there are",
        ),
        (["--runner", "tool {input} {out}", "--runner-option", "success=("], "wanted a regular expression"),
    ],
)
def test_options_that_no_run_can_use_are_refused_before_anything_is_opened(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-m", "nothing.onnx,nothing.bin", "-b", "ssh://nowhere.invalid", *options]) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        "tool {input} {out} # don't",
        "awk '{print \"x\"}' {input} >{out}/${HOME:+y}.bin",
        "a {input} && (b; c) >{out}/y.bin",
    ],
)
def test_command_lines_of_a_shell_are_taken(line: str) -> None:
    assert find_syntax_error(line) == ""


def test_a_list_of_frames_is_refused_by_name(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(options="{list}") == 2
    assert "{list}: each frame is a call of its own" in capsys.readouterr().err


def test_a_board_without_a_runner_is_not_said_to_run_qvrt(capsys: pytest.CaptureFixture[str]) -> None:
    for board, said in (
        ("local?runtime=litert", "runs litert, which qverify drives itself"),
        ("ssh://x.invalid", "has no runner"),
    ):
        assert main(["boards", "runner", "test", board]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="sparse files are made by truncate")
def test_a_sparse_file_is_told_by_its_size(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("--runner-option", "teardown=truncate -s 8G big.bin")
    said = capsys.readouterr().out
    assert "left files of 8589" in said and "at most 4294967296 are fetched" in said


def test_versions_of_the_board_are_in_the_report_and_beside_those_of_the_models_builder(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    hashes = {"source_sha256": run.onnx, "model_sha256": run.vendor}
    stated = {key: hashlib.sha256(path.read_bytes()).hexdigest() for key, path in hashes.items()}
    built_for = {"driver": "1.2", "compiler": "7"}
    manifest = run.vendor.with_name(f"{run.vendor.name}.built.json")
    manifest.write_text(json.dumps({**stated, "built_for": built_for}))
    asked = ("--runner-option", "ledger=driver=echo 1.3; echo more", "--runner-option", "ledger=firmware=exit 4")
    assert run(*asked) == 0
    board = next(s for s in run.report["sides"] if s["name"] == "board")  # type: ignore[attr-defined]
    assert board["ledger"] == {"driver": "1.3", "firmware": "not known: exit status 4"}
    shown = capsys.readouterr().out
    assert "the model was built for driver 1.2, the board has 1.3" in shown
    assert "the model was built for compiler 7, the board has not said which one" in shown
    assert run("--runner-option", "ledger=driver=echo 1.2", "--runner-option", "ledger=compiler=echo 7") == 0
    assert "was built for" not in capsys.readouterr().out


def test_a_version_without_a_command_is_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--runner-option", "ledger=driver") == 2
    assert "runner option ledger=driver: wanted NAME=COMMAND" in capsys.readouterr().err

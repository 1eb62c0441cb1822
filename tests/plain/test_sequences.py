"""Networks with a state: verified step by step, forced and free-running, on boards that are right and wrong."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import qverify
import sequence_models as made
from jsonschema import Draft202012Validator
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.report.schema import report_schema
from qverify.sequences.sequence_request import SequenceRequest
from qverify.session.request import Request
from qverify.session.sequence.verify_sequence import verify_sequence
from qverify_agents.links import exec_pipe

TOOL = Path(__file__).with_name("onnxruntime_tool.py")
RUNNER = f"{shlex.quote(sys.executable)} {TOOL} --model {{model}} --inputs {{npys}} --out {{out}}"


@pytest.fixture(scope="module")
def nets(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("nets")
    made.recurrent(folder / "rec.onnx")
    made.ring_filter(folder / "ring.onnx")
    made.ring_filter(folder / "late.onnx", late=True)
    made.growing(folder / "grow.onnx")
    made.decoder(folder / "dec.onnx")
    return folder


def one_line(capsys) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(("name", "states", "steps"), [("rec", 1, 9), ("ring", 1, 9), ("dec", 4, 8), ("grow", 1, 4)])
def test_a_network_with_a_state_passes_in_both_feeds(nets, tmp_path, capsys, name, states, steps):
    report = tmp_path / "r.json"
    words = [
        "-m",
        str(nets / f"{name}.onnx"),
        "-b",
        "local",
        "--steps",
        str(steps),
        "-r",
        "True",
        "--json",
        str(report),
    ]
    assert main(words) == 0
    held = json.loads(report.read_text())
    Draft202012Validator(report_schema()).validate(held)
    assert len(held["sequence"]["states"]) == states and held["sequence"]["ran"] == steps
    assert [row["verdict"] for row in held["frames"]] == ["PASSED"] * steps
    assert held["sequence"]["words"] == [] and {p["feed"] for p in held["pairs"]} <= {"both", "forced", "free-running"}
    printed = capsys.readouterr().out
    assert printed.count("state: ") == states and "(found by name)" in printed
    lines = [line for line in printed.splitlines() if line.startswith("Sim and Arm result")]
    assert lines and all("PASSED" in line and f"{steps} steps" in line for line in lines)


def test_each_state_is_the_output_of_the_step_before(nets, tmp_path):
    report = qverify.verify(nets / "ring.onnx", board="local", steps=3, capture=tmp_path / "capture", pull="all")
    assert report.verdict == "PASSED"
    from qverify.capture.reader import open_capture
    from qverify.session.models import open_models

    capture, graph = open_capture(str(tmp_path / "capture")), open_models([str(nets / "ring.onnx")]).graph
    given = [capture.recordings(step)["reference"].tensors["ring_out"] for step in range(3)]
    taken = [capture.prepared(step, graph).arrays()["ring_in"] for step in range(3)]
    assert not np.any(taken[0]) and np.any(given[0])
    assert np.array_equal(taken[1], given[0]) and np.array_equal(taken[2], given[1])


def test_a_board_that_drifts_passes_with_the_first_step_and_tensor(nets, tmp_path):
    held = qverify.verify(nets / "rec.onnx", board="local", steps=12).document
    assert held.verdict == "PASSED" and held.sequence.drift.step >= 0
    line = next(
        line
        for line in str(qverify.api.results.Report(held)).splitlines()
        if "Quanti.onnx and Arm" in line and "(free-running:" in line
    )
    assert "the board's own run is apart from the reference's from step" in line
    exact = qverify.verify(nets / "rec.onnx", board="local", steps=12, gate="lsb:0").document
    assert exact.verdict == "FAILED" and any(p.cause == "drift" and p.feed == "free-running" for p in exact.pairs)
    assert exact.blame is None or exact.blame.side != "board"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("unwritten", "slot 0 of layer 1 not written: it holds what came in"),
        ("shifted", "slot 0 of layer 1 not written, its values are at 1 instead (shifted by +1)"),
        ("other_head", "slot 0 of layer 1: head 1 has the values of 0"),
    ],
)
def test_a_wrong_slot_of_a_cache_is_named(nets, tmp_path, fault, text):
    wrong = made.decoder(tmp_path / "wrong.onnx", fault)
    report = qverify.verify(
        [nets / "dec.onnx", wrong], board="local", runner=RUNNER, steps=3, feed="forced", gate="close:atol=0.2"
    )
    assert report.verdict == "FAILED"
    first = report.document.sequence.words[0]
    assert (first.step, first.tensor) == (0, "present.1.key") and text in first.text and first.is_named
    right = qverify.verify(
        [nets / "dec.onnx", nets / "dec.onnx"],
        board="local",
        runner=RUNNER,
        steps=3,
        feed="forced",
        gate="close:atol=0.2",
    )
    assert right.verdict == "PASSED" and right.document.sequence.words == []


def test_a_ring_that_is_filled_from_the_wrong_end_is_named(nets):
    report = qverify.verify([nets / "ring.onnx", nets / "late.onnx"], board="local", runner=RUNNER, steps=3)
    texts = [w.text for w in report.document.sequence.words if w.step == 2 and w.feed == "forced"]
    assert any("at the other end: moved in the other direction" in text for text in texts)


def test_a_stale_state_of_qvrt_is_named_and_blamed(nets):
    report = qverify.verify(nets / "rec.onnx", board="faulty:local?fault=stale_frame@sum_q", steps=4)
    assert report.verdict == "FAILED" and report.blame.side == "board" and report.blame.node == "sum_q"
    assert report.document.sequence.words[0].step == 0
    assert any("stale" in w.text for w in report.document.sequence.words)


def test_steps_are_read_from_an_array_a_folder_and_a_sound(nets, tmp_path):
    random = np.random.Generator(np.random.PCG64(5))
    steps = random.uniform(-1, 1, (4, 1, 1, 4)).astype(np.float32)
    net = nets / "ring.onnx"
    folder = tmp_path / "steps"
    for number, step in enumerate(steps):
        (folder / f"step_{number}").mkdir(parents=True)
        np.save(folder / f"step_{number}" / "samples.npy", step)
    np.save(tmp_path / "steps.npy", steps)
    inputs = [str(folder), str(tmp_path / "steps.npy"), steps, f"samples:{tmp_path / 'steps.npy'}"]
    reports = [
        qverify.verify(net, board="local", steps=4, inputs=i, capture=tmp_path / f"c{n}") for n, i in enumerate(inputs)
    ]
    from qverify.capture.reader import open_capture

    outs = [open_capture(str(tmp_path / f"c{n}")).recordings(3)["reference"].tensors["ring_out"] for n in range(4)]
    assert all(r.verdict == "PASSED" for r in reports) and all(np.array_equal(outs[0], out) for out in outs)
    with pytest.raises(UsageError, match="4 steps of input 'samples', --steps wanted 5; give --steps 4"):
        qverify.verify(net, board="local", steps=5, inputs=steps)


def test_a_prefill_gives_its_states_to_the_decoder(tmp_path, nets):
    prefill = made.decoder(tmp_path / "prefill.onnx")
    report = qverify.verify(prefill, board="local", steps=4, decode=str(nets / "dec.onnx"))
    assert report.verdict == "PASSED" and report.document.sequence.models == 2


def test_the_gate_for_tokens(nets, tmp_path):
    passed = qverify.verify(nets / "dec.onnx", board="local", steps=4, gate="tokens:top1")
    assert passed.verdict == "PASSED"
    assert all(p.tokens.keys() == {"reference", p.side} for p in passed.document.sequence.curve)
    failed = qverify.verify(nets / "dec.onnx", board="faulty:local?fault=plus_one@l_q", steps=2, gate="tokens:top1")
    assert failed.verdict == "FAILED"


MISTAKES = [
    ('[state]\nnone = "ring_in"', "the network has no such output"),
    ('[state]\nring_out = "none"', "the network has no such input"),
    ('[state]\nring_out = "samples"', "shapes do not fit from one step to the next"),
    ('[state]\nring_out = "ring_in"\nfiltered = "ring_in"', "an input has one output"),
    ('[state]\nring_out = {input = "ring_in", start = 1}', "unknown key 'start'"),
    ('[state]\nring_out = {input = "ring_in", initial = "ones"}', 'wanted "zeros", a number or the path'),
    ('[state]\nring_out = {input = "ring_in", initial = "missing.npy"}', "no such file"),
    ('[state]\nring_out = {input = "ring_in", grows = 1}', "longer along axis 1 only"),
    ('[state]\nring_out = {input = "ring_in", via = "softmax"}', "wanted 'argmax'"),
    ('[state]\nfiltered = {input = "samples", via = "argmax"}', "argmax wanted one int32 or int64 element"),
    ("[state]", "[state] is empty"),
    ('state = "h"', "state is not a table"),
    ('[state]\nring_out = "ring_in"\n[steps]\nring_in = "count"', "it is a state"),
    ('[state]\nring_out = "ring_in"\n[steps]\nnone = "count"', "the network has no such input"),
    ('[state]\nring_out = "ring_in"\n[steps]\nsamples = "often"', 'wanted "count", "mask" or "same"'),
]


@pytest.mark.parametrize(("text", "wanted"), MISTAKES)
def test_a_mistake_in_the_description_gets_one_line(nets, tmp_path, capsys, text, wanted):
    path = tmp_path / "d.toml"
    path.write_text(text)
    status = main(["-m", str(nets / "ring.onnx"), "-b", "local", "--steps", "2", "--description", str(path)])
    assert status == 2 and wanted in one_line(capsys)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--steps", "9"], "has 8 places; give --steps 8"),
        (["--steps", "0"], "--steps"),
        (["--feed", "forced"], "give --steps N"),
        (["--gate", "tokens:top5"], "give --steps N"),
        (["--steps", "2", "--gate", "tokens:5"], "tokens:topK"),
        (["--steps", "1", "--decode", "d.onnx"], "wanted 2 or more"),
        (["--steps", "2", "--repeat", "2"], "leave it or --steps out"),
        (["--steps", "2", "--npz", "x.npz"], "--npz takes one frame"),
    ],
)
def test_a_mistake_on_the_command_line_gets_one_line(nets, capsys, words, wanted):
    assert main(["-m", str(nets / "dec.onnx"), "-b", "local", *words]) == 2
    assert wanted in one_line(capsys)


def test_a_network_without_a_state_is_refused(digits, capsys):
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "local", "--steps", "2"]) == 2
    assert "no state was found by name" in one_line(capsys)


def test_a_past_value_that_no_output_writes_is_refused(nets, tmp_path, capsys):
    import onnx

    model = onnx.load(nets / "dec.onnx")
    for node in model.graph.node:
        node.output[:] = ["other.1.key" if o == "present.1.key" else o for o in node.output]
    model.graph.output[[o.name for o in model.graph.output].index("present.1.key")].name = "other.1.key"
    onnx.save(model, tmp_path / "renamed.onnx")
    assert main(["-m", str(tmp_path / "renamed.onnx"), "-b", "local", "--steps", "2"]) == 2
    assert "'past_key_values.1.key' is a past value by its name, and no output writes it" in one_line(capsys)


def test_a_board_that_ends_is_never_passed(nets, tmp_path):
    count = tmp_path / "count"
    tool = f"n=$(cat {count} 2>/dev/null || echo 0); echo $((n+1)) > {count}; [ $n -lt 2 ] && {RUNNER}"
    report = qverify.verify([nets / "ring.onnx", nets / "ring.onnx"], board="local", runner=tool, steps=4)
    assert report.verdict == "INCONCLUSIVE"
    assert any("free-running ended: ring_out of the board is missing" in note for note in report.document.notes)
    line = next(line for line in str(report).splitlines() if "and Arm" in line and "(free-running:" in line)
    assert "INCONCLUSIVE" in line and "not compared" in line


def children(process: int) -> list[int]:
    """The processes below this one."""
    tasks = (Path(f"/proc/{process}/task")).iterdir()
    own = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return [*own, *(below for child in own for below in children(child))]


def list_agents() -> set[int]:
    """The agents that this process has started."""
    lines = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children(os.getpid())}
    return {child for child, line in lines.items() if b"agent" in line.split(b"\0")}


def kill_agents(others: set[int]) -> int:
    """Kills the agents that this process has started but for others, of other tests, and returns how many there were."""
    agents = list_agents() - others
    for agent in agents:
        os.kill(agent, signal.SIGKILL)
    return len(agents)


def request_of(net: Path, uri: str, feed: str = "both") -> Request:
    return Request([str(net)], uri, sequence=SequenceRequest(5, feed=feed))


@pytest.mark.parametrize("runtime", ["qvrt", "onnxruntime"])
@pytest.mark.parametrize("feed", ["both", "forced", "free"])
def test_an_agent_that_is_killed_resumes_from_its_snapshot(nets, tmp_path, runtime, feed):
    """The steps are those of a run in which nothing happened, and the report says that the state was lost."""
    uri = "local" if runtime == "qvrt" else "local?runtime=onnxruntime"
    undisturbed = verify_sequence(request_of(nets / "rec.onnx", uri, feed), None, lambda row: None).report
    killed, others = list[int](), list_agents()

    def on_step(row: dict[str, object]) -> None:
        if row["frame"] == 2:
            killed.append(kill_agents(others))

    report = verify_sequence(request_of(nets / "rec.onnx", uri, feed), None, on_step).report
    assert killed == [1] and report.verdict == undisturbed.verdict == "PASSED"
    lost = [note for note in report.notes if "the board lost its state" in note]
    assert len(lost) == 1 and "step 3" in lost[0] and "ran the step again from the snapshot of step 3" in lost[0], lost
    assert report.sequence.curve == undisturbed.sequence.curve and report.sequence.ran == 5


def test_an_agent_that_always_ends_is_never_passed(nets, monkeypatch):
    """It is killed once, and whatever is started in its place ends at once."""
    others = list_agents()

    def on_step(row: dict[str, object]) -> None:
        if row["frame"] == 1:
            monkeypatch.setattr(exec_pipe, "_agent_command", lambda address: ["false"])
            kill_agents(others)

    report = verify_sequence(request_of(nets / "rec.onnx", "local"), None, on_step).report
    assert report.verdict == "INCONCLUSIVE"
    assert [frame["verdict"] for frame in report.frames[:2]] == ["PASSED", "PASSED"]
    assert all(frame["verdict"] != "PASSED" for frame in report.frames[2:])


def test_triage_is_of_the_first_wrong_step(nets):
    found = qverify.triage(nets / "rec.onnx", board="faulty:local?fault=plus_one@d_q", steps=4, explain=0)
    assert found.verdict == "FAILED" and found.broken == "simulator ~ board"
    assert any("triage is of step 0 of 4, the first that is not PASSED" in note for note in found.document.notes)
    passed = qverify.triage(nets / "ring.onnx", board="local", steps=3, explain=0)
    assert any("step 2 of 3: all are PASSED" in note for note in passed.document.notes)


def test_a_state_that_was_lost_is_named(nets, tmp_path):
    keep = tmp_path / "keep.py"
    keep.write_text(
        "import sys, numpy as np\n"
        "step, files = int(sys.argv[1]), sys.argv[2].split(',')\n"
        "if step == 3:\n"
        "    np.save(files[1], np.zeros_like(np.load(files[1])))\n"
    )
    tool = f"{shlex.quote(sys.executable)} {keep} {{step}} {{npys}} && {RUNNER}"
    report = qverify.verify(
        [nets / "ring.onnx", nets / "ring.onnx"], board="local", runner=tool, steps=5, feed="forced"
    )
    words = report.document.sequence.words
    assert report.verdict == "FAILED" and {w.step for w in words} == {3}
    assert "from the initial state: the state was lost (reset)" in words[0].text


def test_nan_in_a_state_is_never_passed(nets, tmp_path, capsys):
    words = ["-m", str(nets / "rec.onnx"), "-b", "faulty:local?fault=nan@hn", "--steps", "3"]
    assert main([*words, "--html", str(tmp_path / "r.html"), "--json", str(tmp_path / "r.json")]) == 1
    printed = capsys.readouterr().out
    assert "hn of the board: NaN at 16 of 16 elements" in printed and "PASSED (free" not in printed.split("Arm")[1]
    Draft202012Validator(report_schema()).validate(json.loads((tmp_path / "r.json").read_text()))


def test_a_sequence_is_of_one_board(nets, capsys):
    assert main(["-m", str(nets / "rec.onnx"), "-b", "local", "-b", "local", "--steps", "2"]) == 2
    assert "a sequence is of one board" in one_line(capsys)


def test_a_board_that_is_not_reached_says_so_once(nets, capsys):
    assert main(["-m", str(nets / "rec.onnx"), "-b", "root@127.0.0.1:1", "--wait", "1", "--steps", "3"]) == 3
    line = capsys.readouterr().out.strip().splitlines()[-1]
    assert line.count("2 steps not run: board lost") == 1 and "frames" not in line


def test_the_next_token_is_the_reference_s_on_every_side(nets, tmp_path):
    states = "".join(
        f'"present.{k}.{part}" = "past_key_values.{k}.{part}"\n' for k in (0, 1) for part in ("key", "value")
    )
    (tmp_path / "d.toml").write_text(
        f'[state]\nlogits = {{input = "input_ids", via = "argmax", initial = 3}}\n{states}'
    )
    report = qverify.verify(
        nets / "dec.onnx",
        board="local",
        steps=5,
        description=tmp_path / "d.toml",
        gate="tokens:top5",
        capture=tmp_path / "c",
    )
    assert report.verdict == "PASSED"
    from qverify.capture.reader import open_capture
    from qverify.session.models import open_models

    capture, graph = open_capture(str(tmp_path / "c")), open_models([str(nets / "dec.onnx")]).graph
    fed = [int(capture.prepared(k, graph).arrays()["input_ids"].item()) for k in range(5)]
    chosen = [int(np.argmax(capture.recordings(k)["reference"].tensors["logits"])) for k in range(5)]
    assert fed == [3, *chosen[:4]]
    points = report.document.sequence.curve
    assert [p.tokens["board"] for p in points if p.side == "board"] == chosen


def test_the_steps_that_a_report_shows_have_every_metric(nets):
    """Drawings need all metrics at once, so that nothing is measured later."""
    uri = "faulty:local?fault=stale_frame@sum_q"
    reports = [
        qverify.verify(nets / "rec.onnx", board=uri, steps=20, drawings=drawn, spot_seed=1) for drawn in (False, True)
    ]
    later, at_once = ([r for p in report.document.pairs for r in p.tensors] for report in reports)
    assert any(not row.bit_equal for row in later) and len(later) == len(at_once)
    assert [(r.name, r.metrics, r.channels) for r in later] == [(r.name, r.metrics, r.channels) for r in at_once]


WRONG = "faulty:local?fault=stale_frame@sum_q"


@pytest.fixture(scope="module")
def snapshot(nets, tmp_path_factory) -> Path:
    """Returns the folder of step 3, of a board whose own run is apart from the reference's."""
    folder = tmp_path_factory.mktemp("snapshot") / "step3"
    report = qverify.verify(nets / "rec.onnx", board=WRONG, steps=6, snapshot=f"3:{folder}", spot_seed=1)
    assert any("step 3 is kept in" in note for note in report.document.notes)
    return folder


@pytest.mark.parametrize("feed", ["both", "forced", "free"])
def test_a_run_from_a_snapshot_is_the_rest_of_the_whole_run(nets, snapshot, tmp_path, feed):
    drifting = "faulty:local?fault=off_by_one@t_q"
    folder = tmp_path / "kept"
    asked = {"board": drifting, "feed": feed, "spot_seed": 1}
    whole = qverify.verify(nets / "rec.onnx", steps=7, snapshot=f"3:{folder}", **asked).document
    rest = qverify.verify(nets / "rec.onnx", steps=7, from_snapshot=folder, **asked).document
    assert (rest.sequence.first, rest.sequence.ran, rest.sequence.steps) == (3, 4, 7)
    assert rest.frames == whole.frames[3:] and any(point.max_abs for point in rest.sequence.curve)
    for found, wanted in zip(
        (rest.sequence.curve, rest.sequence.heat, rest.sequence.words),
        (whole.sequence.curve, whole.sequence.heat, whole.sequence.words),
        strict=True,
    ):
        assert found == [item for item in wanted if item.step >= 3]


def test_a_snapshot_is_replayed_and_triaged_without_the_board(snapshot, capsys):
    assert main(["replay", str(snapshot)]) == 1
    assert "blame: board at sum_q" in capsys.readouterr().out
    assert main(["triage", str(snapshot)]) == 1
    assert "sum_q" in capsys.readouterr().out


def test_triage_begins_with_a_snapshot(nets, snapshot):
    found = qverify.triage(models=nets / "rec.onnx", board=WRONG, steps=6, from_snapshot=snapshot, explain=0)
    assert any("triage is of step 3 of 6" in note for note in found.document.notes)


def spoil(folder: Path, how: str) -> Path:
    """Damages a snapshot."""
    states, index = folder / "states.bin", folder / "snapshot.json"
    held = json.loads(index.read_text())
    if how == "bytes":
        states.write_bytes(bytes([states.read_bytes()[0] ^ 1]) + states.read_bytes()[1:])
    elif how == "cut":
        index.write_text(index.read_text()[:200])
    elif how == "gone":
        states.unlink()
    elif how == "empty":
        index.unlink()
    elif how == "shape":
        held["states"][0]["shape"] = [1, 4]
    elif how == "far":
        held["states"][0]["at"] = 1 << 40
    elif how == "step":
        held["step"] = -1
    else:
        held["schema"] = "qverify.snapshot/9"
    if how in ("shape", "far", "step", "schema"):
        index.write_text(json.dumps(held))
    return folder


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("bytes", "states.bin is damaged: its SHA-256"),
        ("cut", "snapshot.json is damaged"),
        ("gone", "states.bin: No such file"),
        ("empty", "it has no snapshot.json"),
        ("shape", "of the reference side is float32[1, 16], the snapshot has float32[1, 4]"),
        ("far", "snapshot.json is damaged"),
        ("step", "-1 is no whole number"),
        ("schema", "its schema is 'qverify.snapshot/9'"),
    ],
)
def test_a_damaged_snapshot_gets_one_line(nets, snapshot, tmp_path, capsys, how, wanted):
    spoilt = spoil(shutil.copytree(snapshot, tmp_path / "spoilt"), how)
    assert main(["-m", str(nets / "rec.onnx"), "-s", "True", "--steps", "6", "--from-snapshot", str(spoilt)]) == 2
    assert wanted in one_line(capsys)


@pytest.mark.parametrize(
    ("net", "words", "wanted"),
    [
        ("ring", "--steps 6 --from-snapshot {}", "it is of another model"),
        ("rec", "--steps 3 --from-snapshot {}", "it is of step 3, --steps 3 ends with step 2; give --steps 4 or more"),
        ("rec", "--steps 6 --from-snapshot {} --snapshot 2:new", "the run begins with step 3"),
        ("rec", "--steps 6 --snapshot 6:new", "has the steps 0 to 5"),
        ("rec", "--steps 6 --snapshot new", "wanted STEP:DIR"),
        ("rec", "--steps 6 --snapshot 2:{}", "exists already and is not empty"),
        ("rec", "--steps 6 --snapshot 2:new --capture all", "the capture has every step"),
        ("rec", "--snapshot 2:new", "give --steps N"),
        ("rec", "--from-snapshot {}", "give --steps N"),
        ("grow", "--steps 4 --snapshot 2:new", "a sequence of several networks"),
        ("rec", "--steps 6 --snapshot 2:new --decode rec.onnx", "a sequence of several networks"),
    ],
)
def test_a_mistake_with_snapshots_gets_one_line(nets, snapshot, tmp_path, monkeypatch, capsys, net, words, wanted):
    monkeypatch.chdir(tmp_path)
    assert main(["-m", str(nets / f"{net}.onnx"), "-s", "True", *words.format(snapshot).split()]) == 2
    assert wanted in one_line(capsys)
    assert not (tmp_path / "new").exists()


def test_another_input_than_in_the_run_that_took_the_snapshot_is_said(nets, snapshot):
    report = qverify.verify(nets / "rec.onnx", run_sim=True, steps=5, from_snapshot=snapshot, seed=9)
    assert any("x is another input there" in note for note in report.document.notes)

"""Tests that the main job imports only what it uses (modules of a blame, an engine, a .tflite or an arithmetic come later), that
default onnxruntime runs in a copy of the process, and that a command ends with its status and everything done."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from qverify import example
from qverify.onnx_model.decompose import _loaded, _stated_keys

MODEL = Path(example.__file__).parent / "digits_quant.onnx"
UNUSED = (
    "qverify.triage",
    "qverify.sides.runner_board",
    "qverify.sides.dumps",
    "qverify.tflite_model.convert",
    "qverify.compare.identify",
    "qverify.session.offline",
    "qverify.renderers.html_page",
    "qverify_agents.command_board",
    "qverify.report.triage_document",
    "qverify.compare.find_arithmetics",
    "qverify.compare.error_bounds.documented_kernels",
    "qverify.session.other_inputs",
    "qverify.onnx_model.decompositions.attention",
    "qverify.onnx_model.opaque_model",
    "qverify.inputs.picture",
    "asyncio",
    "paramiko",
)


def test_a_run_of_the_hosts_sides_imports_only_what_it_uses():
    code = (
        "import sys\n"
        "from qverify.cli.main import main\n"
        f"status = main(['-m', {str(MODEL)!r}, '-q'])\n"
        f"print(status, [n for n in sys.modules if any(n == u or n.startswith(u + '.') for u in {UNUSED!r})])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "0 []"


def test_what_a_page_of_decompositions_replaces_is_in_the_part_of_its_source_that_is_searched():
    for page, text in _stated_keys().items():
        assert all(f'"{kind}"' in text for _, kind in _loaded(page)), page


WATCHED = """
import atexit, json, os, sys
events = []
sys.addaudithook(lambda event, args: events.append(event if event == "os.fork" else str(args[1])) if event in ("os.fork", "subprocess.Popen") else None)
from qverify.cli.main import main
sys.argv = ["qverify", *sys.argv[2:]]
status = main() if PROGRAM else main(sys.argv[1:])
from qverify.sides import idle_engines
(children,) = idle_engines._idle.values()
print(json.dumps({"status": status, "fork": events.count("os.fork"), "python": sum("run_sessions" in e for e in events), "uses": children[0][1]}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the child is always a Python of its own")
def test_default_onnxruntime_runs_in_a_copy_of_the_process_and_gives_the_same(tmp_path: Path):
    found, reports = [], []
    for is_program in (True, False):  # called by another program, it starts a Python
        code, file = WATCHED.replace("PROGRAM", str(is_program)), tmp_path / f"{is_program}.json"
        words = [sys.executable, "-c", code, "", "-m", str(MODEL), "-q", "--json", str(file)]
        ran = subprocess.run(words, capture_output=True, text=True, check=True)
        found.append(json.loads(ran.stdout.splitlines()[-1]))
        reports.append(json.loads(file.read_text())["plain_onnxruntime"])
    uses = found[0]["uses"]
    assert uses and found == [
        {"status": 0, "fork": 1, "python": 0, "uses": uses},
        {"status": 0, "fork": 0, "python": 1, "uses": uses},
    ]
    assert reports[0] == reports[1] and reports[0]["outputs"]


COPIED = """
import json, os, signal, sys, threading, time
from pathlib import Path
from qverify.sides.engine_child import EngineChild, EngineEnded
from qverify.sides.forked_process import fork_program, may_fork
signal.signal(signal.SIGTERM, lambda *_: None)
answers = Path(sys.argv[1])
def started():
    return EngineChild(answers, process=fork_program(answers))
child, other = started(), started()
said = child.request({})
assert said["pid"] != os.getpid() and said["group"] == said["pid"] and said["term"] == "SIG_DFL", said
assert said["files"] <= 4, said
for death, words in (("exit", "status 3"), ("kill", "SIGKILL")):
    with_death = started()
    try:
        with_death.request({"die": death})
    except EngineEnded as error:
        assert words in str(error), error
    assert with_death.request({})["pid"] not in (0, said["pid"])  # a Python of its own takes its place
    with_death.close()
os.kill(other.request({})["pid"], signal.SIGSTOP)
other.close()  # kills it all the same
child.close()
threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
assert not may_fork()
print("ok", flush=True)
"""
ANSWERS = """
import json, os, signal, sys
for line in sys.stdin:
    request = json.loads(line)
    if request.get("die") == "exit": sys.exit(3)
    if request.get("die") == "kill": os.kill(os.getpid(), signal.SIGKILL)
    said = {"pid": os.getpid(), "group": os.getpgid(0), "term": signal.getsignal(signal.SIGTERM).name}
    print(json.dumps({**said, "files": len(os.listdir("/proc/self/fd"))}), file=open(1, "w", closefd=False), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the child is always a Python of its own")
def test_a_copy_is_a_group_of_its_own_holds_no_file_and_ends_as_a_child_does(tmp_path: Path):
    (tmp_path / "answers.py").write_text(ANSWERS)
    ran = subprocess.run(
        [sys.executable, "-c", COPIED, str(tmp_path / "answers.py")], capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout, ran.returncode) == ("ok\n", 0), ran.stderr


ENDS = """
import atexit, sys
if BEFORE: atexit.register(print, "before")
from qverify.__main__ import run
sys.argv = ["qverify", *sys.argv[2:]]
status = run()
atexit.register(print, "after")
sys.exit(status)
"""


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(("words", "status"), [(["--version"], 0), (["-m", "missing.onnx"], 2)])
def test_a_command_ends_with_its_status_after_everything_that_waits_for_its_end(
    before: bool, words: list[str], status: int
):
    code = ENDS.replace("BEFORE", str(before))
    ran = subprocess.run([sys.executable, "-c", code, "", *words], capture_output=True, text=True)
    assert ran.returncode == status and ("before" in ran.stdout, "after" in ran.stdout) == (before, True)

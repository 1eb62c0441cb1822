"""Options of runners: a wrong value is refused before anything is opened; placeholders become quoted paths; times are read."""

from __future__ import annotations

import pytest
from qverify.cli.main import main
from qverify.engines import RunnerInput, RunnerPlan, RunnerRequest
from qverify.engines.command import plan
from qverify.errors import UsageError
from qverify.sides.runner_plan import RunnerOutput, common_options
from qverify.tensors.spec import TensorSpec

TOOL = ["--runner", "tool {input} {out}"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("timing=[0-9.]+ ms", "timing=[0-9.]+ ms: 0 groups; wanted one around the number, as '(?P<ms>[0-9.]+) ms'"),
        ("timing=([0-9]+) (ms|s)", "timing=([0-9]+) (ms|s): 2 groups; wanted one"),
        ("failure=*", "failure=*: nothing to repeat at position 0; wanted a regular expression"),
        ("environment=A", "environment=A: wanted NAME=VALUE"),
        ("environment=1A=x", "environment=1A=x: wanted NAME=VALUE"),
        ("dtype=y=int7", "dtype=y=int7: wanted one of "),
        ("folder=here/out", "folder=here/out: wanted an absolute path of the board"),
    ],
)
def test_a_wrong_value_is_refused(option: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-m", "nothing.onnx,nothing.bin", "-b", "ssh://nowhere.invalid", *TOOL, "--runner-option", option]
    assert main(words) == 2
    line = capsys.readouterr().err
    assert f"runner option {said}" in line and line.count("\n") == 1


def test_the_users_values_replace_those_of_the_page_and_environments_are_merged() -> None:
    page = RunnerPlan("tool", success="done", timing="(.*) s", environment={"A": "1", "B": "2"})
    made = common_options(
        page, {"success": ("ok",), "environment": ("B=x=y", "C="), "dtype": ("int8", "y=float16"), "prefix": ("sudo",)}
    )
    assert (made.success, made.timing, made.line) == ("ok", "(.*) s", "sudo tool")
    assert made.environment == {"A": "1", "B": "x=y", "C": ""}
    assert made.reading.dtypes == {"": "int8", "y": "float16"}
    with pytest.raises(UsageError, match="outputs=out: wanted an absolute path of the board"):
        common_options(RunnerPlan("tool", collect="out"), {})


@pytest.mark.parametrize(
    ("timing", "line", "seconds"),
    [
        (r"took ([\d.]+) ms", "took 12.5 ms", 0.0125),
        (r"took (?P<s>[\d.]+)", "\x1b[32mtook 2\x1b[0m", 2.0),
        (r"took (?P<us>[\d.]+)", "took 3", 3e-6),
        (r"took (.*) ms", "took no ms", None),
        (r"took (.*) ms", "took -1 ms", None),
        (r"took (.*) ms", "took inf ms", None),
        (r"took (.*) ms", "took nan ms", None),
        (r"took( 1)?", "took", None),
    ],
)
def test_the_time_that_a_line_states(timing: str, line: str, seconds: float | None) -> None:
    output = RunnerOutput(RunnerPlan("tool", timing=timing))
    output.add(line)
    assert output.measured_s == (None if seconds is None else pytest.approx(seconds, rel=1e-12))


def test_what_the_output_says_of_success() -> None:
    output = RunnerOutput(RunnerPlan("tool", success="^done$", failure="^E "))
    output.add("done or not")
    assert output.failure() == "the runner ended with status 0, but no line of its output matches '^done$'"
    output.add("\x1b[1mdone\x1b[0m")
    assert output.failure() == ""
    output.add("E one\x07")
    output.add("E two")
    assert output.failure().startswith("the runner ended with status 0, but says: E one")


def request(command: str, *names: str) -> RunnerRequest:
    inputs = tuple(RunnerInput(TensorSpec(n, "float32", (1,)), f"/r/{n} x.bin", f"/r/{n}.npy") for n in names)
    return RunnerRequest(
        "/r/m.bin",
        "m.bin",
        inputs,
        (),
        "/r/out",
        {},
        False,
        {"command": (command,)},
        "",
        lambda line: "",
        lambda name, data: name,
    )


@pytest.mark.parametrize(
    ("command", "names", "line"),
    [
        ("tool {model} {input} {out}", ("a",), "tool /r/m.bin '/r/a x.bin' /r/out"),
        ("tool {input:b} {npy:a}", ("a", "b"), "tool '/r/b x.bin' /r/a.npy"),
        ("tool {inputs}", ("a", "b"), "tool '/r/a x.bin,/r/b x.bin'"),
        ("tool {npys}", ("a", "b"), "tool /r/a.npy,/r/b.npy"),
        ("tool {input} ${HOME} {model:x} {other}", ("a",), "tool '/r/a x.bin' ${HOME} {model:x} {other}"),
    ],
)
def test_placeholders_become_quoted_paths(command: str, names: tuple[str, ...], line: str) -> None:
    assert plan(request(command, *names)).line == line


@pytest.mark.parametrize(
    ("command", "names", "said"),
    [
        ("  ", ("a",), "--runner: an empty command line (an unset shell variable?)"),
        ("tool {input}", ("a", "b"), "--runner: {input}: the model's inputs are a, b; wanted {input:a}"),
        ("tool {input:c}", ("a", "b"), "--runner: {input:c}: the model's inputs are a, b; wanted {input:a}"),
        ("tool {input:a}", ("a", "b"), "nothing takes input 'b', so the tool would run on something else"),
        ("tool {list}", ("a",), "{list}: each frame is a call of its own"),
    ],
)
def test_a_command_line_that_would_run_on_something_else(command: str, names: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as refusal:
        plan(request(command, *names))
    assert said in str(refusal.value)


def test_the_engine_is_the_first_program_of_the_line() -> None:
    assert plan(request("A=1 /opt/bin/tool {input}", "a")).engine == "tool"
    assert plan(request("{emulator} {input}", "a")).engine == "command"

"""A user's own command line: `my_tool --model {model} --input {input:data} --out {out}`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from qverify.engines import Options, RunnerInput, RunnerPlan, RunnerRequest, option
from qverify.errors import UsageError

WANTED = "any command line of the board's shell (--runner 'tool --model {model} --input {input} --out {out}')"
CHECKED = ""
OPTIONS = {
    "command": "the command line; {model}, {out}, {input} or {input:NAME}, {npy:NAME}, {inputs} (a comma list) are paths; {step} and {feed} of a sequence",
    "outputs": "the board's folder that it writes to, if not {out}; it must be empty before the run",
}
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z_]+)(?::([^{}]+))?\}")
NAMES = ("model", "out", "input", "npy", "inputs", "npys", "emulator", "step", "feed")


def files(options: Options) -> Mapping[str, bytes]:
    """Returns {}: the tool is on the board already."""
    return {}


def plan(request: RunnerRequest) -> RunnerPlan:
    """Returns a plan with the user's command line, in which placeholders are replaced by paths. Raises UsageError if a
    placeholder cannot be replaced, or if the command line does not use an input."""
    template = option(request.options, "command")
    if not template.strip():
        raise UsageError("--runner: an empty command line (an unset shell variable?)")
    line = fill(template, request)
    return RunnerPlan(
        line,
        collect=option(request.options, "outputs"),
        setup=fill(option(request.options, "setup"), request, whole=False),
        teardown=fill(option(request.options, "teardown"), request, whole=False),
        engine=_program(template),
    )


def _program(template: str) -> str:
    """Returns the name of the first program in a command line: its first word that is no assignment or placeholder."""
    words = [w for w in template.split() if "=" not in w and not w.startswith("{")]
    return words[0].rpartition("/")[2] if words else "command"


def fill(template: str, request: RunnerRequest, whole: bool = True) -> str:
    """Returns the template with placeholders replaced by quoted paths. whole: True if every input must be used, since
    the tool would otherwise run on other data."""
    used: set[str] = set()

    def path(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if kind in ("input", "npy"):
            source = _input(request, name, match[0])
            used.add(source.spec.name)
            return shlex.quote(source.path if kind == "input" else source.npy)
        if kind == "list" and name is None:
            raise UsageError(
                "--runner: {list}: each frame is a call of its own, so no list of frames is made; wanted {input}"
            )
        if name is not None or kind not in NAMES:
            return match[0]  # the user's own braces: ${HOME:-x}, awk '{print}'
        if kind in ("inputs", "npys"):
            used.update(i.spec.name for i in request.inputs)
            return shlex.quote(",".join(i.path if kind == "inputs" else i.npy for i in request.inputs))
        if kind in ("step", "feed"):
            if request.step is None:
                raise UsageError(f"--runner: {{{kind}}}: it is of a sequence; give --steps N")
            return str(request.step) if kind == "step" else request.feed
        return {"model": shlex.quote(request.model), "out": shlex.quote(request.out), "emulator": request.emulator}[
            kind
        ]

    line = _PLACEHOLDER.sub(path, template)
    unused = [i.spec.name for i in request.inputs if i.spec.name not in used]
    if whole and unused:
        raise UsageError(
            f"--runner {template!r}: nothing takes input {unused[0]!r}, so the tool would run on something else; "
            f"wanted {{input:{unused[0]}}}, {{npy:{unused[0]}}} or {{inputs}} in it"
        )
    return line


def _input(request: RunnerRequest, name: str | None, where: str) -> RunnerInput:
    """Returns the input of this name, or the only input if name is None. Raises UsageError if there is no such input.
    where: the placeholder, for the message."""
    names = [i.spec.name for i in request.inputs]
    if name is None and len(names) == 1:
        return request.inputs[0]
    if name not in names:
        raise UsageError(f"--runner: {where}: the model's inputs are {', '.join(names)}; wanted {{input:{names[0]}}}")
    return request.inputs[names.index(name)]

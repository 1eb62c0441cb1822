"""Reads which sides run, and how the board is reached."""

from __future__ import annotations

from qverify_agents.worker import RUNTIMES

from qverify.errors import OptionsError
from qverify.options.engines import ONNXRUNTIME
from qverify.options.given import Given
from qverify.session.request import RequestedEngine

Pairs = tuple[tuple[str, str], ...]
_REACH = ("user", "ssh_config", "wait", "python")  # options of the board's address that have its names


def read_sides(given: Given) -> tuple[bool, bool, tuple[str, ...]]:
    """Returns whether qverify's own simulator runs, whether its reference does, and the engines in their place or beside
    them."""
    run_sim, reference, simulators = given["run_sim"], given["reference"], given["simulators"]
    if isinstance(run_sim, str):
        simulators, run_sim = (run_sim, *simulators), False
    if reference != ONNXRUNTIME:
        simulators = (reference, *simulators)
    return run_sim, reference == ONNXRUNTIME, simulators


def read_engine(given: Given) -> RequestedEngine:
    """Returns the engine that runs an ONNX with operators unknown to qverify."""
    names, pythons = given["reference_engine"], given["reference_python"]
    if pythons and not names:
        raise OptionsError("--reference-python runs --reference-engine; give that, too")
    return RequestedEngine(names, pythons, given["reference_timeout_s"])


def read_link(given: Given) -> tuple[float, dict[str, str]]:
    """Returns the limit of each reply of the board in seconds, and the options of its address."""
    values = {name: given[name] for name in _REACH} | {"backend": given["ssh_backend"]}
    values["providers"] = "+".join(given["provider"]) or None
    values["accept_new_host_key"] = "1" if given["accept_new_host_key"] else None
    return given["deadline_s"], {key: str(value) for key, value in values.items() if value is not None}


def read_own_link(given: Given) -> tuple[float, dict[str, str]]:
    """Returns the same of a command whose --runtime names what qverify's own worker runs."""
    deadline_s, reach = read_link(given)
    if given["runtime"] not in (None, "qvrt"):
        reach["runtime"] = given["runtime"]
    return deadline_s, reach


def read_runner(given: Given, reach: dict[str, str]) -> Pairs:
    """Returns what runs on the board instead of qvrt, as pairs of key and value. A runtime of qverify's own worker becomes
    an option of the board's address (`reach`) instead."""
    runtime, runner = given["runtime"], given["runner"]
    if runtime is not None and runner is not None:
        raise OptionsError(f"--runtime {runtime} and --runner each say what computes on the board; give one")
    pairs = list(_split(runtime, reach)) if runtime is not None else []
    pairs += [("command", runner)] if runner is not None else []
    for text in given["runner_option"]:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OptionsError(f"--runner-option {text}: wanted KEY=VALUE")
        pairs.append((key, value))
    _move_python(pairs, reach)
    return tuple(pairs)


def _split(text: str, reach: dict[str, str]) -> Pairs:
    """Returns the pairs of `NAME,KEY=VALUE,...`. Those of a runtime of qverify's own worker become options of the board's
    address (`reach`), and nothing is returned."""
    from qverify.session.chosen_sides import engine_words

    pairs = engine_words(text)
    if pairs[0][1] not in RUNTIMES:
        return pairs
    reach |= dict(pairs)
    return ()


def _move_python(pairs: list[tuple[str, str]], reach: dict[str, str]) -> None:
    """Moves --python from the options of the board's address to those of an engine of its own, which takes it as python=.
    Raises OptionsError for an engine that takes no interpreter, and for two interpreters."""
    from qverify.engines import page

    engine = next((value for key, value in pairs if key in ("runtime", "command")), None)
    if engine is None or "python" not in reach or engine == "qvrt":
        return
    if pairs[0][0] == "command" or "python" not in page(engine).OPTIONS:
        what = "--runner" if pairs[0][0] == "command" else f"--runtime {engine}"
        raise OptionsError(f"--python {reach['python']}: {what} takes no interpreter; leave it out")
    if written := next((value for key, value in pairs if key == "python"), None):
        raise OptionsError(f"--python {reach['python']} and python={written} each name the interpreter; give one")
    pairs.append(("python", reach.pop("python")))

"""Makes the request of `qverify triage`."""

from __future__ import annotations

from qverify.capture.reader import Capture, open_capture
from qverify.errors import OptionsError
from qverify.options.commands import COMMANDS
from qverify.options.given import Given
from qverify.sequences.sequence_request import SequenceRequest
from qverify.session.models import parse_shapes
from qverify.session.request import is_dump
from qverify.session.requests.inputs import read_dump, read_inputs, read_sequence
from qverify.session.requests.judging import is_of_rung, read_judging
from qverify.session.requests.sides import Pairs, read_engine, read_link, read_runner, read_sides
from qverify.session.triage.reduced_folder import check_build_command, check_output_folder
from qverify.session.triage.run_reduction import ReductionRequest
from qverify.session.triage.triage_request import TriageRequest
from qverify.triage.ladder import parse_gate

SAME = ("board", "app_input", "app_output", "loss", "allow_other_model", "arithmetic", "explain_s", "repeat", "keep")
OF_A_RUN = (  # names of options that only a new run can have
    *("seed", "shapes", "deadline_s", "repeat", "keep", "user", "wait", "ssh_config", "ssh_backend"),
    "accept_new_host_key",
)


def triage_request(given: Given) -> tuple[TriageRequest, ReductionRequest | None]:
    """Returns the request, and that for a reduction, None without one. Raises OptionsError for options that exclude each
    other."""
    engine, inputs = read_engine(given), read_inputs(given)
    deadline_s, reach = read_link(given)
    runner = read_runner(given, reach)
    options, sequence = read_judging(given, inputs.outputs), read_sequence(given, inputs)
    paths = [p for model in given["models"] for p in model.split(",")]
    order = given["stages"].split(",") if given["stages"] is not None else []
    run_sim, run_reference, simulators = read_sides(given)
    capture = None if given["capture"] is None else _open_capture(given, order)
    _check_sources(paths, order, capture)
    _check_reduction(given, capture)
    _check_runner(given, runner, reach)
    if capture is not None and simulators:
        raise OptionsError(
            f"{given['capture']} has the engines of its run; leave --simulator, --reference and -s ENGINE out"
        )
    shapes = parse_shapes(given["shapes"])
    if sequence is not None:
        _check_sequence(given, capture, order, sequence)
        from qverify.session.sequence.first_shapes import first_shapes

        shapes, sequence = first_shapes(paths, shapes, sequence)
    if engine.names:
        _check_engine(given, capture)
    dump = next((path for path in [*order, *paths] if is_dump(path)), None) if capture is None else None
    request = TriageRequest(
        paths,
        stages=order,
        run_sim=run_sim,
        run_reference=run_reference,
        simulators=simulators,
        inputs=inputs,
        gates=dict(parse_gate(gate) for gate in given["gates"] if is_of_rung(gate)),
        options=options,
        deadline_s=deadline_s,
        shapes=shapes,
        reach=reach,
        runner=runner,
        capture=capture,
        build=None if given["reduce"] else given["build"],
        sequence=sequence,
        dump=read_dump(given, dump),
        engine=engine,
        **given.only(*SAME),
    )
    return request, None if given["reduce"] is None else ReductionRequest(given["reduce"], given["build"])


def _open_capture(given: Given, order: list[str]) -> Capture:
    """Opens the capture. Raises OptionsError for options that only a new run can have."""
    folder = given["capture"]
    capture = open_capture(folder)
    if given["board"] or order or given["files"]:
        raise OptionsError(
            f"{folder} has its own inputs and board; leave -b, -i and --stages out, or give -m MODELS instead"
        )
    if name := next((name for name in OF_A_RUN if name in given.named), None):
        flag = next(option.flag for option in COMMANDS["triage"] if option.name == name)
        raise OptionsError(f"{folder} is a finished run; {flag} applies only to a new run")
    return capture


def _check_sources(paths: list[str], order: list[str], capture: Capture | None) -> None:
    """Raises OptionsError if there is nothing to triage, or a path is empty."""
    if not all(paths) or not all(order) or not (paths or order or capture):
        raise OptionsError(
            "give -m float.onnx,quant.onnx,model.bin or --stages (an empty one: an unset shell variable?)"
        )


def _check_reduction(given: Given, capture: Capture | None) -> None:
    """Raises UsageError for wrong values of --reduce and --build-cmd before anything runs."""
    check_build_command(given["build"])
    if given["reduce"] is None:
        return
    if capture is not None or given["board"] is None:
        raise OptionsError("--reduce needs the board itself: give -m and -b")
    check_output_folder(given["reduce"])


def _check_runner(given: Given, runner: Pairs, reach: dict[str, str]) -> None:
    """Raises OptionsError for options that do not apply to what runs on the board."""
    from qverify.session.chosen_sides import choose_board

    if given["board"] is None or choose_board(given["board"], runner, reach).page is None:
        if given["build"] is not None and given["reduce"] is None:
            raise OptionsError("--build-cmd is for a board with a runner (--runner), or with --reduce DIR")
    elif given["app_output"] is not None:
        raise OptionsError("--app-output is compared with a board that runs qvrt; leave it out with a runner")


def _check_sequence(given: Given, capture: Capture | None, order: list[str], sequence: SequenceRequest) -> None:
    """Raises OptionsError for what a sequence cannot be triaged with."""
    asked = {
        "a capture": capture is not None,
        "--stages": bool(order),
        "--app-input and --app-output": bool(given["app_input"] or given["app_output"]),
    }
    if option := next((name for name, value in asked.items() if value), ""):
        raise OptionsError(
            f"--steps {sequence.steps}: {option}: triage of a sequence takes -m and -b alone; leave it out"
        )


def _check_engine(given: Given, capture: Capture | None) -> None:
    """Raises OptionsError for options that need an integer graph, which a reference engine does not give."""
    if capture is not None:
        raise OptionsError("--reference-engine is for -m; a capture has its reference: leave the option out")
    values = {"--capture": given["keep"], "--reduce": given["reduce"], "--build-cmd": given["build"]}
    if option := next((option for option, value in values.items() if value is not None), None):
        raise OptionsError(
            f"{option} needs an integer graph, which --reference-engine does not give; leave {option} out. A node that the engine "
            "gives by itself is compared by itself (the main job with -r True lists them)"
        )

"""Learns how a chip or runtime computes: for each op the form of the catalogue that gives every element, how many
elements decided it, and which other forms would, too. Either from DUMP, a dump or a capture with the tensors of every
node, or by experiment, from probes that a board is asked (-b)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.say_line import say
from qverify.cli.takes import takes
from qverify.cli.view_options import listing_screen
from qverify.options import board as board_table
from qverify.options import dumps, models
from qverify.options.commands import INPUTS, LINK, RUNNERS

if TYPE_CHECKING:
    from qverify.inputs.sources import InputRequest
    from qverify.options.given import Given
    from qverify.report.learned import Arithmetic
    from qverify.session.offline.identify_dump import Origin
    from qverify.session.probing.probe_board import ProbedBoard
    from qverify.session.request import BoardDump

EPILOG = """Exit status 0: every op with integers has a form; 1: a recorded op has none; 3: a form may be chance, nothing of an op is recorded, or the board failed or is not deterministic."""


@click.command(help=__doc__, epilog=EPILOG)
@click.argument("dump", type=click.Path(exists=True), required=False)
@click.option("-m", "--model", help="of a dump: quant.onnx, model.bin or .tflite whose nodes it is of")
@takes(models.QUANTIZATION)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="file to write: NAME.toml (ARITHMETICS.md)")
@click.option("--name", default="", help="name of the arithmetic  [default: that of the file]")
@click.option("--engine", default="", help="what computes: chip, firmware, toolchain, versions")
@click.option(
    "--on",
    "versions",
    multiple=True,
    metavar="KEY=VALUE",
    help="version that it holds for, such as firmware=2.1, which the tags of a board in boards.toml must not contradict; may be repeated  [default: those of the board's tags]",
)
@click.option("--profile", default="", metavar="NAME", help="vendor profile of the dump  [default: by content]")
@click.option("--side", default="", help="of a dump of several sides, as in compare")
@click.option("--frame", type=click.IntRange(0), default=0, show_default=True, help="frame of a capture")
@takes(dumps.DTYPE, dumps.LAYER_INFO, dumps.MAP, dumps.LAYOUT)
@takes(board_table.BOARD.but(help="a board to ask, addressed as in the main job"))
@click.option("--ops", default="", metavar="OP,OP", help="of a board: the ops to ask (conv,add,...)  [default: all]")
@click.option(
    "--types",
    default="",
    metavar="uint8,int8",
    help="of a board: the types of activations to ask  [default: both; int8 for LiteRT]",
)
@click.option(
    "--build-cmd",
    "build",
    metavar="COMMAND",
    help="of a board with a runner: the command that builds the board's model from a probe, with {onnx} and {model}",
)
@click.option(
    "--probes-per-model",
    "packed",
    type=click.IntRange(1, 64),
    help="of a board: probes beside each other in one model  [default: 1 for a runner, else all of an op]",
)
@click.option("--keep-going", is_flag=True, help="of a board: leave ops unknown that it does not run")
@click.option("--afresh", is_flag=True, help="of a board: ask everything again, also what NAME.toml.probes has")
@takes(*INPUTS, *LINK, *RUNNERS)
def command(
    dump: str | None,
    model: str | None,
    output: str | None,
    name: str,
    engine: str,
    versions: tuple[str, ...],
    profile: str,
    side: str,
    frame: int,
    ops: str,
    types: str,
    build: str | None,
    packed: int | None,
    keep_going: bool,
    afresh: bool,
    given: Given,
) -> int:
    from qverify.session.offline.identify_dump import Origin
    from qverify.session.probing.probe_board import ProbedBoard
    from qverify.session.requests.inputs import read_inputs
    from qverify.session.requests.sides import read_link, read_runner

    board = given["board"]
    inputs, (deadline_s, reach) = read_inputs(given), read_link(given)
    runner = read_runner(given, reach)
    if (dump is None) == (board is None):
        raise click.UsageError("wanted a dump (DUMP -m MODEL) or a board (-b BOARD -o NAME.toml)")
    name = name or _name_of(output or (dump or "").rstrip("/"))
    learned_on = _versions(versions, board)
    origin = Origin(name, engine, _command_line(), learned_on)
    if dump is not None:
        of_boards = {"--ops": ops, "--types": types, "--build-cmd": build, "--probes-per-model": packed}
        _refuse("a dump", {**of_boards, "--keep-going": keep_going, "--afresh": afresh, "--runner": runner})
        if model is None:
            raise click.UsageError("Missing option '-m' / '--model'.")
        from qverify.session.offline.dump_pair import dtypes
        from qverify.session.request import BoardDump
        from qverify.vendor_files.vendor_dump import ReadingOptions

        reading = ReadingOptions(dtypes(given["dtype"]), side, frame, given["layer_info"], given["layout"] or "")
        read = BoardDump(dump, profile, reading, given["names"])
        return _of_dump(read, model, output, origin, inputs, given["quantization"])
    of_dumps: dict[str, object] = {"-m": model, "--quantization": given["quantization"], "-i": inputs.files}
    of_dumps |= {"--profile": profile, "--side": side, "--frame": frame, "--dtype": given["dtype"]}
    of_dumps |= {"--layer-info": given["layer_info"], "--map": given["names"], "--layout": given["layout"]}
    _refuse("a board", of_dumps)
    if output is None:
        raise click.UsageError("-b needs -o NAME.toml, beside which the board's answers are kept (NAME.toml.probes)")
    stated = "; ".join([*([engine] if engine else []), *(f"{k} {v}" for k, v in learned_on.items())])
    asked = ProbedBoard(board or "", deadline_s, reach, runner, build, stated, packed or 0)
    return _of_board(asked, output, (ops, types), (keep_going, afresh), origin)


def _of_dump(
    dump: BoardDump,
    model: str,
    output: str | None,
    origin: Origin,
    inputs: InputRequest,
    quantization: tuple[str, ...],
) -> int:
    from qverify.files import check_writable
    from qverify.renderers.identify_text import render
    from qverify.session.offline.identify_dump import identify_dump

    if output is not None:
        check_writable(output)
    found = identify_dump(dump.path, model, dump.profile, dump.reading, origin, inputs, dump.names, quantization)
    ops = list(found.arithmetic.ops.values())
    click.echo(render(ops, found.free, found.nodes, listing_screen()))
    for doubt in found.doubts:
        say(f"not certain: {doubt}")
    for note in found.notes:
        say(note)
    if output is not None:
        _write(found.arithmetic, output)
        say(f"{output}: {len(ops)} ops")
    if any(not op.form for op in ops):
        return 1
    return _end(bool(found.doubts) or any(op.why for op in ops))


def _of_board(
    board: ProbedBoard, output: str, chosen: tuple[str, str], flags: tuple[bool, bool], origin: Origin
) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.compare.probing.plan import DTYPES, PROBED
    from qverify.files import check_writable
    from qverify.plural import count
    from qverify.renderers.identify_text import render_probed
    from qverify.session.probing.learn_board import Wanted, learn_board
    from qverify.session.probing.probe_models import check_build
    from qverify.session.probing.probe_store import ProbeStore

    ops = _chosen(chosen[0], PROBED, "--ops")
    dtypes = _chosen(chosen[1], DTYPES, "--types") if chosen[1] or not board.is_litert else ("int8",)
    check_build(board.build)
    check_writable(output)
    store = ProbeStore(f"{output}.probes", flags[1])
    wanted = Wanted(ops, dtypes, flags[0])
    with progress_bars() as watch:
        learned = learn_board(board, wanted, store, origin, lambda text: say(f"asks {text}", err=True), watch)
    found = list(learned.arithmetic.ops.values())
    click.echo(render_probed(found, listing_screen()))
    if learned.left_out:
        say(f"{count(len(learned.left_out), 'probe')} left out, which the runtime has no operator of")
    _write(learned.arithmetic, output)
    say(f"{output}: {len(found)} ops; {count(learned.probes, 'probe')} asked, {count(learned.runs, 'run')}")
    if any(not op.form for op in found):
        return 1
    return _end(any(op.why for op in found))


def _end(uncertain: bool) -> int:
    """Returns the exit status of an arithmetic with a form for every op that was recorded, and says what 3 means."""
    if uncertain:
        say(
            "INCONCLUSIVE (exit status 3): this holds for what was recorded; the lines above say why it may not hold elsewhere"
        )
    return 3 if uncertain else 0


def _write(arithmetic: Arithmetic, output: str) -> None:
    """Writes the file; says what changed if there is an older one."""
    import os

    from qverify.compare.identify.arithmetic_file import read_arithmetic, to_text
    from qverify.compare.identify.changes import describe_changes
    from qverify.errors import BadFileError
    from qverify.files import write_text

    changes = list[str]()
    if os.path.isfile(output) and os.path.getsize(output):
        try:
            changes = describe_changes(read_arithmetic(output), arithmetic) or ["nothing changed"]
        except BadFileError as error:
            changes = [f"the former file is replaced and was not read: {error}"]
    write_text(to_text(arithmetic), output)
    for line in changes:
        say(f"beside the former file: {line}")


def _versions(given: tuple[str, ...], board: str | None) -> dict[str, str]:
    """Returns the versions of --on, or those that the tags of a board of the inventory state."""
    from qverify_agents.inventory import find_arithmetic

    from qverify.session.stated_arithmetics import VERSION_TAGS

    for text in given:
        if not all(text.partition("=")[::2]):
            raise click.UsageError(f"--on {text}: wanted KEY=VALUE, such as firmware=2.1")
    if given or board is None:
        return {key: value for key, _, value in (text.partition("=") for text in given)}
    return {key: value for key, value in find_arithmetic(board)[1].items() if key in VERSION_TAGS}


def _chosen(text: str, known: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Returns the names of a comma list, in the order in which they are known; all of them for no text."""
    from qverify.closest_names import closest_names

    names = [n.strip() for n in text.split(",")] if text else list(known)
    if unknown := next((n for n in names if n not in known), None):
        near = closest_names(unknown, known, 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise click.UsageError(f"{option} {unknown}: {meant}wanted some of {', '.join(known)}")
    if "" in names:
        raise click.UsageError(f"{option} {text}: an empty name; wanted some of {', '.join(known)}")
    return tuple(n for n in known if n in names)


def _refuse(what: str, given: dict[str, object]) -> None:
    """Raises UsageError if an option is given that is of no use for `what`."""
    if wrong := next((option for option, value in given.items() if value), None):
        raise click.UsageError(f"{wrong} is of no use for {what}")


def _name_of(path: str) -> str:
    import os

    return os.path.splitext(os.path.basename(path))[0]


def _command_line() -> str:
    import shlex

    from qverify.cli.reporting import given_words

    return "qverify " + " ".join(map(shlex.quote, given_words()))

"""Runs the command line. Errors are printed as one line. The exit status is 0, 1, 2 or 3, or 128 plus the number of the
signal that ended the command."""

from __future__ import annotations

import os
import sys
import warnings

from qverify import __version__
from qverify.cli.command_modules import load_command, missing_extra, missing_library
from qverify.cli.interrupts import Interrupts
from qverify.cli.normalize_options import normalize_options
from qverify.cli.streams import Streams
from qverify.onnx_model.crash_watch import arm

COMMANDS = {
    "verify": "the main job: three sides, one verdict (also without the word verify)",
    "quantize": "float ONNX to quantized ONNX, with your pictures",
    "compile": "quantized ONNX to model.bin",
    "inspect": "the contents of a quantized ONNX or model.bin: nodes, tensors, scales, ranges",
    "outputs": "what the device's application made of the outputs, compared with what it should have made",
    "inputs": "pictures to the aligned bytes a chip reads: prepare, show, check, compare with what the board was fed",
    "plan": "bytes and seconds that a board's link will take, before touching the board",
    "pack": "make a bundle for a board without a network: agent, model, inputs, run.sh",
    "mcu": "write the agent's C sources for a microcontroller, with only a model's ops",
    "replay": "judge again without the board: a capture, or the output of a bundle's run.sh",
    "extract": "write a capture's inputs and tensors as raw aligned files",
    "infer": "run one side and write every tensor",
    "perf": "time each node on a board",
    "soak": "run one model on one board for a time, and compare every run with the simulator",
    "baseline": "save what a board computed, and report what changed since",
    "triage": "from the float ONNX to the board: the first gate that fails, and the next step",
    "compare": "compare two dumps without a board: .npy folders, .npz, captures, output of vendors' tools",
    "identify": "learn the arithmetic of a chip or runtime: from a dump with its nodes, or by probes on a board",
    "chips": "how the accelerator of your chip is tested, and not only its processor",
    "report": "draw a capture again, as a page or in any other format; what changed between two runs; many runs side by side",
    "boards": "the inventory; start and stop emulated boards; who uses a board",
    "schema": "the JSON Schema of the --json report",
    "suite": "many jobs over many boards: models, inputs and boards of suite.toml; plan, run, resume, report, bisect",
    "worker": "run the jobs of a farm on this host's boards",
    "serve": "the farm as a service: HTTP API and pages, tokens, backup",
    "login": "keep the token of a farm's server, for --server",
    "doctor": "check this host: onnxruntime canary, runtimes, emulators",
    "demo": "run the packaged example: PASSED, and what FAILED looks like",
    "completion": "the script that completes qverify's words in bash, zsh or fish",
}
HELP = """qverify: does the board compute what the host says it should?

  qverify -m quant.onnx,model.bin -b BOARD [-s True|False] [-i INPUTS] [-c N] [-r True|False]
  qverify COMMAND --help

Commands:
{commands}

Boards: local, qemu-user:aarch64|armv7|riscv64|s390x, an ssh host, serial:///dev/ttyUSB0?baud=115200, qemu:arm64, qemu-mcu:an386, labgrid:PLACE, a name in boards.toml.
qverify verify --help shows every option of the main job.
In verdict lines Quanti.onnx is the reference, Sim the simulator, Arm the board; Strict check means that every element is judged.
Exit status: 0 PASSED, 1 FAILED, 2 usage or a bad file, 3 INCONCLUSIVE, 128 plus the number of the signal that ended it."""


def main(argv: list[str] | None = None) -> int:
    """Runs the command line and returns its exit status. Mistakes of the user and faults of the board are printed
    without a traceback. argv: the words after `qverify`; those of this process if None."""
    return run_program(sys.argv[1:]) if argv is None else _run_words(argv)


def run_program(words: list[str]) -> int:
    """Runs the command line with its own standard streams, which survive closed pipes and full disks, and returns the
    exit status."""
    streams = Streams()
    arm()
    if not os.environ.get("QVERIFY_DEBUG"):  # tests call main() and see all warnings
        warnings.simplefilter("ignore")  # libraries warn of values that are judged anyway
    return streams.status(_run_words(words))


def _run_words(argv: list[str]) -> int:
    if (
        not argv and "_QVERIFY_COMPLETE" in os.environ
    ):  # called by a shell for completion; with words, it is an ordinary run
        from qverify.cli.shell_completion import complete

        return complete(COMMANDS)
    words = normalize_options(argv)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("--help", "-h"):
        print(_overview())
        return 0
    if words[0] == "--version":
        print(_versions())
        return 0
    name = words.pop(0) if words[0] in COMMANDS else "verify"
    if name == "verify" and words and not words[0].startswith("-"):
        print(_unknown_command(words[0]), file=sys.stderr)
        return 2
    with Interrupts() as interrupts:
        try:
            return _run_interruptibly(name, words, interrupts)
        except KeyboardInterrupt:  # raised again before further ones were ignored
            return _report_interrupt(interrupts)


def _run_interruptibly(name: str, words: list[str], interrupts: Interrupts) -> int:
    try:
        return _run(name, words)
    except KeyboardInterrupt:
        return _report_interrupt(interrupts)
    except Exception as error:
        if interrupts.first_signal:  # an import turned Ctrl-C into another exception
            return _report_interrupt(interrupts)
        return _report_internal(error)


def _overview() -> str:
    """Returns the overview that `qverify` alone prints, no wider than the terminal."""
    import shutil
    import textwrap

    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000
    width = max(map(len, COMMANDS))
    rows = [f"  {name:{width}s} {text}" for name, text in COMMANDS.items()]
    lines = HELP.format(commands="\n".join(rows)).splitlines()
    return "\n".join(
        textwrap.fill(line, max(columns, 40), subsequent_indent=" " * (width + 3 if line in rows else 4))
        for line in lines
    )


def _versions() -> str:
    """Returns the versions of qverify, Python, and the libraries that compute."""
    from importlib.metadata import version

    libraries = ", ".join(f"{name} {version(name)}" for name in ("onnxruntime", "onnx", "numpy"))
    return f"qverify {__version__} ({libraries}, Python {sys.version.split()[0]})"


def _unknown_command(word: str) -> str:
    """Returns the error for a first word that is not a command, with what it may have meant."""
    import difflib

    from qverify.cli.usage_hints import is_board
    from qverify.printable import printable

    if word.endswith((".onnx", ".bin")):
        return f"qverify: {printable(word)!r} is no command; for the main job: qverify -m {printable(word)} -b BOARD"
    if is_board(word):
        return f"qverify: {printable(word)!r} is no command; for a board: -b {printable(word)}"
    near = difflib.get_close_matches(word, COMMANDS, 1)
    meant = f"did you mean {near[0]!r}? Commands" if near else "commands"
    return f"qverify: unknown command {word!r}; {meant}: {', '.join(COMMANDS)}"


def _report_interrupt(interrupts: Interrupts) -> int:
    interrupts.ignore_further()
    print("qverify: interrupted", file=sys.stderr)
    return 128 + (interrupts.first_signal or 2)


def _report_internal(error: Exception) -> int:
    """Prints an unexpected exception, a bug of qverify, as one line. Returns 2, because 1 would look like a
    mismatch."""
    if os.environ.get("QVERIFY_DEBUG"):
        raise error
    text = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"qverify: internal error: {text}. QVERIFY_DEBUG=1 shows where", file=sys.stderr)
    return 2


def _run(name: str, words: list[str]) -> int:
    """Runs one command and returns its exit status. Prints expected errors as one line."""
    import click
    from qverify_agents.errors import LinkError
    from qverify_agents.printable import one_line

    from qverify.errors import BlockedError, QVerifyError, UndescribedError

    try:
        status = load_command(name).main(
            words, prog_name=f"qverify {name}", standalone_mode=False, max_content_width=120, obj=[name, *words]
        )
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as error:
        return int(error.exit_code)
    except ModuleNotFoundError as error:
        if (missing := missing_extra(name, error)) is None:
            raise
        print(f"qverify: {one_line(str(missing))}", file=sys.stderr)
        return missing.exit_status
    except ImportError as error:
        if (missing := missing_library(error)) is None:
            raise
        print(f"qverify: {one_line(str(missing))}", file=sys.stderr)
        return missing.exit_status
    except click.ClickException as error:
        from qverify.cli.usage_hints import asks_for_help, hint

        if asks_for_help(error):  # a group of commands was called without a command
            print(error.format_message(), file=sys.stderr)
            return 2
        more = hint(words, error, f"qverify {name}")
        message = error.format_message().rstrip(".") if more else error.format_message()
        print(f"qverify: {one_line(message)}{one_line(more)}", file=sys.stderr)
        return 2
    except BlockedError as error:
        print(
            f"qverify: {one_line(error.header)}:", *(f"  {one_line(n)}" for n in error.lines), sep="\n", file=sys.stderr
        )
        return error.exit_status
    except (QVerifyError, LinkError) as error:
        from qverify.cli.usage_hints import hint_for_missing_file

        print(f"qverify: {one_line(str(error))}{one_line(hint_for_missing_file(words, error))}", file=sys.stderr)
        if isinstance(error, UndescribedError) and error.draft:
            from qverify.renderers import drafts

            print(drafts.render({error.input: error.draft}), file=sys.stderr)
        return error.exit_status
    except click.Abort:
        raise KeyboardInterrupt from None
    except MemoryError:
        print("qverify: out of memory on this host", file=sys.stderr)
        return 2
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"qverify: {one_line(where + (error.strerror or str(error)))}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

"""Verifies the packaged digit classifier on this machine (and under QEMU where installed), then on a faulty board;
explains each step and shows its command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from qverify.session.other_jobs.demo import DemoRun


@click.command(help=__doc__)
@click.option(
    "--keep", metavar="DIR", help="a new folder for the example's files; the printed commands run there as written"
)
def command(keep: str | None) -> int:
    from qverify.session.other_jobs.demo import EMULATED, QUANTIZE, demo_runs

    runs = demo_runs()
    count = len(runs) + 1
    with _folder(keep):
        _compile(count)
        good = [_verify(f"{number} of {count}", run) for number, run in enumerate(runs, 2)]
    if EMULATED not in [run.board for run in runs]:
        click.echo("\nleft out: the emulated board; qemu-aarch64 is not installed (install qemu-user-static)")
    if keep is None:
        click.echo("\nnot kept: the files of these commands; qverify demo --keep DIR leaves them in DIR")
    else:
        click.echo(f"\nto quantize the float network as you would your own:\n$ {QUANTIZE}")
    if all(good):
        click.echo("\ndemo: every verdict is as expected (the last board is faulty on purpose)")
        return 0
    click.echo("\ndemo: a verdict is not as expected")
    return 1


@contextlib.contextmanager
def _folder(keep: str | None) -> Iterator[None]:
    """Creates the example's folder and changes into it for the `with` block. keep: path of the folder; if None, a
    temporary folder is used and removed at the end."""
    import os
    import shlex
    import tempfile

    from qverify.errors import UsageError
    from qverify.session.other_jobs.demo import check_folder, write_example

    if keep is None:
        with tempfile.TemporaryDirectory(prefix="qverify-demo-") as work:
            write_example(work)
            with contextlib.chdir(work):
                yield
        return
    if keep == "":
        raise UsageError("--keep: the path is empty (an unset shell variable?)")
    check_folder(keep)
    write_example(keep)
    for line in (*_activation(), f"cd {shlex.quote(os.path.abspath(keep))}"):
        click.echo(f"$ {line}")
    click.echo()
    with contextlib.chdir(keep):
        yield


def _activation() -> list[str]:
    """Returns the command that makes `qverify` the program that runs now; [] if it is already, or there is no such
    command."""
    import os
    import shlex
    import shutil
    import sys

    programs = os.path.dirname(sys.executable)
    activate, on_path = os.path.join(programs, "activate"), shutil.which("qverify")
    if (on_path and os.path.dirname(on_path) == programs) or not os.path.exists(activate):
        return []
    return [f". {shlex.quote(activate)}"]


def _compile(count: int) -> None:
    from qverify.cli.commands.compile import say_compiled
    from qverify.session.other_jobs.demo import COMPILE, MODEL, compile_example

    click.echo(f"1 of {count}: compile a digit classifier to integer form; each node is checked against the original")
    click.echo(f"$ {COMPILE}")
    graph, size_bytes = compile_example()
    say_compiled(MODEL, size_bytes, graph)


def _verify(number: str, run: DemoRun) -> bool:
    """Runs a step, prints what `qverify verify` would print, and returns whether the verdict is as expected. number: of
    the step, such as `2 of 4`."""
    from qverify.cli.view_options import screen
    from qverify.renderers import terminal

    click.echo(f"\n{number}: {run.purpose}\n$ {run.command}")
    outcome = run.run()
    click.echo(terminal.render(outcome.report, outcome.finals, screen()))
    return run.is_expected(outcome)

"""`qverify boards runner`: lists the runners, and tries the runner of a board."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.say_line import say
from qverify.cli.takes import takes
from qverify.options.commands import INPUTS, RUNNERS, link_with

if TYPE_CHECKING:
    from qverify.options.given import Given


@click.group(help="Boards that run something other than qvrt: list the runners, try a board's runner")
def command() -> None:
    pass


@command.command("list", help="List the runners and their options")
def list_runners() -> int:
    from qverify_agents.errors import BadAddress
    from qverify_agents.inventory import read_engines

    from qverify import engines

    say("qvrt: qverify's own runtime; the board runs model.bin")
    for name in engines.names():
        page = engines.page(name)
        say(f"{name}: {page.WANTED}")
        for key, text in page.OPTIONS.items():
            say(f"    {key:<12} {text}")
    for name, words in sorted(read_engines().items()):
        say(f"{name}: {words if isinstance(words, BadAddress) else words[0][1]}, named in boards.toml")
    say("every runner also has:")
    for key, text in engines.COMMON.items():
        say(f"    {key:<12} {text}")
    return 0


@command.command(
    help="Try a board's runner step by step: the board alone, or with -m one run on it and what is read of it"
)
@click.argument("board")
@click.option("-m", "--model", "models", multiple=True, help="quant.onnx, or quant.onnx,vendor.bin")
@takes(*INPUTS, *link_with(60.0, runtime=False), *RUNNERS)
def test(
    board: str,
    models: tuple[str, ...],
    given: Given,
) -> int:
    from qverify.session.other_jobs.try_runner import try_runner
    from qverify.session.request import Request
    from qverify.session.requests.inputs import read_inputs
    from qverify.session.requests.sides import read_link, read_runner

    inputs, (deadline_s, reach) = read_inputs(given), read_link(given)
    runner = read_runner(given, reach)
    paths = [p for model in models for p in model.split(",")]
    request = Request(paths, board, inputs=inputs, deadline_s=deadline_s, reach=reach, runner=runner)
    trial = try_runner(request, lambda good, line: say(f"{'ok     ' if good else 'FAILED '} {line}"))
    return 3 if trial.failed else 0

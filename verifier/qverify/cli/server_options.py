"""--server and --token: runs the main job on a farm instead of on boards that this host reaches."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from qverify.cli.live_progress import live_progress
from qverify.cli.say_line import say
from qverify.printable import printable

if TYPE_CHECKING:
    from qverify.renderers.text_view import TextView
    from qverify.report.document import ReportDocument
    from qverify.session.verify_boards import VerifyJob

CLIENT = "qverify_farm.client"  # a higher layer than this package, so it is loaded by name, and only for --server
NOT_FARM_OPTIONS = frozenset({"models", "board", "inputs", "server", "token"})  # passed to the farm in another way
OPTIONS = (
    click.option(
        "--server",
        metavar="URL",
        help="run the job on the farm of `qverify serve` there; -b is a name or a tag (soc=j5) of its boards",
    ),
    click.option(
        "--token",
        metavar="TOKEN",
        help="of --server  [default: QVERIFY_TOKEN, or that of qverify login URL]",
    ),
)


def server_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options. The command receives them as one `server`, a pair of URL and token; None without --server."""

    @wraps(command)
    def wrapper(server: str | None, token: str | None, **others: Any) -> int:
        if server is None and token is not None:
            raise click.UsageError("--token is that of a server; give --server URL, too")
        return command(server=(server, token) if server is not None else None, **others)

    for option in reversed(OPTIONS):
        wrapper = option(wrapper)
    return wrapper


def farm_request(models: list[str], boards: tuple[str, ...], inputs: str | None, server: tuple[str, str | None]) -> Any:
    """Returns the running command as a request to a farm (a FarmRequest of the client). Raises UsageError for a wrong
    URL, and for options that a job of a farm cannot have."""
    from qverify.cli.python_options import python_options

    options, context = dict[str, Any](), click.get_current_context()
    for keyword, option in python_options("verify").items():
        name = option.name or ""
        if keyword not in NOT_FARM_OPTIONS and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            options[keyword] = context.params[name]
    url = load("http").server_url(server[0])
    on_farm = load("verify_on_farm")
    request = on_farm.FarmRequest(
        url, load("tokens").token_for(url, server[1]), tuple(models), boards, inputs, options=options
    )
    on_farm.check_farm_request(request)
    return request


def load(name: str) -> ModuleType:
    """Returns a module of the farm's client. Raises MissingExtraError if a library that it needs is not installed."""
    from qverify.cli.command_modules import missing_extra

    try:
        return import_module(f"{CLIENT}.{name}")
    except ModuleNotFoundError as error:
        raise missing_extra("--server", error) or error from None


def verify_on_farm(job: VerifyJob, view: TextView, quiet: bool) -> ReportDocument:
    """Runs the job on its farm, prints each board's result unless `quiet`, and returns the report of all boards."""
    from qverify.renderers import frame_lines, heading, terminal

    request = job.on_farm
    if load("http").is_open_to_listeners(request.server) and request.token:
        say(f"qverify: {request.server}: the token goes there unencrypted; https:// protects it", err=True)

    with live_progress() as live:

        def show_result(result: Any, number: int, boards: int) -> None:
            report = result.report
            if (quiet or view.detail == "quiet") and not report.pairs and not report.frames:
                for note in report.notes:  # the reason, which no verdict line has
                    live.say(printable(f"qverify: {note}"), err=True)
            if quiet:
                return
            if boards > 1:
                live.say(("\n" if number else "") + heading.section(result.board, number + 1, boards, view))
            finals = list(dict.fromkeys(r.name for pair in report.pairs for r in pair.tensors if r.final))
            live.say(frame_lines.render(report, view) if report.frames else terminal.render(report, finals, view))

        def say_wait(line: str) -> None:
            live.say(printable(f"qverify: {line}"), err=True)

        whole: ReportDocument = load("verify_on_farm").verify_on_farm(request, live.watch, show_result, say_wait)
    return whole

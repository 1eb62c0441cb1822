"""Runs jobs of a farm on this host's boards: all of boards.toml, or those given. It waits for the scheduler, and starts again
when the scheduler or the process that runs the jobs ends."""

from __future__ import annotations

import click
from qverify.cli.say_line import say


@click.command(help=__doc__)
@click.option(
    "--scheduler",
    required=True,
    metavar="ADDRESS",
    help="ADDRESS of `qverify serve --workers ADDRESS`: tcp://127.0.0.1:8786, tls://HOST:PORT",
)
@click.option("--boards", metavar="NAMES", help="comma list of names in boards.toml  [default: all]")
@click.option(
    "-b",
    "--board",
    "addresses",
    multiple=True,
    help="a board that is not in boards.toml, as in the main job; may be repeated",
)
@click.option("--tls-ca", metavar="FILE", help="certificate of the authority of this farm, for tls://")
@click.option("--tls-cert", metavar="FILE", help="this host's certificate")
@click.option("--tls-key", metavar="FILE", help="this host's private key")
@click.option("--cache", metavar="DIR", help="folder of models, inputs and results  [default: ~/.cache/qverify/farm]")
def command(
    scheduler: str,
    boards: str | None,
    addresses: tuple[str, ...],
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    cache: str | None,
) -> int:
    from dataclasses import asdict
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        raise ModuleNotFoundError("distributed", name="distributed")
    from qverify_farm.engines.dask_address import checked_address, tls_files
    from qverify_farm.engines.dask_worker import WorkerSettings
    from qverify_farm.engines.reached_boards import check_addresses, reached_boards
    from qverify_farm.engines.worker_process import run_workers

    tls = tls_files(tls_ca, tls_cert, tls_key)
    address = checked_address(scheduler, tls)
    board_names = None if boards is None else [name for name in boards.split(",") if name]
    if board_names is None and addresses:
        board_names = []
    boards_here = reached_boards(board_names, addresses)
    check_addresses(boards_here)
    if not boards_here:
        raise click.UsageError("no boards: boards.toml names none; add them there, or give -b ADDRESS")
    say(f"qverify worker: {', '.join(boards_here)[:300]}; scheduler {address}", err=True)
    settings = WorkerSettings(address, board_names, list(addresses), None if tls is None else asdict(tls), cache or "")
    return run_workers(settings, lambda line: say(f"qverify worker: {line}", err=True))

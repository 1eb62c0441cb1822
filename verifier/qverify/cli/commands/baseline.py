"""Saves what a board computed as a baseline; a later check reports only what changed, and in which direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from qverify.cli.reporting import require_writable
from qverify.cli.say_line import say

if TYPE_CHECKING:
    from qverify.session.offline.baselines import BaselineComparison

MAX_LISTED = 40  # changes that are printed


@click.group(help=__doc__)
def command() -> None:
    pass


def _arguments(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the arguments that both commands have."""
    for option in (
        click.option("--toolchain", default="", help="your name for the toolchain that made the model"),
        click.option("--firmware", default="", help="your name for the board's firmware  [default: its system]"),
        click.argument("capture", type=click.Path(exists=True, file_okay=False)),
        click.argument("file", type=click.Path(dir_okay=False)),
    ):
        command = option(command)
    return command


@command.command(
    help="Save the digests and metrics of a capture (--capture) in FILE; they replace those of the same model, board, firmware and toolchain"
)
@_arguments
def save(file: str, capture: str, firmware: str, toolchain: str) -> int:
    from qverify.session.offline import baselines

    key, verdict = baselines.save(file, capture, firmware, toolchain)
    say(f"{file}: saved {_describe(key)}")
    if verdict != "PASSED":
        say(f"qverify: the verdict of this run was {verdict}; it is now the baseline", err=True)
    return 0


@command.command(help="Compare a capture with FILE: exit status 0 nothing changed, 1 something did")
@_arguments
@click.option("--json", "json_path", metavar="OUT", help="write every change as JSON")
def check(file: str, capture: str, firmware: str, toolchain: str, json_path: str | None) -> int:
    import json
    from dataclasses import asdict

    from qverify.files import write_text
    from qverify.plural import count
    from qverify.session.offline import baselines

    if json_path is not None:
        require_writable("--json", json_path)
    comparison = baselines.check(file, capture, firmware, toolchain)
    changes = comparison.changes
    for line in baselines.lines(changes)[:MAX_LISTED]:
        say(line)
    if len(changes) > MAX_LISTED:
        click.echo(f"... and {len(changes) - MAX_LISTED} more")
    worse, better = (sum(c.direction == way for c in changes) for way in ("worse", "better"))
    say(
        f"against {_describe(comparison.key)}: {count(len(changes), 'change')} ({worse} worse, {better} better), "
        f"{count(comparison.compared, 'value')} compared{_describe_verdicts(comparison)}"
    )
    if json_path:
        document = {
            "schema": "qverify.baseline_changes/1",
            "against": comparison.key,
            "compared": comparison.compared,
            "verdict_before": comparison.verdict_before,
            "verdict_now": comparison.verdict_now,
        }
        write_text(json.dumps({**document, "changes": [asdict(c) for c in changes]}, indent=1) + "\n", json_path)
    return 1 if changes else 0


def _describe_verdicts(comparison: BaselineComparison) -> str:
    """Returns the verdicts of both runs as text; "" if both PASSED. A run without changes may repeat a wrong one."""
    from qverify.printable import printable

    if comparison.verdict_before == comparison.verdict_now == "PASSED":
        return ""
    return f"; the baseline's own verdict was {printable(comparison.verdict_before)}, this run's is {printable(comparison.verdict_now)}"


def _describe(key: dict[str, Any]) -> str:
    from qverify.printable import printable

    more = "".join(f", {k} {printable(key[k])}" for k in ("firmware", "toolchain") if key[k])
    return f"model {key['model'][:12]} on {key['board'] or 'no board'}{more}"

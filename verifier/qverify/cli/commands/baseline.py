"""Saves what a board computed as a baseline; a later check reports only what changed, and in which direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from qverify.cli.say_line import say
from qverify.cli.takes import takes_all

if TYPE_CHECKING:
    from qverify.options.given import Given
    from qverify.session.offline.baselines import BaselineComparison

OF_THE_RUN = ("capture", "firmware", "toolchain")
MAX_LISTED = 40  # changes that are printed


@click.group(help=__doc__)
def command() -> None:
    pass


@command.command(
    help="Save the digests and metrics of a capture (--capture) in FILE; they replace those of the same model, board, firmware and toolchain"
)
@takes_all("baseline_save")
def save(given: Given) -> int:
    from qverify.session.offline import baselines

    key, verdict = baselines.save(given["file"], **given.only(*OF_THE_RUN))
    say(f"{given['file']}: saved {_describe(key)}")
    if verdict != "PASSED":
        say(f"qverify: the verdict of this run was {verdict}; it is now the baseline", err=True)
    return 0


@command.command(help="Compare a capture with FILE: exit status 0 nothing changed, 1 something did")
@takes_all("baseline_check")
def check(given: Given) -> int:
    import json
    from dataclasses import asdict

    from qverify.files import require_writable, write_text
    from qverify.plural import count
    from qverify.session.offline import baselines

    json_path, run = given["json_path"], given.only(*OF_THE_RUN)
    if json_path is not None:
        require_writable("--json", json_path)
    comparison = baselines.check(given["file"], **run)
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

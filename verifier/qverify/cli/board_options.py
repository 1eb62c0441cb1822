"""How a board is reached: -b's login and patience, the same on every command that speaks to one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from qverify.cli.numbers import Finite

OPTIONS = (
    click.option("--user", help="ssh: who to log in as"),
    click.option("--ssh-config", metavar="FILE", help="ssh: instead of ~/.ssh/config (or QVERIFY_SSH_CONFIG)"),
    click.option(
        "--ssh-backend", type=click.Choice(("paramiko", "openssh")), help="ssh: openssh for certificates, FIDO keys"
    ),
    click.option("--accept-new-host-key", is_flag=True, help="ssh: learn the key of a host never seen before"),
    click.option("--wait", type=Finite(0, 1e6), metavar="SECONDS", help="for a board that somebody else uses"),
)


def board_option(**more: Any) -> Callable[..., Any]:
    """-b, once: a second one would be a board that nobody judges. more: as of click.option."""
    help_text = more.pop("help", "one, as of the main job")
    return click.option("-b", "--board", multiple=True, callback=_one, help=help_text, **more)


def _one(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> str | None:
    if len(given) > 1:
        raise click.UsageError(
            f"-b {' -b '.join(given)}: {context.info_name} takes one board; the main job takes several"
        )
    if given == ("",):
        raise click.UsageError("an empty -b (an unset shell variable?)")
    return given[0] if given else None


def link_options(timeout_s: float = 120.0) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Adds the options; the command gets `deadline_s`, and the others as one `reach`: options of the board's address."""
    timeout = click.option(
        "--timeout",
        "deadline_s",
        type=Finite(0.1, 1e6),
        default=timeout_s,
        show_default=True,
        help="seconds for each answer of the board",
    )

    def added(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def gathered(
            user: str | None,
            ssh_config: str | None,
            ssh_backend: str | None,
            accept_new_host_key: bool,
            wait: float | None,
            **given: Any,
        ) -> int:
            asked = {"user": user, "ssh_config": ssh_config, "backend": ssh_backend, "wait": wait}
            asked["accept_new_host_key"] = "1" if accept_new_host_key else None
            return command(reach={k: str(v) for k, v in asked.items() if v is not None}, **given)

        for option in reversed((timeout, *OPTIONS)):
            gathered = option(gathered)
        return gathered

    return added

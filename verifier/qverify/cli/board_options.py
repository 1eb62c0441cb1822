"""The options on how a board is reached (login, timeouts), which every command with a board has."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from qverify_agents.worker import RUNTIMES

from qverify.cli.numbers import Finite

OPTIONS = (
    click.option("--user", help="ssh: user name to log in with"),
    click.option(
        "--ssh-config", metavar="FILE", help="ssh: configuration used instead of ~/.ssh/config (or QVERIFY_SSH_CONFIG)"
    ),
    click.option(
        "--ssh-backend", type=click.Choice(("paramiko", "openssh")), help="ssh: openssh for certificates, FIDO keys"
    ),
    click.option("--accept-new-host-key", is_flag=True, help="ssh: accept and store the key of an unknown host"),
    click.option("--wait", type=Finite(0, 1e6), metavar="SECONDS", help="how long to wait for a board that is in use"),
    click.option(
        "--python", metavar="COMMAND", help="of the board: a Python with onnxruntime or LiteRT (default: python3)"
    ),
    click.option(
        "--provider",
        multiple=True,
        metavar="NAME[,KEY=VALUE]",
        help="execution provider of the board's onnxruntime, best first; may be repeated",
    ),
)
RUNTIME = click.option(
    "--runtime",
    type=click.Choice(("qvrt", *RUNTIMES)),
    help="what computes on the board: qvrt runs model.bin (default), onnxruntime the quantized ONNX, litert a .tflite",
)


def board_option(**more: Any) -> Callable[..., Any]:
    """Returns the option -b for commands with one board, for which a second -b is a usage error. more: further
    arguments of click.option."""
    help_text = more.pop("help", "one board, addressed as in the main job")
    return click.option("-b", "--board", multiple=True, callback=_require_single, help=help_text, **more)


def _require_single(context: click.Context, parameter: click.Parameter, boards: tuple[str, ...]) -> str | None:
    if len(boards) > 1:
        raise click.UsageError(
            f"-b {' -b '.join(boards)}: {context.info_name} takes one board; the main job takes several"
        )
    if boards == ("",):
        raise click.UsageError("an empty -b (an unset shell variable?)")
    return boards[0] if boards else None


def link_options(timeout_s: float = 120.0, runtime: bool = True) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Returns a decorator that adds the options. The command receives `deadline_s`, and the others as one dict `reach`
    of options of the board's address. runtime: False for a command that has its own option --runtime."""
    timeout = click.option(
        "--timeout",
        "deadline_s",
        type=Finite(0.1, 1e6),
        default=timeout_s,
        show_default=True,
        help="seconds for each answer of the board",
    )

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def wrapper(
            user: str | None,
            ssh_config: str | None,
            ssh_backend: str | None,
            accept_new_host_key: bool,
            wait: float | None,
            python: str | None,
            provider: tuple[str, ...],
            **others: Any,
        ) -> int:
            reach = {"user": user, "ssh_config": ssh_config, "backend": ssh_backend, "wait": wait, "python": python}
            if runtime and (chosen := others.pop("runtime")) != "qvrt":
                reach["runtime"] = chosen
            reach["providers"] = "+".join(provider) or None
            reach["accept_new_host_key"] = "1" if accept_new_host_key else None
            return command(reach={k: str(v) for k, v in reach.items() if v is not None}, **others)

        for option in reversed((timeout, *OPTIONS, *((RUNTIME,) if runtime else ()))):
            wrapper = option(wrapper)
        return wrapper

    return decorate

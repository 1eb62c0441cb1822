"""docker:IMAGE and podman:IMAGE: a container as a board. It is created for the run, its shell is reached by `exec`, and
it is removed in whatever way the run ends."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardUnreachable, LinkTimeout
from qverify_agents.printable import last_line
from qverify_agents.process_stream import ProcessStream

OPTIONS: frozenset[str] = frozenset({"engine", "platform", "memory_limit"})
ENGINES = ("docker", "podman")
READY = b"qverify-container-up"
# Keeps the container running until its standard input ends, which it also does when qverify is killed.
HOLD_SCRIPT = f"trap 'exit 0' TERM INT; echo {READY.decode()}; read -r _"


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """Starts the container and returns its address and a function that removes it. Options of the address: engine,
    docker or podman (default: the scheme's, or else the one that is installed); platform, such as linux/arm64;
    memory_limit, such as 256m."""
    if not re.fullmatch(r"[A-Za-z0-9][\w./:@-]*", address.rest):
        raise BadAddress(f"-b {address.scheme}:{address.rest}: wanted {address.scheme}:IMAGE")
    engine = _choose_engine(address)
    name = f"qverify-{os.getpid()}-{os.urandom(4).hex()}"
    words = [engine, "run", "-i", "--rm", "--network", "none", "--name", name]
    words += ["--platform", address.options["platform"]] if "platform" in address.options else []
    words += ["--memory", address.options["memory_limit"]] if "memory_limit" in address.options else []
    words += ["--entrypoint", "/bin/sh", address.rest, "-c", HOLD_SCRIPT]

    resources = contextlib.ExitStack()

    def down() -> None:
        no_delay = ["-t", "0"] if engine == "podman" else []  # docker does not wait, and has no option -t
        try:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run([engine, "rm", "-f", *no_delay, name], capture_output=True, timeout=60, check=False)
        finally:
            resources.close()

    try:
        holder = ProcessStream(words)
        resources.callback(holder.close)
        _wait_until_ready(holder, deadline, f"{address.scheme}:{address.rest}: {engine}")
    except BaseException:  # the container may exist already
        down()
        raise
    return Address("shell", name, argv=(engine, "exec", "-i", name, "/bin/sh", "-c")), down


def _choose_engine(address: Address) -> str:
    requested = address.options.get("engine", "")
    candidates = [requested] if requested else [address.scheme, *ENGINES]
    program = next((e for e in candidates if e in ENGINES and shutil.which(e)), None)
    if program is None:
        raise BoardUnreachable(f"-b {address.scheme}:{address.rest}: no {' or '.join(candidates)} on this machine")
    return program


def _wait_until_ready(holder: ProcessStream, deadline: Deadline, subject: str) -> None:
    """Waits until the container runs. Raises BoardUnreachable."""
    output = b""
    try:
        while READY not in output:
            chunk = holder.read(deadline)
            if not chunk:
                status = holder.status(deadline)
                raise BoardUnreachable(f"{subject} says: {last_line(holder.errors(last=True), f'status {status}')}")
            output += chunk
    except LinkTimeout:
        raise BoardUnreachable(f"{subject} does not start it in time; give --timeout to wait longer") from None

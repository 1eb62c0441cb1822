"""The commands of the worker. `agent`: serves the protocol on standard input and output. `sha256 FILE`: prints the hash
of a file, as the C agent does."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from importlib import import_module
from pathlib import Path

RUNTIMES = ("onnxruntime", "litert")


def main(words: list[str]) -> int:
    """Runs one of the commands and returns the exit status."""
    if words[:1] == ["sha256"] and len(words) == 2:
        print(hashlib.sha256(Path(words[1]).read_bytes()).hexdigest())
        return 0
    options = _parse_options(words)
    from qverify_worker.board_lock import BoardLock
    from qverify_worker.contents import Contents
    from qverify_worker.model import RuntimeSettings
    from qverify_worker.serve import AgentServer
    from qverify_worker.wire import Wire

    runtime_module = import_module(f"qverify_worker.runtimes.{options.runtime}")
    try:
        runtime_module.version()
    except ImportError as error:
        print(
            f"{sys.executable}: no {options.runtime}: {error}. Next: install it there, or name a Python that has it by python=PATH",
            file=sys.stderr,
        )
        return 4
    settings = RuntimeSettings(
        tuple(_parse_provider(text) for text in options.provider),
        options.level,
        options.threads,
        options.delegate,
        tuple(_parse_pair(text) for text in options.delegate_option),
        options.kernels,
    )
    sink = os.dup(1)
    os.dup2(2, 1)  # output that a library prints must not mix with the protocol
    contents = Contents(Path(options.store) if options.store else None, options.store_limit)
    link = Wire(0, sink, options.idle)
    AgentServer(link, runtime_module, settings, contents, BoardLock(options.lock), options.node_limit).serve()
    return 0


def _parse_options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="qverify_worker")
    parser.add_argument("command", choices=["agent"])
    parser.add_argument("--runtime", choices=RUNTIMES, required=True)
    parser.add_argument("--provider", action="append", default=[], help="NAME[,KEY=VALUE...]")
    parser.add_argument("--level", default="", choices=["", "disable_all", "basic", "extended", "all"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--delegate", default="")
    parser.add_argument("--delegate_option", action="append", default=[], help="KEY=VALUE")
    parser.add_argument("--kernels", default="", choices=["", "reference", "optimized", "xnnpack"])
    parser.add_argument("--store", default="")
    parser.add_argument("--store_limit", type=int, default=4 << 30)
    parser.add_argument("--lock", default="")
    parser.add_argument("--idle", type=float, default=0.0)
    parser.add_argument("--node_limit", type=float, default=0.0)
    parser.add_argument("--memory", default="")
    return parser.parse_args(words)


def _parse_provider(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    name, *options = text.split(",")
    return name, tuple(_parse_pair(option) for option in options)


def _parse_pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Reads a model.bin back before it is renamed into place: with qverify's reader, and with this machine's runtime if
there is one."""

from __future__ import annotations

import subprocess
from functools import partial

import numpy as np
from qverify_agents.binaries import host_architecture, runtime_path
from qverify_agents.errors import BoardUnreachable
from qverify_agents.printable import one_line

from qverify.arithmetic.workers import submit
from qverify.errors import BadFileError, InternalError
from qverify.model_bin.container import Piece
from qverify.model_bin.records import decode, encode_pieces

PATIENCE_S = 60.0  # enough for the runtime's check of the largest model; running out is no reason to refuse one
REFUSES = ("not a valid model.bin", "damaged", "not supported by this runtime")  # qv_status_phrase


def check_readable(path: str) -> None:
    """Checks a model.bin. BadFileError where a reader refuses the file; InternalError where it reads back as another
    model."""
    with open(path, "rb") as file:
        data = file.read()
    refused_by_runtime = submit(partial(_ask_runtime, path))
    try:
        again = encode_pieces(decode(data))
    except BadFileError as error:
        raise BadFileError(f"no model.bin is written, its own reader refuses it: {error}") from error
    finally:
        reason = refused_by_runtime.result()
    if not _is_joined(again, data):
        raise InternalError("no model.bin is written: it reads back as another model; please report this")
    if reason:
        raise BadFileError(f"no model.bin is written, the runtime refuses it: {reason}. Cut the model before that node")


def _is_joined(pieces: list[Piece], data: bytes) -> bool:
    """Returns whether the data are these pieces, one after the other."""
    at, whole = 0, np.frombuffer(data, np.uint8)
    for piece in filter(len, pieces):
        if not np.array_equal(whole[at : at + len(piece)], np.frombuffer(piece, np.uint8)):
            return False
        at += len(piece)
    return at == len(data)


def _ask_runtime(path: str) -> str:
    """Returns why this machine's runtime refuses the file; "" where it accepts it, or cannot be run."""
    try:
        command = [str(runtime_path(host_architecture())), "model_info", f"--model_file={path}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False)
    except (BoardUnreachable, OSError, subprocess.TimeoutExpired):
        return ""
    message = one_line(done.stderr.decode(errors="replace").partition(": ")[2])
    return message if done.returncode and message.startswith(REFUSES) else ""

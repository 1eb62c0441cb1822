"""Reads a new model.bin back before it is renamed into place, with qverify's reader and with the runtime for this
machine, if there is one."""

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
from qverify.onnx_model.mapped_file import map_file

RUNTIME_TIMEOUT_S = 60.0  # enough for the check of the largest model; a model is not refused because of a timeout
REFUSALS = ("not a valid model.bin", "damaged", "not supported by this runtime")  # phrases of the C qv_status_phrase


def check_readable(path: str) -> None:
    """Checks a model.bin. Raises BadFileError if a reader refuses the file, InternalError if it reads back as another
    model."""
    file = map_file(path)
    runtime_check = submit(partial(_check_with_runtime, path))
    try:
        encoded_again = encode_pieces(decode(file.data))
    except BadFileError as error:
        raise BadFileError(f"no model.bin is written, its own reader refuses it: {error}") from error
    finally:
        reason = runtime_check.result()
    is_joined = _is_joined(encoded_again, file.data)
    file.release()
    if not is_joined:
        raise InternalError("no model.bin is written: it reads back as another model; please report this")
    if reason:
        raise BadFileError(f"no model.bin is written, the runtime refuses it: {reason}. Cut the model before that node")


def _is_joined(pieces: list[Piece], data: Piece) -> bool:
    """Returns whether the data consist of exactly these pieces, one after the other."""
    offset, whole = 0, np.frombuffer(data, np.uint8)
    for piece in filter(len, pieces):
        if not np.array_equal(whole[offset : offset + len(piece)], np.frombuffer(piece, np.uint8)):
            return False
        offset += len(piece)
    return offset == len(data)


def _check_with_runtime(path: str) -> str:
    """Returns why the runtime for this machine refuses the file; "" if it accepts it, or cannot be run."""
    try:
        command = [str(runtime_path(host_architecture())), "model_info", f"--model_file={path}"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUNTIME_TIMEOUT_S, check=False
        )
    except (BoardUnreachable, OSError, subprocess.TimeoutExpired):
        return ""
    message = one_line(done.stderr.decode(errors="replace").partition(": ")[2])
    return message if done.returncode and message.startswith(REFUSALS) else ""

"""Checks the options of --reduce and --build-cmd before the search, and moves the result into its folder."""

from __future__ import annotations

import os
import shlex
import shutil

from qverify.errors import UsageError


def move_whole(folder: str, output: str) -> None:
    """Copies the folder to `output`, completely or not at all. Raises UsageError if it cannot be written."""
    temporary = f"{output.rstrip('/')}.part"
    try:
        os.mkdir(temporary)
    except OSError as error:  # not removed below: a folder of this name is another's
        raise UsageError(f"--reduce {output}: {temporary} cannot be made: {_reason(error)}") from error
    try:
        shutil.copytree(folder, temporary, dirs_exist_ok=True)
        os.rename(temporary, output)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise UsageError(f"--reduce {output}: cannot be written: {_reason(error)}") from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _reason(error: OSError) -> str:
    """Returns the reason of an error. A shutil.Error contains it in a list of (source, target, reason)."""
    listed = error.args[0] if isinstance(error, shutil.Error) and error.args else None
    return str(listed[0][-1]) if isinstance(listed, list) and listed else error.strerror or str(error)


def check_build_command(build: str | None) -> None:
    """Raises UsageError for a command without {onnx}, without {bin} or {model}, or with an unclosed quote."""
    if build is None:
        return
    try:
        words = shlex.split(build)
    except ValueError as error:
        raise UsageError(f"--build-cmd {build!r}: {error}") from error
    text = " ".join(words)
    if "{onnx}" not in text or not ("{bin}" in text or "{model}" in text):
        raise UsageError(f"--build-cmd {build!r}: it must contain {{onnx}}, and {{model}} or {{bin}}")


def check_output_folder(output: str) -> None:
    """Raises UsageError for a folder that exists, or cannot be created."""
    if os.path.lexists(output):
        raise UsageError(f"--reduce {output}: exists already; name a folder that does not")
    above = os.path.dirname(os.path.abspath(output))
    if not os.path.isdir(above) or not os.access(above, os.W_OK):
        raise UsageError(f"--reduce {output}: {above} is not a folder that can be written to")

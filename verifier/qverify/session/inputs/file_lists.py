"""Reads lists of files: text files with one path per line, relative to the list, and comments after `#`."""

from __future__ import annotations

from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular

MAX_BYTES = 1 << 26  # of a list


def is_list(path: str) -> bool:
    """Returns whether the path ends like that of a list (.txt)."""
    return path.lower().endswith(".txt")


def lines(path: str) -> list[str]:
    """Returns the lines of a list, without comments and empty lines. Raises UsageError if the file cannot be read or is
    not UTF-8 text."""
    try:
        text = read_regular(path, MAX_BYTES, follow=True).decode("utf-8-sig")
    except (BadFileError, UnicodeDecodeError) as error:
        raise UsageError(
            f"not a readable list: {error}" if path in str(error) else f"{path}: not a readable list: {error}"
        ) from error
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]

"""The error tree of the host tool.

QVerifyError                 one line for the user: what, where, got, wanted, next step
 +- UsageError      exit 2   a mistake in the request
 |   +- UndescribedError      pixels for an input that needs a description
 |   +- MissingExtraError     a library of an extra (qverify[images]) is not installed
 |   +- TaskError             a metric, a label or a float model that no task number can be made with
 +- BadFileError    exit 2   a file found on the host is wrong (ONNX, model.bin, input)
 +- UnsupportedError exit 2  a valid model the compiler cannot express; names node, op, what to do
 |   +- BlockedError          several of these at once, a line each
 |   +- NotOnHostError        numbers that are wrong or that the options cannot express: no host island gets around it
 +- BoardError      exit 3   anything at or from the board
 +- InternalError   exit 2   one of qverify's own checks failed: a bug
"""

from __future__ import annotations


class QVerifyError(Exception):
    exit_status = 2


class UsageError(QVerifyError):
    pass


class UndescribedError(UsageError):
    """draft: of the description to write for `input`, several lines of TOML; "" where none is known."""

    def __init__(self, text: str, input: str = "", draft: str = ""):
        super().__init__(text)
        self.input, self.draft = input, draft


class MissingExtraError(UsageError):
    pass


class TaskError(UsageError):
    pass


class BadFileError(QVerifyError):
    pass


class UnsupportedError(QVerifyError):
    pass


class BlockedError(UnsupportedError):
    """lines: one for each operator and reason, the most frequent first."""

    def __init__(self, header: str, lines: list[str]):
        super().__init__(f"{header}: {'; '.join(lines)}")
        self.header, self.lines = header, tuple(lines)


class NotOnHostError(UnsupportedError):
    pass


class BoardError(QVerifyError):
    exit_status = 3


class InternalError(QVerifyError):
    pass

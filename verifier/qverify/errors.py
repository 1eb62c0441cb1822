"""The error tree of the host tool.

QVerifyError                 its text is one line for the user: what, where, got, wanted, next step
 +- UsageError      exit 2   a mistake in the request
 |   +- OptionsError          options that exclude each other, or lack one that they need
 |   +- UndescribedError      pixels were given for an input without a description of its bytes
 |   +- MissingExtraError     a library of an extra (qverify[images]) is not installed
 |   +- TaskError             a metric, labels or a float model from which no task numbers can be computed
 +- BadFileError    exit 2   a file found on the host is wrong (ONNX, model.bin, input)
 |   +- RefusedModelError     onnxruntime does not open a model
 |   +- OwnInputsError        onnxruntime rejects the inputs that qverify draws for a check of its own
 +- UnsupportedError exit 2  a valid model the compiler cannot express; names node, op, what to do
 |   +- BlockedError          several such reasons, one line each
 |   +- NotOnHostError        wrong numbers, or numbers that the options cannot express; computing on the host does not
     help
 +- BoardError      exit 3   anything at or from the board
 +- CancelledError  exit 3   the caller in Python ended the call
 +- InternalError   exit 2   one of qverify's own checks failed: a bug
"""

from __future__ import annotations

from collections.abc import Mapping


class QVerifyError(Exception):
    exit_status = 2


class UsageError(QVerifyError):
    pass


class FloatModelError(UsageError):
    """A float ONNX where a quantized one is wanted."""


class OptionsError(UsageError):
    pass


class UndescribedError(UsageError):
    """Raised if pixels are given for an input without a description of its bytes.

    input: name of the input. draft: a proposed description, several lines of TOML, or "" if there is none."""

    def __init__(self, text: str, input: str = "", draft: str = ""):
        super().__init__(text)
        self.input, self.draft = input, draft


class MissingExtraError(UsageError):
    pass


class TaskError(UsageError):
    pass


class BadFileError(QVerifyError):
    pass


class RefusedModelError(BadFileError):
    pass


class OwnInputsError(BadFileError):
    pass


class UnsupportedError(QVerifyError):
    """nodes: the nodes or operators that are refused, by name, each with the reason; {} if they are not known."""

    def __init__(self, text: str = "", nodes: Mapping[str, str] | None = None):
        super().__init__(text)
        self.nodes = dict(nodes or {})


class BlockedError(UnsupportedError):
    """Raised if several operators of a model are not supported.

    lines: one for each pair of operator and reason, the most frequent first."""

    def __init__(self, header: str, lines: list[str], nodes: Mapping[str, str] | None = None):
        super().__init__(f"{header}: {'; '.join(lines)}", nodes)
        self.header, self.lines = header, tuple(lines)


class NotOnHostError(UnsupportedError):
    pass


class BoardError(QVerifyError):
    exit_status = 3


class CancelledError(QVerifyError):
    exit_status = 3


class NotDeterministicError(BoardError):
    """A board that gives other values for the same inputs."""


class UnreadError(BoardError):
    """A board ran, but what it left could not be read."""


class InternalError(QVerifyError):
    pass

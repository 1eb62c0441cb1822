"""A vendor's own quantization of a float network, as the quantized ONNX that computes the same: one page for each toolkit.
NAME.py defines

FILES    the files of the toolkit that state what it did, in one line, for messages
recognised(name, data) -> bool    whether a file is the text of this toolkit
write_quantized(float_onnx, files) -> Quantized    the quantized ONNX, in QDQ format, with the scales, integers and
                                                   multipliers that the files state

Nothing here runs a toolkit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.onnx_model.stated_names import with_names
from qverify.pages import load_page, page_names

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized ONNX.

    Attributes:
        onnx: the bytes of the QDQ ONNX.
        changes: what the toolkit changed, one line each, said before anything is compared.
        arithmetic: name of the shipped arithmetic in which the toolkit's engine computes it, "" for the reference.
        names: names of the toolkit's tensors, each with that of the float ONNX whose values it has.
        tests: inputs and outputs, by name, with which the toolkit lets the chip test itself; None without them.
    """

    onnx: bytes
    changes: list[str] = field(default_factory=list)
    arithmetic: str = ""
    names: dict[str, str] = field(default_factory=dict)
    tests: tuple[Mapping[str, Array], Mapping[str, Array]] | None = None


def write_quantized(float_onnx: bytes, files: Mapping[str, bytes]) -> Quantized:
    """Returns the quantized ONNX that a float ONNX and a toolkit's files give. files: contents by file name. Raises
    BadFileError for files of no toolkit or of several, or of another network. The ONNX has the toolkit's names of its
    tensors in its metadata."""
    pages = {
        name: load_page(__name__, name, ("FILES", "recognised", "write_quantized")) for name in page_names(__name__)
    }
    found = [name for name, page in pages.items() if any(page.recognised(n, data) for n, data in files.items())]
    if len(found) != 1:
        got = f"files of {' and '.join(found)}" if found else ", ".join(files) or "no file"
        wanted = "; ".join(f"{name}: {page.FILES}" for name, page in pages.items())
        raise BadFileError(
            f"{got}: wanted the files in which one toolkit states how it quantized the network ({wanted})"
        )
    result: Quantized = pages[found[0]].write_quantized(float_onnx, files)
    return replace(result, onnx=with_names(result.onnx, result.names))

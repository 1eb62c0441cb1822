"""A vendor's own quantization of a float network, as the quantized ONNX that computes the same: one page for each toolkit.
NAME.py defines

FILES    the files of the toolkit that state what it did, in one line, for messages
write_quantized(float_onnx, files) -> Quantized    the quantized ONNX, in QDQ format, with the scales, integers and
                                                   multipliers that the files state

Nothing here runs a toolkit."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized ONNX.

    Attributes:
        onnx: the bytes of the QDQ ONNX.
        changes: what the toolkit changed, one line each, said before anything is compared.
        arithmetic: name of the shipped arithmetic in which the toolkit's engine computes it, "" for the reference.
        names: names of the toolkit's tensors, each with that of the float ONNX whose values it has.
    """

    onnx: bytes
    changes: list[str] = field(default_factory=list)
    arithmetic: str = ""
    names: dict[str, str] = field(default_factory=dict)

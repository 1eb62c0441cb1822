"""The request to compare two dumps on disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions


@dataclass(frozen=True, slots=True)
class DumpPair:
    """Two dumps and how to read them.

    Attributes:
        a, b: paths of the dumps.
        model: path of -m, None without one.
        profile_a, profile_b: names of vendors' profiles; "" to recognise the format by its content.
        reading: further options, for both.
        outputs_only: compare only the final outputs.
        side_a, side_b: the side to read from a dump of several sides; "" for that of `reading`.
        arithmetic: file or name of the arithmetic that both are stated to have; "" for none.
        names: file of --map, which pairs names; "" for none.
        quantization: files in which a vendor's toolkit states how it quantized the float ONNX of `model`.
        partial: whether B stands in a board's place, so that it is judged by the tensors that it has.
        inputs: the inputs that B was given; None if they are not known.
        is_first_pair: whether it is the first pair of a report, in which is said what is the same for all: other inputs of B, and which known
            roundings give its final outputs.
        shapes: dims of dynamic inputs of the model, by name.
        every_frame: whether every frame of folders of several is compared (compare_frames.py), and not that of `reading`.
    """

    a: str
    b: str
    model: str | None = None
    profile_a: str = ""
    profile_b: str = ""
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    outputs_only: bool = False
    side_a: str = ""
    side_b: str = ""
    arithmetic: str = ""
    quantization: tuple[str, ...] = ()
    names: str = ""
    partial: bool = False
    inputs: InputRequest | None = None
    is_first_pair: bool = True
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    every_frame: bool = False

    def reading_of(self, b: bool) -> ReadingOptions:
        """Returns the options for reading dump B if `b`, else dump A."""
        layout = self.reading.layout if b else ""
        return replace(self.reading, side=(self.side_b if b else self.side_a) or self.reading.side, layout=layout)


def dtypes(values: Iterable[str]) -> dict[str, str]:
    """Parses DTYPE and NAME=DTYPE options. Returns the dtypes by tensor name; a dtype without a name is under "".
    Raises UsageError for an unknown dtype."""
    dtypes_by_name = {}
    for value in values:
        name, _, dtype = value.rpartition("=")
        if dtype not in ITEM:
            raise UsageError(f"--dtype {value}: wanted one of {', '.join(ITEM)}, or NAME=DTYPE")
        dtypes_by_name[name] = dtype
    return dtypes_by_name

"""Makes the requests of `qverify inputs diff` and `qverify outputs diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qverify.options.given import Given
from qverify.options.tools import DESCRIBED

if TYPE_CHECKING:
    from qverify.inputs.description import Description
    from qverify.session.outputs.compare_outputs import OutputsRequest


def read_described(given: Given) -> tuple[Description | None, str]:
    """Returns the description of an input, None if nothing describes it, and the input's name."""
    from qverify.session.inputs.merge_descriptions import merge_descriptions

    names = [key.replace("-", "_") for key in DESCRIBED]
    values = {name: given[name] for name in names if given[name] is not None}
    return merge_descriptions(values, given["toml"], given["model"], given["name"])


def inputs_diff_request(given: Given) -> tuple[str, str, Description | None, float]:
    """Returns the paths of the intended and the captured bytes, the description, and the seconds for the search."""
    return given["a"], given["b"], read_described(given)[0], given["seconds"]


def outputs_diff_request(given: Given) -> OutputsRequest:
    """Returns the request to compare results with those intended."""
    from qverify.decoders import find_decoder
    from qverify.session.outputs.compare_outputs import OutputsRequest
    from qverify.session.outputs.output_tables import parse_quantization, parse_written, read_output_tables

    tables, decoder = read_output_tables(given["description"]), given["decoder"]
    chosen = find_decoder(decoder or "", tables.decoder) if decoder or tables.decoder else None
    stated, form = parse_written(given["written"] or "", tables.written)
    return OutputsRequest(
        given["reference"],
        given["device"],
        chosen,
        stated,
        form,
        given["side"],
        given["frame"],
        tuple(name for name in (given["outputs"] or "").split(",") if name),
        tables.quantized | parse_quantization(given["output"]),
        given["seconds"],
    )

"""`qverify outputs diff`: compares what the device's application made of the outputs with what it should have made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.json_document import check_document, write_document
from qverify.cli.takes import takes_all
from qverify.cli.view_options import screen

if TYPE_CHECKING:
    from qverify.options.given import Given


@click.command(
    help="Compare REFERENCE, the network's final outputs (.npz, .npy, a capture, a folder of infer), with DEVICE, what the device's "
    "application made of them (boxes as JSON, CSV or text; arrays as .npz, .npy or .bin): equal, or the known mistake, or pair of "
    "mistakes, that reproduces it; else the nearest. Exit status 0 equal, 1 different"
)
@takes_all("outputs_diff")
def diff(given: Given) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.renderers.outputs_difference import is_equal, render, to_document
    from qverify.session.outputs.compare_outputs import compare
    from qverify.session.requests.differences import outputs_diff_request

    path = given["path"]
    check_document(path)
    request = outputs_diff_request(given)
    with progress_bars() as watch:
        parts = compare(request, watch)
    if path:
        write_document(to_document(given["reference"], given["device"], request.decoder, parts), path)
    if path != "-":
        view = screen()
        click.echo("\n".join(view.wrap(line) for line in render(parts)))
    return 0 if is_equal(parts) else 1

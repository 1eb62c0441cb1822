"""Recomputes the nodes of two dumps by the model of -m, for `qverify compare`, and gives tensors the model's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from qverify.compare.judge import Judged
from qverify.compare.options import Options
from qverify.compare.two_dumps import HostUnits, locate
from qverify.compare.verdict import Locate
from qverify.errors import QVerifyError
from qverify.model_bin.units import units
from qverify.printable import describe_error
from qverify.report.document import Blame
from qverify.session.host_sides import HostSides
from qverify.session.models import Models
from qverify.sides.runner_recording import rename_dequantized, rename_loosely
from qverify.tensors.recording import Recording
from qverify.vendor_files.vendor_dump import VendorDump, VendorTensor


def find_locator(models: Models, same_inputs: bool, options: Options, notes: list[str]) -> Locate:
    """Returns the function that recomputes the nodes of two dumps. If a side of this host cannot be opened, the
    function adds the reason to `notes` and leaves it out. same_inputs: whether both dumps are of the same inputs."""

    def run(judged: Judged) -> list[Blame]:
        host = HostSides(models)
        try:
            run_unit = host.run_units(True)
        except QVerifyError as error:
            notes.append(f"nodes were not recomputed: {describe_error(error)}")
            run_unit = {}
        known = HostUnits(models.graph, units(models.graph), run_unit, same_inputs, host.distrusted)
        return locate(judged, known, options)

    return run


def use_names_of_model(side: Recording | VendorDump, models: Models) -> None:
    """Gives the tensors of a dump the names of the model: those whose file name spells one tensor only, and real values
    under the ONNX's name of a dequantized tensor, which are those of the quantized tensor."""
    if isinstance(side, VendorDump):
        side.tensors = _rename(side, models.dequantized)
        return
    rename_loosely(side, models.graph, models.dequantized)
    rename_dequantized(side, models.graph, models.dequantized)


def _rename(dump: VendorDump, dequantized: Mapping[str, str]) -> list[VendorTensor]:
    """Returns the tensors of a vendor's dump. Real values get the name of the quantized tensor if the dump has it in no
    other form."""
    spell = dump.respell or str
    spellings = Counter(map(spell, dequantized))
    stored_by_spelling = {spell(n): s for n, s in dequantized.items() if spellings[spell(n)] == 1}
    stored = {t.name: s for t in dump.tensors if (s := stored_by_spelling.get(t.name)) is not None}
    forms = Counter(stored.values())
    taken = {t.name for t in dump.tensors}
    return [
        replace(t, name=s)
        if (s := stored.get(t.name)) and forms[s] == 1 and not taken & {s, spell(s)} and _is_real(t)
        else t
        for t in dump.tensors
    ]


def _is_real(tensor: VendorTensor) -> bool:
    return all("float" in dtype for dtype in tensor.dtypes)

"""Dumps cut and flipped at random: a profile answers with one QVerifyError or with tensors, never with anything else."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qverify.cli.main import main
from qverify.errors import QVerifyError
from qverify.profiles import page, recognised
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions

SLOW = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def spoil(profile: str, host: str, dump: Path, files: list[Path]) -> None:
    """files: those of the dump to be spoiled, one or more at a time; afterwards they are whole again."""
    whole = {path: path.read_bytes() for path in files}

    @SLOW
    @given(st.data())
    def spoiled(data: st.DataObject) -> None:
        for path, held in whole.items():
            path.write_bytes(_spoiled(data, held))
        try:
            recognised(str(dump))
            read = page(profile).read(UntrustedFolder(str(dump)), ReadingOptions())
            assert all(len(t.read()) == t.size_bytes for t in read.tensors)
        except QVerifyError as error:
            assert "\n" not in str(error)
        errors = io.StringIO()
        with redirect_stderr(errors), redirect_stdout(io.StringIO()):
            status = main(["compare", host, str(dump), "--profile-b", profile])
        assert status in (0, 1, 2, 3) and errors.getvalue().count("\n") <= 1, errors.getvalue()
        assert "internal error" not in errors.getvalue(), errors.getvalue()

    spoiled()
    for path, held in whole.items():
        path.write_bytes(held)


def _spoiled(data: st.DataObject, held: bytes) -> bytes:
    found = bytearray(held)
    if data.draw(st.integers(0, 3)) == 0:
        found = found[: data.draw(st.integers(0, len(found)))]
    for at in data.draw(st.lists(st.integers(0, max(len(held) - 1, 0)), max_size=5)):
        if at < len(found):
            found[at] = data.draw(st.integers(0, 255))
    return bytes(found)

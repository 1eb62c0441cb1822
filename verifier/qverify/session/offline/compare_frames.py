"""Compares dumps of several frames, each frame with that of the same number."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from qverify import profiles
from qverify.capture.reader import is_capture
from qverify.compare.options import Options
from qverify.errors import QVerifyError, UsageError
from qverify.report.document import ReportDocument
from qverify.session.many_frames import KeptReports, frame_row, not_run_row
from qverify.session.offline.compare_dumps import compare_dumps
from qverify.session.offline.dump_pair import DumpPair
from qverify.vendor_files.untrusted_files import UntrustedFolder


def compare_frames(dumps: DumpPair, options: Options) -> ReportDocument:
    """Returns the report of A against B: of every frame, if both are a vendor's folders of several and the user named none. A
    frame that only one of them has, or that cannot be read, is left out, so that the verdict is not PASSED. Raises as
    compare_dumps()."""
    a, b = _frames(dumps.a, dumps.profile_a), _frames(dumps.b, dumps.profile_b)
    numbers = sorted({*a, *b})
    if not dumps.every_frame or not a or not b or len(numbers) < 2:
        return compare_dumps(dumps, options)
    kept, rows = KeptReports(), list[dict[str, Any]]()
    source = f"of {_name(dumps.a)} and {_name(dumps.b)}"
    for number in numbers:
        pair = replace(dumps, reading=replace(dumps.reading, frame=number), is_first_pair=not kept.reports)
        try:
            if lacking := [path for path, frames in ((dumps.a, a), (dumps.b, b)) if number not in frames]:
                raise UsageError(f"{lacking[0]} has no frame {number}")
            report = compare_dumps(pair, replace(options, frame=number))
        except QVerifyError as error:
            if number == numbers[-1] and not kept.reports:
                raise
            rows.append(not_run_row(number, source, error))
            continue
        rows.append(frame_row(number, source, report))
        kept.add(report, rows[-1])
    return kept.combine(rows)


def _frames(path: str, profile: str) -> list[int]:
    """Returns the numbers of the frames in a vendor's folder; [] if its profile does not know several."""
    if not os.path.isdir(path) or (not profile and is_capture(path)):
        return []
    name = profile or profiles.recognised(path)
    find = getattr(profiles.page(name), "frames", None) if name else None
    return [] if find is None else list(find(UntrustedFolder(path)))


def _name(path: str) -> str:
    return os.path.basename(os.path.normpath(path))

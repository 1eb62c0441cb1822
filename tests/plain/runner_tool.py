"""A tool of the tests, as a vendor's would be: it runs a network on prepared inputs, and writes what it is told to. The values
are those of the simulator, from a folder of `qverify infer`; each mode is a way in which tools go wrong."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np


def main() -> int:
    words = argparse.ArgumentParser()
    for name in ("golden", "model", "input", "out", "spoil", "nudge", "mode"):
        words.add_argument(f"--{name}", default="")
    words.add_argument("--only", default="")
    words.add_argument("--text", default="txt")
    given = words.parse_args()
    golden, out = Path(given.golden), Path(given.out)
    assert os.path.getsize(given.model) > 0 and os.path.getsize(given.input) > 0
    names = json.loads((golden / "manifest.json").read_text())["tensors"]
    kept = {f: n for f, n in names.items() if not given.only or n in given.only.split(",")}
    if given.mode == "status":
        print("E cannot open the device")
        return 7
    if given.mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if given.mode == "hang":
        print("waiting for the device", flush=True)
        time.sleep(600)
    if given.mode == "flood":
        while True:
            sys.stdout.write("0123456789abcdef" * 4096)
    for file, name in kept.items():
        if given.mode != "nothing":
            value = np.load(golden / file)
            if name == given.spoil:
                value = value.copy()
                value.reshape(-1)[value.size // 2] += 40 if value.dtype.kind in "iu" else 0.25
            if name == given.nudge:  # another order of additions
                value = np.nextafter(value, value + 1)
            save(out, f"{name.replace('/', '_')}.npy", value, given.mode, golden / file, given.text)
    print("inference took 12.5 ms")
    print("done")
    return 0


def save(out: Path, file: str, value: np.ndarray, mode: str, source: Path, text: str) -> None:  # type: ignore[type-arg]
    np.save(out / file, value)
    if mode == "raw and printed":
        value.tofile(out / file.replace(".npy", ".bin"))
        os.remove(out / file)
    if mode == "twice":  # another array of the same name
        (np.zeros_like(value)).tofile(out / file.replace(".npy", ".bin"))
    elif mode in ("printed", "raw and printed", "logged"):  # a text of the same name, of other values or of the same
        shown = value if mode == "logged" else np.zeros_like(value)
        np.savetxt(out / file.replace(".npy", f".{text}"), shown.reshape(-1).astype(np.float64), fmt="%.6f")
    elif mode == "member":
        np.savez(out / "all.npz", **{file.removesuffix(".npy"): np.zeros_like(value)})
    elif mode == "truncated":
        os.truncate(out / file, (out / file).stat().st_size - 1)
    elif mode == "stale":
        os.utime(out / file, (1_600_000_000, 1_600_000_000))
    elif mode == "link":
        os.unlink(out / file)
        os.symlink(source, out / file)
    elif mode == "hardlink":
        os.unlink(out / file)
        os.link(source, out / file)
    elif mode == "pipe":
        os.unlink(out / file)
        os.mkfifo(out / file)
    elif mode == "nan":
        np.save(out / file, np.full(value.shape, np.nan, "float32"))
    elif mode == "wrong_shape":
        np.save(out / file, value.reshape(-1)[:-1])


if __name__ == "__main__":
    sys.exit(main())

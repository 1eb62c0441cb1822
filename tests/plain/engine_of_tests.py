"""A reference engine of the tests: numpy alone runs a network of a vendor's own operators. Each mode, of the environment
variable ENGINE_MODE, is a way in which engines go wrong."""

import os
import sys
import time
from pathlib import Path

import numpy as np

__version__ = "7.1"


def half(x):
    return np.floor(x / np.float32(2)).astype(np.float32)


def every_tensor(model, feed):
    x = next(iter(feed.values()))
    a = half(x)
    return {"a": a, "b": a + np.float32(1), "y": half(a + np.float32(1))}


def finals(model, feed):
    return {"y": every_tensor(model, feed)["y"]}


def wrong(model, feed):
    mode, given = os.environ["ENGINE_MODE"], every_tensor(model, feed)
    assert os.path.getsize(model) > 0
    if mode == "hang":
        time.sleep(600)
    if mode == "crash":
        os.abort()
    if mode == "exit":
        os._exit(0)
    if mode == "raise":
        raise ValueError("no licence\nfor this chip")
    if mode == "memory":
        return {"y": np.zeros(1 << 46, np.uint8)}
    folder = Path(model).parent
    if mode == "garbage":
        (folder / "names.json").write_text('{"names": ["y"], "engine": "", "version": "", "python": ""}')
        (folder / "result.npz").write_bytes(b"PK\x03\x04 no archive")
        os._exit(0)
    if mode == "many":
        (folder / "names.json").write_text('{"names": ["y", "y"], "engine": "", "version": "", "python": ""}')
        np.savez(folder / "result.npz", **{"0": given["y"], "1": given["y"]})
        os._exit(0)
    others = {
        "none": None,
        "names": {"z": given["y"]},
        "strange": {**given, "z": given["y"]},
        "shape": {"y": given["y"].reshape(-1)},
        "dtype": {"y": given["y"].astype("float64")},
        "object": {"y": np.array([{}], object)},
        "nan": {"y": given["y"] * np.float32("nan")},
        "zero": {"y": given["y"][:0]},
    }
    print("a line of the engine's own", file=sys.stdout)
    return others[mode]

"""A program that runs the board's worker with a LiteRT that alters weights: `{weights}` stands for the file of their bytes."""

from __future__ import annotations

SPOILS = """
import runpy, sys
from pathlib import Path
from ai_edge_litert import interpreter

class Spoiled(interpreter.Interpreter):
    def __init__(self, model_content, **named):
        weights = Path("{weights}").read_bytes()
        assert model_content.count(weights) == 1
        super().__init__(model_content=model_content.replace(weights, bytes(b ^ 0x40 for b in weights)), **named)

interpreter.Interpreter = Spoiled
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

"""Drivers: each runs a network on one engine, in the interpreter that has the engine. Nothing of qverify is imported."""

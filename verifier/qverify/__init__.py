"""qverify: does the board compute what the host says it should?"""

__version__ = "0.1.0"

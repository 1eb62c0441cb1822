"""Database, scheduler and engine together: gives queued jobs to boards and records what came of them."""

from qverify_farm.dispatcher.dispatcher import Dispatcher as Dispatcher

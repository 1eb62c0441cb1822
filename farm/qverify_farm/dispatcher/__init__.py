"""Connects database, scheduler and engine: assigns queued jobs to boards and records their results."""

from qverify_farm.dispatcher.dispatcher import Dispatcher as Dispatcher

"""Suites of jobs over many boards, and the service in front of them. farm/README.md is the contract between the rooms."""

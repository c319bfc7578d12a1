"""The `mgpp` command: parse, call, print."""

from mgpp.cli.app import main

__all__ = ["main"]

"""The command ``lakestep``, for scripts and people on call."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from lakestep import _build, _errors


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 after printing an error of Lakestep to stderr."""
    parser = argparse.ArgumentParser(prog="lakestep", description="Lakestep on this machine.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("jar", help="print the path of the JAR, for spark-submit --jars")
    commands.add_parser("version", help="print the version, and the Spark and Delta it supports")
    command = parser.parse_args(arguments).command
    try:
        print(_build.jar_path() if command == "jar" else _version_text())
    except _errors.LakestepError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _version_text() -> str:
    jar = _build.jar_properties()
    if jar["version"] != _build.version():
        raise _errors.error("LAKESTEP_VERSION_MISMATCH", jar=jar["version"], wheel=_build.version())
    return f"lakestep {jar['version']} (Spark {jar['spark']}, Delta {jar['delta']})"

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
    jar = commands.add_parser(
        "jar",
        help="print the path of the JAR, for spark-submit --jars; with --spark 4.1 for that Spark",
    )
    jar.add_argument(
        "--spark",
        metavar="VERSION",
        help="the Spark of the cluster, 4.1 for example; default: that of the installed PySpark",
    )
    commands.add_parser("version", help="print the version, and the Spark and Delta of each JAR")
    given = parser.parse_args(arguments)
    try:
        print(_build.jar_path(given.spark) if given.command == "jar" else _version_text())
    except _errors.LakestepError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _version_text() -> str:
    of_this_pyspark = _build.jar_path()
    others = [path for path in _build.jars().values() if path != of_this_pyspark]
    lines = [f"lakestep {_build.version()}"]
    for path in [of_this_pyspark, *others]:
        jar = _build.jar_properties(path)
        if jar["version"] != _build.version():
            raise _errors.error(
                "LAKESTEP_VERSION_MISMATCH", jar=jar["version"], wheel=_build.version()
            )
        used = ", used with the PySpark that is installed" if path == of_this_pyspark else ""
        lines.append(f"  Spark {jar['spark']}, Delta {jar['delta']}{used}")
    return "\n".join(lines)

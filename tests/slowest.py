"""Prints the ten slowest tests of a run, Scala and Python together: slowest.py REPORT_FOLDER."""

import sys
from pathlib import Path
from xml.etree import ElementTree


def main(folder: str) -> None:
    tests = [
        (float(case.get("time", "0").replace(",", "")), case.get("classname"), case.get("name"))
        for report in sorted(Path(folder).glob("*.xml"))
        for case in ElementTree.parse(report).iter("testcase")
    ]
    total = sum(seconds for seconds, _, _ in tests)
    print(f"The slowest ten of {len(tests)} tests ({total:.0f} s in all):")
    for seconds, suite, name in sorted(tests, reverse=True)[:10]:
        print(f"{seconds:8.1f} s  {suite}: {name}")


if __name__ == "__main__":
    main(sys.argv[1])

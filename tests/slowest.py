"""Prints the ten slowest tests of a run, Scala and Python together: slowest.py REPORTS [--keep].

With ``--keep`` the seconds of each file of pytest are kept in durations.json, by which two workers
share the files: the longest first.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

DURATIONS = Path(__file__).with_name("durations.json")


def main(folder: str, *options: str) -> None:
    tests = [
        (float(case.get("time", "0").replace(",", "")), case.get("classname"), case.get("name"))
        for report in sorted(Path(folder).glob("*.xml"))
        for case in ElementTree.parse(report).iter("testcase")
    ]
    total = sum(seconds for seconds, _, _ in tests)
    print(f"The slowest ten of {len(tests)} tests ({total:.0f} s in all):")
    for seconds, suite, name in sorted(tests, reverse=True)[:10]:
        print(f"{seconds:8.1f} s  {suite}: {name}")
    if "--keep" in options:
        files: Counter[str] = Counter()
        for seconds, suite, _ in tests:
            if suite and suite.startswith("tests."):
                files[f"{suite.split('.')[-1]}.py"] += round(seconds)
        DURATIONS.write_text(json.dumps(dict(files.most_common()), indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

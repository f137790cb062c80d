"""Puts what lives outside this folder into the wheel: JARs, the versions, the error texts.

``LAKESTEP_LINES`` names the lines of Spark whose JARs go in; without it all do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Fails the build rather than make a wheel without a JAR."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files; `version` is hatchling's build kind, not ours."""
        top = Path(self.root).parent
        facts = top / "versions.properties"
        v = dict(line.split("=", 1) for line in facts.read_text().splitlines() if "=" in line)
        jars = []
        for line in os.environ.get("LAKESTEP_LINES", v["lines"]).split():
            name = f"lakestep-spark_{line}_{v['scala']}-{self.metadata.version}.jar"
            jars.append(top / "target" / line / f"scala-{v['scala']}" / name)
            if not jars[-1].is_file():
                raise FileNotFoundError(f"{jars[-1]} is missing: call `make wheel` at the top")
        conditions = top / "scala/src/main/resources/lakestep-error-conditions.json"
        build_data["force_include"] = {
            **{str(jar): f"lakestep/jars/{jar.name}" for jar in jars},
            str(top / "LICENSE"): "lakestep/LICENSE",
            str(top / "VERSION"): "lakestep/VERSION",
            str(facts): f"lakestep/{facts.name}",
            str(conditions): f"lakestep/{conditions.name}",
        }

"""Puts what lives outside this folder into the wheel: the JAR, the versions, the error texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Fails the build rather than make a wheel without its JAR."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files; `version` is hatchling's build kind, not ours."""
        top = Path(self.root).parent
        facts = top / "versions.properties"
        v = dict(line.split("=", 1) for line in facts.read_text().splitlines() if "=" in line)
        name = f"lakestep-spark_{v['sparkLine']}_{v['scala']}-{self.metadata.version}.jar"
        jar = top / "target" / f"scala-{v['scala']}" / name
        if not jar.is_file():
            raise FileNotFoundError(f"{jar} is missing: call `make wheel` at the top")
        conditions = top / "scala/src/main/resources/lakestep-error-conditions.json"
        build_data["force_include"] = {
            str(jar): f"lakestep/jars/{jar.name}",
            str(top / "LICENSE"): "lakestep/LICENSE",
            str(top / "VERSION"): "lakestep/VERSION",
            str(facts): f"lakestep/{facts.name}",
            str(conditions): f"lakestep/{conditions.name}",
        }

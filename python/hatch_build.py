"""Puts what lives outside this folder into the wheel: the JAR, the version, the error texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Fails the build rather than make a wheel without its JAR."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the three files; `version` is hatchling's build kind, not ours."""
        top = Path(self.root).parent
        jar = top / "target" / "scala-2.13" / f"lakestep-spark_4.2_2.13-{self.metadata.version}.jar"
        if not jar.is_file():
            raise FileNotFoundError(f"{jar} is missing: call `make wheel` at the top")
        conditions = top / "scala/src/main/resources/lakestep-error-conditions.json"
        build_data["force_include"] = {
            str(jar): f"lakestep/jars/{jar.name}",
            str(top / "VERSION"): "lakestep/VERSION",
            str(conditions): f"lakestep/{conditions.name}",
        }

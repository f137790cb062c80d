"""A Spark driver in a process of its own, seen from the process that orders it about."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

CLIENT = Path(__file__).with_name("client.py")
sys.path.append(str(CLIENT.parents[1] / "tests" / "support"))

from built import BUILT as BUILT  # noqa: E402
from built import TEST_JAR as TEST_JAR  # noqa: E402
from process import CallFailed, Halts, Process  # noqa: E402


class Driver(Process):
    """A driver, which does one call after another. Its own messages go to a log file."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        root: Path | str | None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Start a driver with Lakestep's timeline in `root`, or one without Lakestep."""
        self._folder = folder
        log = folder / f"{name}.log"
        orders = {
            "root": None if root is None else str(root),
            "settings": {
                "spark.app.name": name,
                "spark.sql.warehouse.dir": f"file:{folder}/warehouse",
                **(settings or {}),
            },
        }
        super().__init__(
            CLIENT,
            json.dumps(orders),
            log=log,
            error=lambda text: CallFailed(f"{name}: {text}; see {log}"),
            folder=folder,
        )

    def start(self, method: str, **arguments: object) -> Future[Any]:
        """Begin a call; return the future of its value."""
        return self.send(method, arguments)

    def call(self, method: str, **arguments: object) -> Any:  # noqa: ANN401
        """Do a call and return its value."""
        return self.start(method, **arguments).result()

    def halts(self, *steps: str) -> Halts:
        """Halt at these steps, ``step:k``, of its next commits."""
        return Halts(
            lambda at, folder: self.call("halt_at", steps=at, folder=folder), self._folder, steps
        )

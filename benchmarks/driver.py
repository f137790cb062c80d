"""A Spark driver in a process of its own, seen from the process that orders it about."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

CLIENT = Path(__file__).with_name("client.py")


class DriverFailed(Exception):
    """A driver raised an error or ended; its log says why."""


class Driver:
    """A driver does one call after another, while its parent does something else.

    Between two calls it waits for the next one. Its own messages go to a log file.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        root: Path | str | None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Start a driver with Lakestep's timeline in `root`, or one without Lakestep."""
        self.name = name
        self.log = folder / f"{name}.log"
        orders = {
            "root": None if root is None else str(root),
            "settings": {
                "spark.app.name": name,
                "spark.sql.warehouse.dir": f"file:{folder}/warehouse",
                **(settings or {}),
            },
        }
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(CLIENT), json.dumps(orders)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                text=True,
                start_new_session=True,
            )

    def start(self, method: str, **arguments: object) -> None:
        """Begin a call; `answer` ends it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([method, arguments]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:  # noqa: ANN401
        """Wait for the end of the call and return its value."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DriverFailed(f"{self.name} ended; see {self.log}")
        value, error = json.loads(line)
        if error is not None:
            raise DriverFailed(f"{self.name}: {error}; see {self.log}")
        return value

    def call(self, method: str, **arguments: object) -> Any:  # noqa: ANN401
        """Do a call and return its value."""
        self.start(method, **arguments)
        return self.answer()

    def wait_for_halt(self, pipe: Path) -> str:
        """Wait until the driver, in the middle of a call, writes a line into a named pipe."""
        assert self._process.stdout is not None
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(reader, selectors.EVENT_READ)
                selector.register(self._process.stdout, selectors.EVENT_READ)
                ready = [key.fileobj for key, _ in selector.select()]
            if reader in ready:
                return os.read(reader, 1000).decode().strip()
        finally:
            os.close(reader)
        raise DriverFailed(f"{self.name} did not halt but answered {self.answer()!r}")

    def kill(self) -> None:
        """Send SIGKILL to the driver, its JVM included, and wait until it is dead."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the driver; it finishes what it is doing."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is not None:
            return
        if error is None:
            self.close()
        else:
            self.kill()

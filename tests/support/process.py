"""Programs in processes of their own, which can be stopped and killed: `Program`.

A `Process` is a Python program that takes calls over a pipe, from `calls`. A call and its answer
are a line of JSON each, with the call's number; several calls may be under way.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

Self = TypeVar("Self", bound="Program")
Answer = Callable[[Any, Any], None]


class Died(Exception):
    """The process ended before it answered."""


class CallFailed(Exception):
    """What the program said of a call that failed."""


class Program:
    """A running program and its children, a JVM for one. A context manager, which kills them."""

    def __init__(
        self,
        *command: str,
        log: Path,
        pipes: bool = True,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start the program, its messages in `log`; without `pipes` also what it prints."""
        self.log = log
        with log.open("w") as messages:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if pipes else None,
                stdout=subprocess.PIPE if pipes else messages,
                stderr=messages,
                cwd=folder,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                text=True,
            )

    def lines(self) -> Iterator[str]:
        """What the program prints, until it ends."""
        assert self._process.stdout is not None
        return iter(self._process.stdout)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL to all of them; returns when the program is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def interrupt(self) -> None:
        """SIGINT to the program alone, as no terminal is between."""
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        """Let the program print what it likes to, until it ends; return its exit code."""
        for _ in self.lines():
            pass
        return self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP to all of them."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()


class Process(Program):
    """A Python program that takes calls. A context manager, which ends it."""

    def __init__(
        self,
        program: Path | str,
        *arguments: str,
        log: Path,
        error: Callable[[Any], Exception] = CallFailed,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start the program, with its messages in `log`; `error` makes exceptions of failures."""
        command = (sys.executable, str(program), *arguments)
        super().__init__(*command, log=log, environment=environment, folder=folder)
        self._error = error
        self._numbers = count()
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Any]] = {}
        threading.Thread(target=self._receive, daemon=True).start()

    def send(self, *call: object) -> Future[Any]:
        """Begin a call; return the future of its answer."""
        future: Future[Any] = Future()
        assert self._process.stdin is not None
        with self._lock:
            number = next(self._numbers)
            self._pending[number] = future
            try:
                self._process.stdin.write(json.dumps([number, *call]) + "\n")
                self._process.stdin.flush()
            except OSError as error:
                del self._pending[number]
                future.set_exception(Died(f"{error}; see {self.log}"))
        return future

    def _receive(self) -> None:
        try:
            for line in self.lines():
                number, value, error = json.loads(line)
                future = self._pending.pop(number)
                if error is None:
                    future.set_result(value)
                else:
                    future.set_exception(self._error(error))
        finally:
            with self._lock:
                pending, self._pending = self._pending, {}
            for future in pending.values():
                future.set_exception(Died(f"see {self.log}"))

    def close(self) -> None:
        """Let the program finish what it is doing, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def __exit__(self, *raised: object) -> None:
        if self.is_alive:
            if any(raised):
                self.kill()
            else:
                self.close()


def calls() -> Iterator[tuple[list[Any], Answer]]:
    """The calls that a program gets, each with the function that answers it, from any thread.

    What the program and its children print from now on goes to its log.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lock = threading.Lock()

    def answer(number: int, value: object, error: object) -> None:
        with lock:
            print(json.dumps([number, value, error], default=str), file=answers, flush=True)

    lines = (json.loads(line) for line in sys.stdin)
    return ((call, functools.partial(answer, number)) for number, *call in lines)


class Halts:
    """The two named pipes of `io.lakestep.testing.HaltingObserver`. A context manager.

    `order` tells the program at which steps, ``step:k``, to halt, in place of all earlier orders,
    and the folder of the pipes.
    """

    def __init__(
        self, order: Callable[[str, str], object], folder: Path | str, steps: tuple[str, ...]
    ) -> None:
        self._order = order
        self._folder = tempfile.mkdtemp(prefix="halts-", dir=folder)
        self._events: queue.Queue[str | None] = queue.Queue()
        # Open for both directions: neither end waits for the other to open.
        self._at, self._go = (self._pipe(name) for name in ("at", "go"))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        order(",".join(steps), self._folder)

    def _pipe(self, name: str) -> int:
        path = Path(self._folder, name)
        os.mkfifo(path)
        return os.open(path, os.O_RDWR)

    def _read(self) -> None:
        with os.fdopen(self._at, closefd=False) as lines:
            for line in lines:
                if line == "\n":
                    return
                self._events.put(line.strip())

    def during(self, future: Future[Any]) -> Future[Any]:
        """Also end `reached` when this call has ended; return the future."""
        future.add_done_callback(lambda _: self._events.put(None))
        return future

    def reached(self, timeout_s: float = 600) -> str | None:
        """Wait for the program to halt; return where, or None when the watched call has ended."""
        return self._events.get(timeout=timeout_s)

    def go(self) -> None:
        os.write(self._go, b"\n")

    def __enter__(self) -> Halts:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Died):
            self._order("", "")
        os.write(self._at, b"\n")
        self._reader.join()
        os.close(self._at)
        os.close(self._go)

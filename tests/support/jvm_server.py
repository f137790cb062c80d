"""A server in a JVM of its own, from PySpark's own JARs, on a port of this machine."""

import os
import socket
from pathlib import Path

import pyspark

from process import Program

PACKAGES = (
    *("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent"),
    "util.concurrent.atomic",
)
JARS = Path(pyspark.__file__).parent / "jars"


class JvmServer:
    """Can be killed and started again, on the same port. A context manager."""

    def __init__(self, folder):
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._running = None

    def command(self):
        """The options, the class and the arguments of the JVM."""
        raise NotImplementedError

    def start(self):
        home = os.environ.get("JAVA_HOME")
        server = Program(
            f"{home}/bin/java" if home else "java",
            *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in PACKAGES),
            "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
            "-XX:TieredStopAtLevel=1",
            *self.command(),
            log=self._folder / f"{type(self).__name__}.log",
            pipes=False,
            folder=self._folder,
        )
        self._running = server
        while True:
            assert server.is_alive, server.log.read_text()
            try:
                socket.create_connection(("127.0.0.1", self._port)).close()
                return
            except ConnectionRefusedError:
                pass

    def kill(self):
        if self._running:
            self._running.kill()
            self._running = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

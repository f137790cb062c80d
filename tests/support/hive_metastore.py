"""A Hive metastore server over thrift, from PySpark's own JARs, on a Derby database in a folder."""

import os
import socket
from pathlib import Path

import pyspark

from process import Program

# Hive writes its log asynchronously by a library that Spark leaves out.
OPTIONS = {
    "hive.async.log.enabled": "false",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
}

PACKAGES = ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent")


class MetastoreServer:
    """Can be killed and started again, on the same port. A context manager."""

    def __init__(self, folder):
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._running = None

    @property
    def settings(self):
        """Of a Spark that has this metastore; it soon gives up one that is away."""
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{self._port}",
            "spark.hadoop.hive.metastore.connect.retries": "1",
            "spark.hadoop.hive.metastore.failure.retries": "1",
            "spark.hadoop.hive.metastore.client.connect.retry.delay": "0",
        }

    def start(self):
        options = OPTIONS | {
            "javax.jdo.option.ConnectionURL": (
                f"jdbc:derby:;databaseName={self._folder}/metastore;create=true"
            ),
            "hive.metastore.warehouse.dir": f"file:{self._folder}/warehouse",
            "derby.stream.error.file": f"{self._folder}/derby.log",
        }
        home = os.environ.get("JAVA_HOME")
        server = Program(
            f"{home}/bin/java" if home else "java",
            *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in PACKAGES),
            *(f"-D{key}={value}" for key, value in options.items()),
            *("-Xmx512m", "-XX:TieredStopAtLevel=1"),
            *("-cp", str(Path(pyspark.__file__).parent / "jars" / "*")),
            *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self._port)),
            log=self._folder / "metastore.log",
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

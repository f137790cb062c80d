"""S3 on this machine: moto's server, and drivers and delta-rs that reach it."""

import io
import os
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

import boto3
import pyspark
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

import lakestep
from built import BUILT, TEST_JAR
from fast_start import OPTIONS
from lake import append, rows_of

JARS = BUILT / "s3-jars"
# On Spark 4.0 that of its own Hadoop, which is too old.
OLD_JARS = BUILT / "old-s3-jars"
BUCKET = "lake"


class Bucket:
    """A bucket of some S3 server: how drivers and delta-rs reach it, and its tables."""

    def __init__(self, url, access="key", secret="secret"):
        self.url = url
        self._access = access
        self._secret = secret

    @property
    def driver_settings(self):
        # A newer Hadoop than Spark's own has to come before it.
        if any(JARS.glob("hadoop-client-api-*.jar")):
            classpath = {"spark.driver.extraClassPath": f"{JARS}/*", "spark.jars": str(TEST_JAR)}
        else:
            classpath = _jars(JARS.glob("*.jar"))
        return classpath | self._s3a_settings

    @property
    def settings_of_old_s3a(self):
        """Those of a driver with the s3a of Spark's own Hadoop."""
        others = (jar for jar in JARS.glob("*.jar") if not jar.name.startswith("hadoop-"))
        return _jars([*OLD_JARS.glob("*.jar"), *others]) | self._s3a_settings

    @property
    def _s3a_settings(self):
        s3a = {
            "endpoint": self.url,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "access.key": self._access,
            "secret.key": self._secret,
        }
        return {
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            **{f"spark.hadoop.fs.s3a.{key}": value for key, value in s3a.items()},
        }

    @property
    def hadoop_settings(self):
        """Those of s3a, for programs without Spark."""
        return [
            f"{key.removeprefix('spark.hadoop.')}={value}"
            for key, value in self.driver_settings.items()
            if key.startswith("spark.hadoop.")
        ]

    def halted(self, name, every):
        """How often a client was halted in a commit, and in a rollback, without Spark."""
        spark = f"{Path(pyspark.__file__).parent}/jars/*"
        jars = [str(TEST_JAR), f"{JARS}/*", lakestep.jar_path(), spark]
        program = ["io.lakestep.testing.HaltedRequests", f"s3a://{BUCKET}/{name}", str(every)]
        done = subprocess.run(
            [
                "java",
                *OPTIONS.split(),
                "-cp",
                os.pathsep.join(jars),
                *program,
                *self.hadoop_settings,
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        [numbers] = [line.split()[1:] for line in done.stdout.splitlines() if "HALTED" in line]
        return map(int, numbers)

    @property
    def storage_options(self):
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self._access,
            "AWS_SECRET_ACCESS_KEY": self._secret,
            "aws_conditional_put": "etag",
        }

    # The tables, as delta-rs sees them.

    def table(self, name, rows=((1, "old"), (2, "old"))):
        """Make a table of columns id and v, every row in a file of its own; return its path."""
        for row in rows:
            self.append(f"s3a://{BUCKET}/{name}", row)
        return f"s3a://{BUCKET}/{name}"

    def append(self, path, row):
        append(rs(path), row, storage_options=self.storage_options)

    @property
    def _client(self):
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self._access,
            aws_secret_access_key=self._secret,
        )

    def put(self, key, body):
        self._client.put_object(Bucket=BUCKET, Key=key, Body=body)

    def remove(self, path):
        """Delete the folder of a table, as DROP of a managed table does."""
        client = self._client
        prefix = path.removeprefix(f"s3a://{BUCKET}/") + "/"
        found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
        keys = [{"Key": each["Key"]} for each in found]
        client.delete_objects(Bucket=BUCKET, Delete={"Objects": keys})

    def rows(self, path):
        return rows_of(rs(path), storage_options=self.storage_options)


class Request(NamedTuple):
    """A request, with the seconds of the monotonic clock in which the server had it."""

    began_s: float
    ended_s: float
    method: str
    key: str


def depth(requests: list[Request]) -> int:
    """How many requests can have waited for one another: the longest chain without overlap."""
    length, ended_s = 0, 0.0
    for request in sorted(requests, key=lambda request: request.ended_s):
        if request.began_s >= ended_s:
            length, ended_s = length + 1, request.ended_s
    return length


class S3(Bucket):
    """A server with one bucket in memory, which all servers of a process share. A context manager.

    Each answer takes `latency_ms` at least, of many requests at once too. With `ignores_conditions`
    it is one of the stores that accept If-None-Match and replace all the same. `requests` are those
    that it had; `starts` are the keys after which clients wanted listings to begin.
    """

    def __init__(self, ignores_conditions: bool = False, latency_ms: float = 0) -> None:
        self.requests: list[Request] = []
        self.starts: list[str] = []
        self._latency_s = latency_ms / 1000
        # moto lists what another request of it deletes meanwhile, and fails.
        self._turn = threading.Lock()
        self._lost: re.Pattern[str] | None = None
        self._late: list[Callable[[], object]] = []
        app = self._noted(DomainDispatcherApplication(create_backend_app))
        self._server = make_server(
            "127.0.0.1",
            0,
            without_conditions(app) if ignores_conditions else app,
            threaded=True,
            request_handler=Silent,
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        super().__init__(f"http://127.0.0.1:{self._server.server_port}")

    def _noted(self, app):
        def answer(environ, start_response):
            began_s = time.monotonic()
            self.starts.extend(parse_qs(environ.get("QUERY_STRING", "")).get("start-after", []))
            method, key = environ["REQUEST_METHOD"], environ["PATH_INFO"]
            if method == "PUT" and self._lost is not None and self._lost.search(key):
                return self._lose(app, environ, start_response)
            lists = method == "GET" and key.strip("/") == BUCKET
            # To moto a condition and the put are two things.
            is_alone = lists or method in ("DELETE", "POST") or "HTTP_IF_NONE_MATCH" in environ
            with self._turn if is_alone else nullcontext():
                body = list(app(environ, start_response))
            time.sleep(max(0.0, began_s + self._latency_s - time.monotonic()))
            self.requests.append(Request(began_s, time.monotonic(), method, key))
            return body

        return answer

    @contextmanager
    def losing(self, pattern):
        """Answers every put of such a key by a failure. The first one lands at the end."""
        self._lost = re.compile(pattern)
        try:
            yield
        finally:
            self._lost = None
        self._late[0]()
        self._late.clear()

    def _lose(self, app, environ, start_response):
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))

        def land():
            answers = []
            list(app(environ | {"wsgi.input": io.BytesIO(body)}, lambda *a: answers.append(a[0])))
            assert answers[0].startswith("200"), answers

        self._late.append(land)
        start_response("500 Internal Server Error", [("Content-Length", "0")])
        return [b""]

    def __enter__(self):
        self._thread.start()
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{BUCKET}", method="PUT"))
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


class Silent(WSGIRequestHandler):
    """Prints no line for each request."""

    def log_request(self, *_):
        """Print nothing."""


def _jars(jars):
    return {"spark.jars": ",".join(map(str, [TEST_JAR, *sorted(jars)]))}


def rs(path):
    """The path as delta-rs spells it."""
    return path.replace("s3a://", "s3://")


def without_conditions(app):
    def forget(environ, start_response):
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return app(environ, start_response)

    return forget


# Runs in drivers.


def race(spark, path, threads):
    """Put one file from several threads at once, each other bytes; return what each was told."""
    import uuid
    from concurrent.futures import ThreadPoolExecutor

    jvm = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    store = jvm.io.lakestep.storage.S3Store(conf)
    store.exists(path)
    start = threading.Barrier(threads)

    def put(_):
        start.wait()
        return store.putIfAbsent(path, uuid.uuid4().bytes * 10).toString()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(put, range(threads)))


def ask(spark, method, arguments):
    """Ask the store for something; return what it said as text."""
    store = spark._jvm.io.lakestep.storage.S3Store(
        spark._jsparkSession.sessionState().newHadoopConf()
    )
    return str(getattr(store, method)(*arguments))


def listings(spark, folder, names, starts):
    """Put files of these names, and return the names listed from each start on."""
    jvm = spark._jvm
    store = jvm.io.lakestep.storage.S3Store(spark._jsparkSession.sessionState().newHadoopConf())
    for name in names:
        store.putIfAbsent(f"{folder}/{name}", b"content")
    found = [store.list(folder, start) for start in starts]
    return [[files.apply(i).name() for i in range(files.size())] for files in found]


def commit(spark):
    return [row.asDict() for row in spark.sql("COMMIT").collect()]


def count_up(spark, tables, times):
    """Transactions that add one to n in every table, again after each conflict."""
    import lakestep

    def both(txn):
        for path in tables:
            spark.sql(f"UPDATE delta.`{path}` SET id = id + 1").collect()

    for _ in range(times):
        lakestep.run(spark, both, attempts=50)

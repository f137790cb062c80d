"""HDFS on this machine: a name node and a data node in a JVM, and how tests look into it."""

from pathlib import Path

import pyspark

from built import BUILT, TEST_JAR
from fast_start import OPTIONS
from lake import append, rows_of
from process import Program

JARS = BUILT / "hdfs-jars"


class Hdfs(Program):
    """A cluster with one data node. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        spark = Path(pyspark.__file__).parent / "jars"
        super().__init__(
            *("java", "-Xmx512m", *OPTIONS.split(), "-cp", f"{TEST_JAR}:{JARS}/*:{spark}/*"),
            *("io.lakestep.testing.MiniHdfs", str(folder / "cluster")),
            log=folder / "hdfs.log",
        )

    def __enter__(self):
        said = (line.split() for line in self.lines())
        self.uri = next((line[1].rstrip("/") for line in said if line[:1] == ["HDFS"]), None)
        assert self.uri, self.log.read_text()
        return self

    # The tables, as delta-rs sees them; it reads copies, as it has no client for HDFS.

    def table(self, session, name, rows=((1, "old"), (2, "old"))):
        """Make a table of columns id and v, every row in a file of its own; return its path."""
        # A name that is allowed on HDFS alone is not known to delta-rs.
        local = self._folder / "up" / str(len(list(self._folder.glob("up/*"))))
        path = f"{self.uri}/{name}"
        for row in rows:
            append(str(local), row)
        session.call("hdfs:upload", source=str(local), target=path)
        return path

    def rows(self, session, path):
        local = self._folder / "down" / str(len(list(self._folder.glob("down/*"))))
        session.call("hdfs:download", source=path, target=str(local))
        return rows_of(str(local))


# Runs in drivers.


def _path(spark, path):
    made = spark._jvm.org.apache.hadoop.fs.Path(path)
    return made.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()), made


def upload(spark, source, target):
    fs, path = _path(spark, target)
    fs.mkdirs(path.getParent())
    fs.copyFromLocalFile(_path(spark, source)[1], path)


def download(spark, source, target):
    fs, path = _path(spark, source)
    fs.copyToLocalFile(False, path, _path(spark, target)[1], True)


def allow(spark, path, mode):
    """Give everything at and below a path this mode, in octal digits."""
    fs, top = _path(spark, path)
    permission = spark._jvm.org.apache.hadoop.fs.permission.FsPermission(mode)
    for status in fs.listStatus(top):
        if status.isDirectory():
            allow(spark, status.getPath().toString(), mode)
        else:
            fs.setPermission(status.getPath(), permission)
    fs.setPermission(top, permission)


def history(spark, path):
    from delta.tables import DeltaTable

    return DeltaTable.forPath(spark, path).history().count()

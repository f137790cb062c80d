"""Spark's Thrift server with Lakestep, and its `spark-sql`, as somebody starts them by hand."""

from built import BUILT
from jvm_server import JARS, JvmServer
from lakestep import _build

DELTA_JARS = BUILT / "delta-jars"


def settings(folder):
    return {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.extensions": "io.lakestep.LakestepExtensions",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.lakestep.root": f"{folder}/timeline",
        "spark.sql.hive.thriftServer.singleSession": "false",
    }


def submit(folder, name, *arguments):
    """The options, the class and the arguments of a JVM that is as if by spark-submit."""
    return (
        *("-cp", f"{JARS}/*:{_build.jar_path()}:{DELTA_JARS}/*"),
        *("org.apache.spark.deploy.SparkSubmit", "--class", name),
        *(f"--conf={key}={value}" for key, value in settings(folder).items()),
        *("spark-internal", *arguments),
    )


class ThriftServer(JvmServer):
    def command(self):
        return submit(
            self._folder,
            "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
            *("--hiveconf", f"hive.server2.thrift.port={self._port}"),
            *("--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"),
        )

    def url(self, **settings):
        """Of a connection that has these settings."""
        given = ";".join(f"{key}={value}" for key, value in settings.items())
        return f"jdbc:hive2://127.0.0.1:{self._port}/default" + (f"?{given}" if given else "")

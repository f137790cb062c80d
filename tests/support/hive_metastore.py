"""A Hive metastore server over thrift, on a Derby database in a folder."""

from jvm_server import JARS, JvmServer

# Hive writes its log asynchronously by a library that Spark leaves out.
OPTIONS = {
    "hive.async.log.enabled": "false",
    "datanucleus.schema.autoCreateAll": "true",
    # The default is a library that Spark leaves out, too; DROP SCHEMA asks for it.
    "datanucleus.connectionPoolingType": "HikariCP",
    "hive.metastore.schema.verification": "false",
}


class MetastoreServer(JvmServer):
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

    def command(self):
        options = OPTIONS | {
            "javax.jdo.option.ConnectionURL": (
                f"jdbc:derby:;databaseName={self._folder}/metastore;create=true"
            ),
            "hive.metastore.warehouse.dir": f"file:{self._folder}/warehouse",
            "derby.stream.error.file": f"{self._folder}/derby.log",
        }
        return (
            *(f"-D{key}={value}" for key, value in options.items()),
            *("-Xmx512m", "-cp", f"{JARS}/*"),
            *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self._port)),
        )

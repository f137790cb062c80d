package io.lakestep.catalog

import org.apache.spark.sql.delta.catalog.DeltaCatalog

/** CREATE TABLE LIKE before Spark 4.2 is a command of Delta's. */
trait CreateTableLikeCall extends DeltaCatalog

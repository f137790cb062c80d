package io.lakestep.transaction

import org.apache.hadoop.fs.Path

import io.lakestep.log.TableRef

/** How a table is called by its place. */
object BasePath {

  /** As stores, timeline entries and bindings write a path: an escaped URI. */
  def ref(path: Path): TableRef = TableRef(path.toUri.toString)
}

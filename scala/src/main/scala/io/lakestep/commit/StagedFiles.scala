package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.log.{MadeFiles, TableRef}

/** Staged commits of a transaction and the data files that they have made, as `Database` offers them. */
private[commit] final class StagedFiles(env: Environment) {
  import env.stores

  def drop(txn: BegunTransaction, table: TableRef, versions: Seq[Long]): Unit =
    if (versions.nonEmpty) {
      val store = stores.forPath(table.uri)
      versions.foreach(version => store.delete(table.stagedSlot(txn.id, version)))
      val folder = table.staging(txn.id)
      store.list(folder, "commit-").map(_.name).filter(_.startsWith("commit-"))
        .foreach(name => store.delete(s"$folder/$name"))
    }

  def madeBy(txn: BegunTransaction, table: TableRef, versions: Seq[Long]): Vector[String] =
    try
      env.inParallel(versions.toVector)(env.log(table).readStaged(txn.id, _)).flatten
        .flatMap(MadeFiles.of(table, _))
    catch { case NonFatal(_) => Vector.empty }

  /** The data files of one staged version, as far as the store permits. */
  def deleteMadeBy(txn: BegunTransaction, table: TableRef, version: Long): Unit =
    madeBy(txn, table, Seq(version)).foreach { file =>
      try delete(file)
      catch { case NonFatal(_) => () }
    }

  /** A data file; on a local disk with the checksum that Hadoop writes beside it. */
  def delete(file: String): Unit = {
    stores.forPath(file).delete(file)
    if (file.startsWith("file:")) {
      val (folder, name) = file.splitAt(file.lastIndexOf('/') + 1)
      stores.forPath(file).delete(s"$folder.$name.crc")
    }
  }
}

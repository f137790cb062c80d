package io.lakestep.transaction

import java.io.IOException
import java.nio.file.{Files, Paths}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import io.lakestep.overlay.StagingFolder
import io.lakestep.storage.{HadoopStores, TemporaryFiles}

/**
 * What is left of tables that a transaction would have made. No VACUUM would find it, and somebody else may
 * be making a table there, so only files go that statements have named, and folders that are empty then.
 */
private[transaction] final class UnmadeTables(
    transaction: Transaction,
    tables: Vector[TransactionTable],
    conf: => Configuration) {

  /** Hadoop's is copied for it, so only where there is something to do, and before the session may end. */
  private val configuration = Option.when(tables.nonEmpty)(conf)

  /** Of each table, to be asked before the staged commits are gone. */
  val files: Vector[String] = {
    val staged = transaction.lastStaged
    tables.flatMap { table =>
      staged.get(table.base.toString).toVector.flatMap { last =>
        transaction.database.madeBy(transaction.begun, table.ref, 0L to last)
      }
    }
  }

  def isEmpty: Boolean = tables.isEmpty

  /** To be called when the files are gone. */
  def removeFolders(also: Vector[String]): Unit =
    for (hadoop <- configuration; table <- tables) removeFolders(table, also, hadoop)

  /** Which COMMIT has put before it met a conflict; nobody else has staged anything, or made the table. */
  private def removeBinding(fs: FileSystem, table: TransactionTable, own: Path, log: Path): Unit = {
    val binding = new Path(new java.net.URI(table.ref.binding))
    def names(folder: Path) = fs.listStatus(folder).map(_.getPath.getName).toSet
    try
      if (fs.exists(binding) &&
        (names(own) -- Set(binding.getName, TemporaryFiles.Folder)).forall(_.startsWith(".")) &&
        names(log) == Set(own.getName)) {
        fs.delete(binding, false)
        ()
      }
    catch { case _: IOException => () }
  }

  private def removeFolders(
      table: TransactionTable,
      also: Vector[String],
      hadoop: Configuration): Unit = {
    val fs = table.base.getFileSystem(hadoop)
    if (HadoopStores.hasFolders(fs)) {
      val log = new Path(table.base, TemporaryFiles.LogFolder)
      val staging = StagingFolder.commit(table.base, transaction.id, 0).getParent
      transaction.database.dropStaging(transaction.begun, table.ref)
      val ofFiles = (files ++ also).filter(_.startsWith(s"${table.ref.uri}/")).flatMap { file =>
        Iterator.iterate(new Path(new java.net.URI(file)).getParent)(_.getParent)
          .takeWhile(_.depth > table.base.depth)
      }
      val own = staging.getParent
      val temporary = new Path(own, TemporaryFiles.Folder)
      removeBinding(fs, table, own, log)
      val around = Vector(table.base.getParent).filter(_ => transaction.names.hasMade(table.base))
      val all = ofFiles ++ Vector(staging, temporary, own, log, table.base) ++ around
      all.distinct.sortBy(-_.depth).foreach { folder =>
        try
          if (fs.getScheme == "file") Files.deleteIfExists(Paths.get(folder.toUri.getPath))
          else fs.delete(folder, false)
        catch { case _: IOException => () }
      }
    }
  }
}

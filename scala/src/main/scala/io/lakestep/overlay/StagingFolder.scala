package io.lakestep.overlay

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.lakestep.log.{LogFileName, TableRef}
import io.lakestep.storage.TemporaryFiles

/** Where the staged commits of a segment on one table are kept. */
object StagingFolder {

  /** `<table>/_delta_log/_lakestep/<segment>` */
  def apply(table: Path, segment: String): Path =
    ofLog(new Path(table, TemporaryFiles.LogFolder), segment)

  /** The staged commit of this version in the segment's folder. */
  def commit(table: Path, segment: String, version: Long): Path =
    new Path(apply(table, segment), LogFileName.commitName(version))

  /**
   * Stages a commit that is no statement's: it does not count as a change of the table. Condition:
   * `java.nio.file.FileAlreadyExistsException`.
   */
  def create(
      table: Path,
      segment: String,
      version: Long,
      actions: Seq[String],
      conf: Configuration): Unit = {
    val file = commit(table, segment, version)
    Staging.of(segment).recordOther(table.toString, version)
    try CommitFile.create(file, file, CommitFile.bytesOf(actions.iterator.asJava), conf)
    catch {
      case unclear: CommitFile.Unclear =>
        Staging.of(segment).doubt(unclear)
        throw unclear
    }
  }

  /** `<table>/_delta_log/_lakestep/kept/<copy>`: a copy of what a version needs of the log. */
  def kept(log: Path, copy: String): Path =
    new Path(new Path(new Path(log, TemporaryFiles.OwnFolder), TableRef.Kept), copy)

  /** No staged commit's name stands before it. */
  private[overlay] val First: String = LogFileName.commitName(0)

  private[overlay] def ofLog(log: Path, segment: String): Path =
    new Path(new Path(log, TemporaryFiles.OwnFolder), segment)
}

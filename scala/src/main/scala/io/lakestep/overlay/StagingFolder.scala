package io.lakestep.overlay

import org.apache.hadoop.fs.Path

/** Where the staged commits of a segment on one table are kept. */
object StagingFolder {

  /** `<table>/_delta_log/_lakestep/<segment>` */
  def apply(table: Path, segment: String): Path =
    ofLog(new Path(table, LogEntry.LogFolder), segment)

  /** The staged commit of this version in the segment's folder. */
  def commit(table: Path, segment: String, version: Long): Path =
    new Path(apply(table, segment), LogEntry.commitName(version))

  private[overlay] def ofLog(log: Path, segment: String): Path =
    new Path(new Path(log, LogEntry.OwnFolder), segment)
}

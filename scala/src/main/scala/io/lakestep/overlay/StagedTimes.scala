package io.lakestep.overlay

import org.apache.hadoop.fs.FileStatus

/**
 * The times of staged commits. Once a commit is taken back, its version may come again with other
 * content, and Delta takes a commit for the one that it knows when version, length and time are the
 * same. So the next one is told to be later, where the store's clock does not do so.
 *
 * Tables are told by the path of their folder. Not thread-safe; guarded by `Staging`.
 */
private[overlay] final class StagedTimes {

  /** By table and version: the latest time told of the commit that is there, and of those taken back. */
  private var told = Map.empty[(String, Long), Long]
  private var before = Map.empty[(String, Long), Long]

  def apply(table: String, version: Long, status: FileStatus): FileStatus = {
    val key = (table, version)
    val ofStore = status.getModificationTime
    val timeMs = before.get(key).fold(ofStore)(last => ofStore.max(last + 1))
    told = told.updated(key, told.get(key).fold(timeMs)(_.max(timeMs)))
    if (timeMs == ofStore) status
    else
      new FileStatus(
        status.getLen,
        false,
        status.getReplication.toInt,
        status.getBlockSize,
        timeMs,
        status.getPath
      )
  }

  /** Versions above this one are taken back. */
  def cutBack(table: String, keep: Long): Unit = {
    val (taken, kept) = told.partition { case ((t, version), _) => t == table && version > keep }
    told = kept
    before = before ++ taken
  }
}

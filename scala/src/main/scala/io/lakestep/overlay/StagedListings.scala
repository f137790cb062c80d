package io.lakestep.overlay

import org.apache.hadoop.fs.FileStatus

/**
 * What an open transaction need not ask the store again: the staged commits, which this driver alone
 * puts, and the log up to a pin, which does not change while the table stays. That is listed again by
 * whatever resolves the table or looks for its last checkpoint: others may have made the table anew,
 * and COMMIT may not be the first to see that. Tables are told by the path of their folder; where two
 * paths may lead to one log, nothing is remembered. Executors have no such memory, and look.
 *
 * Not thread-safe; guarded by `Staging`.
 */
private[overlay] final class StagedListings {

  /** Moved when a version number may come back with other content; an older answer is forgotten. */
  var epoch = 0L

  private var staged = Map.empty[String, Map[Long, FileStatus]]

  /** By table: the pin, the name that the listing began at, and what it showed. */
  private var below = Map.empty[String, (Long, String, Vector[FileStatus])]

  /** Tables whose listing has told somebody something. */
  private var asked = Set.empty[String]

  /** Tables that were found as they were pinned, since they were listed. */
  private var confirmed = Set.empty[String]

  def clear(): Unit = {
    epoch += 1
    staged = Map.empty
    below = Map.empty
    confirmed = Set.empty
  }

  def confirm(table: String): Unit = confirmed += table

  def doubt(table: String): Unit = confirmed -= table

  def isConfirmed(table: String): Boolean = confirmed(table)

  def forgetConfirmed(): Unit = confirmed = Set.empty

  /** Versions above this one are taken back. */
  def cutBack(table: String, keep: Long): Unit = {
    epoch += 1
    staged = staged.updatedWith(table)(_.map(_.filter(_._1 <= keep)))
  }

  def saw(table: String, found: Iterable[(Long, FileStatus)]): Unit =
    staged = staged.updated(table, staged.getOrElse(table, Map.empty) ++ found)

  def status(table: String, version: Long): Option[FileStatus] =
    staged.get(table).flatMap(_.get(version))

  def sawBelow(table: String, pin: Long, from: String, found: Vector[FileStatus]): Unit = {
    asked += table
    if (found.nonEmpty && found.size <= StagedListings.MostFiles)
      below = below.updated(table, (pin, from, found))
  }

  def listedAhead(table: String): Unit = asked -= table

  /** @return the name that the listing began at, if it was asked for */
  def forgetBelow(table: String): Option[String] = {
    epoch += 1
    val from = below.get(table).map(_._2).filter(_ => asked(table))
    below -= table
    asked -= table
    confirmed -= table
    from
  }

  def hasListedBelow(table: String): Boolean = below.contains(table)

  def listedBelow(table: String, pin: Long, from: String): Option[Vector[FileStatus]] =
    below.get(table).collect {
      case (`pin`, first, found) if first <= from =>
        asked += table
        found.filter(_.getPath.getName >= from)
    }
}

private object StagedListings {

  /** A log with more files after its last checkpoint is listed again. */
  val MostFiles = 1000
}

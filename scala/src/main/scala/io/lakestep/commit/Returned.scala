package io.lakestep.commit

import io.lakestep.log.{AddFile, CommitInfo, LogCommit}

/**
 * Files from before a change that a RESTORE has brought back after it. Rows that the change removed may be
 * in them, as others had written these rows anew in between: what is taken back would show them twice.
 */
private[commit] object Returned {

  /** Whether a commit takes files of any earlier version. */
  def isRestore(commit: LogCommit): Boolean =
    commit.info.exists(_.operations.exists(CommitInfo.isRestore))

  /**
   * @param after the commits of others, in order
   * @param hadBefore which of these files the table had right before the change
   */
  def files(own: Vector[LogCommit], after: Vector[LogCommit], isRestore: LogCommit => Boolean)(
      hadBefore: Set[String] => Set[String]): Set[String] = {
    def added(c: LogCommit) = c.files.collect { case a: AddFile if a.dataChange => a.path }.toSet
    val (_, back) = after.foldLeft((own.flatMap(added).toSet, Set.empty[String])) {
      case ((known, found), c) =>
        val adds = added(c)
        (known ++ adds, if (isRestore(c)) found ++ (adds -- known) else found)
    }
    if (back.isEmpty) back else back -- hadBefore(back)
  }
}

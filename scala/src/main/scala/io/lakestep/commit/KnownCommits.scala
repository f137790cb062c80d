package io.lakestep.commit

import java.util.concurrent.ConcurrentHashMap

import io.lakestep.log.{ListedCommit, LogCommit, TableLog, TableRef}

/**
 * The commits of others that one COMMIT has read, so that it reads each once, however often it
 * validates. A commit is known by its slot, and by size and time of its file.
 */
private[commit] final class KnownCommits {
  private val commits = new ConcurrentHashMap[(TableRef, ListedCommit), LogCommit]

  /** The commit that a listing shows, unless it is gone by now. */
  def apply(log: TableLog, listed: ListedCommit): Option[LogCommit] = {
    val key = (log.table, listed)
    Option(commits.get(key)).orElse {
      val read = log.read(listed.version)
      read.foreach(commits.put(key, _))
      read
    }
  }
}

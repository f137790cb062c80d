package io.lakestep.overlay

import org.apache.hadoop.fs.Path

/**
 * Asked before any commit to a base table that goes through `BaseLogStore`, on the thread of the
 * Delta transaction and before anything is written.
 *
 * The session layer gives it a veto, which throws to refuse. One veto for the whole JVM: it finds
 * the session, and its open transaction, by itself.
 */
object BaseWriteGuard {

  /** Throws to refuse the creation of this commit file of a base table. */
  trait Veto {
    def beforeCommit(commitFile: Path): Unit

    /** Throws to refuse the listing of a base log from this file on. */
    def beforeList(logFile: Path): Unit = ()
  }

  /** Lets everything pass; in force until another is set. */
  val AllowAll: Veto = new Veto {
    override def beforeCommit(commitFile: Path): Unit = ()
  }

  @volatile private var veto: Veto = AllowAll

  /** Puts a veto in the place of the one in force. Idempotent, from any thread. */
  def set(next: Veto): Unit = veto = next

  private[overlay] def checkList(logFile: Path): Unit = veto.beforeList(logFile)

  private[overlay] def check(commitFile: Path): Unit = veto.beforeCommit(commitFile)
}

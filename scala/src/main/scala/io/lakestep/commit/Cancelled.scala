package io.lakestep.commit

import io.lakestep.log.{
  AddFile, CommitInfo, CommitMark, FileAction, LogCommit, RemoveFile, SetTransaction
}
import io.lakestep.timeline.CommitEntry

/** Transactions that were taken back since, and those that took them back. */
private[commit] object Cancelled {

  /**
   * The commits without those of transactions that were reverted among them, where nothing is left of the two
   * together but marks of applications that were kept (KEEP KEYS).
   *
   * @param later entries, in order
   */
  def without(commits: Vector[LogCommit], later: Vector[CommitEntry]): Vector[LogCommit] =
    pairs(later).foldLeft(commits) { case (left, (reverted, reverting)) =>
      def is(ids: Set[String])(c: LogCommit) = c.mark.exists(m => ids(m.transaction))
      val (of, by) = (left.filter(is(reverted)), left.filter(is(Set(reverting))))
      val isWhole = reverted.forall(id => of.exists(is(Set(id)))) && isNothing(of ++ by)
      val kept = applications(of) -- applications(by)
      if (by.nonEmpty && isWhole) left.flatMap { c =>
        if (is(reverted + reverting)(c)) marks(c, kept) else Some(c)
      }
      else left
    }

  private def applications(commits: Vector[LogCommit]): Set[String] = commits.flatMap(_.actions)
    .collect { case t: SetTransaction if !CommitMark.isOwnAppId(t.appId) => t.appId }.toSet

  private def marks(commit: LogCommit, of: Set[String]): Option[LogCommit] = {
    val kept = commit.actions.collect { case t: SetTransaction if of(t.appId) => t }
    Option.when(kept.nonEmpty)(commit.copy(actions = kept))
  }

  /** The same for entries over a name. */
  def without(entries: Vector[CommitEntry]): Vector[CommitEntry] =
    pairs(entries).foldLeft(entries) { case (left, (reverted, reverting)) =>
      val ids = left.map(_.transaction.id).toSet
      if (ids(reverting) && reverted.subsetOf(ids))
        left.filterNot(e => reverted(e.transaction.id) || e.transaction.id == reverting)
      else left
    }

  /** Whether it has reverted transactions, and done nothing else. */
  def isRevert(entry: CommitEntry): Boolean =
    entry.undoes.nonEmpty && entry.undoes.forall(_.transaction.isDefined) &&
      entry.tables.forall(_.operations.forall(CommitInfo.isRestore))

  /** Of each that did nothing else, what it has reverted; the earliest first, as later ones may rest on it. */
  private def pairs(later: Vector[CommitEntry]): Vector[(Set[String], String)] =
    later.filter(isRevert).map(e => e.undoes.flatMap(_.transaction).toSet -> e.transaction.id)

  /** Whether each file is in the end as it was before. */
  private def isNothing(commits: Vector[LogCommit]): Boolean = {
    type State = Option[Option[String]]
    val files = commits.foldLeft(Map.empty[String, (State, State)]) { (all, commit) =>
      def and(known: Map[String, (State, State)], file: FileAction) = {
        val (before, now) = file match {
          case r: RemoveFile => (Some(r.dvId), None)
          case a: AddFile => (None, Some(a.dvId))
        }
        known.updated(file.path, (known.get(file.path).fold(before: State)(_._1), now: State))
      }
      val (removes, adds) = commit.files.partition(_.isRemoved)
      (removes ++ adds).foldLeft(all)(and)
    }
    files.values.forall { case (before, now) => before == now }
  }
}

package io.lakestep.simulation

import io.lakestep.log.MarkKind

/**
 * The rows that a table has to have: completed entries as they were planned, and foreign commits, in
 * the order of the log. Entries that were taken back leave nothing, but for what they list as residue.
 *
 * Each version is compared but those between the publish and the undo of such an entry. So a row that
 * was lost, that came back, or that two transactions took is noticed, whatever file it stands in.
 *
 * @param planned what an own commit does, if its entry is completed; nothing for others
 * @param residue whether the entry of an UNDO commit lists residue
 */
final class RowReplay(
    log: TrueLog,
    planned: PlacedMark => Option[RowChange],
    residue: PlacedMark => Boolean,
    violated: String => Unit) {

  private case class Expected(rows: Set[Row], isOpen: Boolean)

  def check(): Unit = {
    val own = log.marks.map(m => m.slot -> m).toMap
    log.commits.indices.foldLeft(Expected(Set.empty, isOpen = false)) { (before, i) =>
      val version = i.toLong
      val after = own.get(version) match {
        case None => foreign(before, i)
        case Some(m) if m.mark.kind == MarkKind.Close || m.mark.kind == MarkKind.Reserve => before
        case Some(m) if m.mark.kind == MarkKind.Undo =>
          if (residue(m)) Expected(Cells.rows(log.live(i)).toSet, isOpen = false)
          else before.copy(isOpen = false)
        case Some(m) =>
          planned(m).fold(before.copy(isOpen = true)) { change =>
            val gone = change.takes -- before.rows
            if (gone.nonEmpty)
              violated(s"ROWS ${log.table} version $version takes $gone, which are not there")
            before.copy(rows = before.rows -- change.takes ++ change.brings)
          }
      }
      if (!after.isOpen) compare(version, after.rows)
      after
    }
    ()
  }

  private def foreign(before: Expected, i: Int): Expected = {
    val change = RowChange.between(if (i == 0) Map.empty else log.live(i - 1), log.live(i))
    before.copy(rows = before.rows -- change.takes ++ change.brings)
  }

  private def compare(version: Long, expected: Set[Row]): Unit = {
    val rows = Cells.rows(log.live(version.toInt))
    val twice = rows.diff(rows.distinct)
    val (lost, more) = (expected -- rows, rows.toSet -- expected)
    if (twice.nonEmpty) violated(s"ROWS ${log.table} version $version has twice: $twice")
    if (lost.nonEmpty) violated(s"ROWS ${log.table} version $version has lost $lost")
    if (more.nonEmpty) violated(s"ROWS ${log.table} version $version has $more besides")
  }
}

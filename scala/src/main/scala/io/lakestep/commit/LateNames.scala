package io.lakestep.commit

import java.util.concurrent.TimeUnit

import scala.util.control.NonFatal

import io.lakestep.Errors
import io.lakestep.timeline.{CommitEntry, Making, NameChange, NamedObject}

/**
 * Step 14 (g): a client that makes names of an entry and sleeps may change them when others have made
 * them, and changed them again. It finds that out, and puts right what it has done; for one that died
 * then RECOVER does, which finds its MAKING file.
 */
private[commit] final class LateNames(env: Environment) {
  import env.{timeline, clock, ids, options, safeguards}

  /** To be called before a client makes names. */
  def begin(number: Long, hash: String): Making = {
    val making = Making(number, ids.nextHex())
    timeline.putMaking(making, hash, clock.nowMs())
    making
  }

  /** To be called when it is done, and was not late or has put it right. Never throws. */
  def end(making: Making): Unit = quietly(timeline.deleteMaking(making))

  /**
   * The entry as it may be made while others have not said that they are done, and may be about to drop
   * names that it gives. Metastores delete the folder of a managed table that they drop: it becomes an
   * external one. And that of a schema: it is not made yet.
   *
   * @param tell why a table is another one
   */
  def safely(entry: CommitEntry, mine: Making, tell: Throwable => Unit): CommitEntry = {
    val safe = apart(Vector(entry), Set(mine)).head
    for {
      c <- entry.names if c.after.exists(_.isManaged)
      made <- safe.names.find(_.key == c.key).flatMap(_.after) if !made.isManaged
    } tell(Errors(
      "LAKESTEP_TABLE_MADE_EXTERNAL",
      "table" -> c.key.toString,
      "path" -> made.path.fold("")(_.uri)
    ))
    for (waiting <- entry.names.map(_.key).diff(safe.names.map(_.key)).headOption)
      throw new Catalogs.NothingChanged(
        Errors("LAKESTEP_SCHEMA_BEING_DROPPED", "schema" -> waiting.toString)
      )
    safe
  }

  /** Without the schemas that others may be about to drop. */
  private def apart(entries: Vector[CommitEntry], mine: Set[Making]): Vector[CommitEntry] = {
    def isAtRisk(change: NameChange) =
      change.after.exists(o => o.isManaged || o.kind == NamedObject.Schema)
    if (!safeguards.detachesNames || !entries.exists(_.names.exists(isAtRisk))) entries
    else {
      val others = timeline.makings().map(_._1).filterNot(mine).map(_.number).distinct
      val dropped = others.flatMap(timeline.status(_).names).filter(_.drops).map(_.key).toSet
      entries.map(e =>
        e.copy(names = e.names.flatMap { c =>
          if (!dropped(c.key)) Some(c)
          else if (c.key.name.isEmpty && c.after.isDefined) None
          else Some(c.copy(after = c.after.map(_.asExternal)))
        })
      )
    }
  }

  /**
   * Puts right what one has left that made names of an entry.
   *
   * @param isOwn whether it was this client, which is awake now
   */
  def apply(left: Making, hash: String, isOwn: Boolean): Unit = if (safeguards.repairsNames) {
    val mine = begin(left.number, hash)
    val entries = over(left.number)
    val safe = apart(entries, Set(mine) ++ Some(left).filter(_ => isOwn))
    options.catalogs.repair(safe, left, mine)
      .foreach(e => env.tell(TransactionEvent.CatalogBehind(entries.head, e)))
    // Others may have gone on, and this may be late now.
    if (over(left.number).size > entries.size) apply(mine, hash, isOwn = true)
    end(mine)
  }

  /** An entry, and later ones over its names that have been made. */
  private def over(number: Long): Vector[CommitEntry] = {
    val view = timeline.refresh()
    val first = timeline.status(number)
    val later = if (view.lastNames <= number) Iterator.empty else timeline.since(number)
    val keys = first.names.map(_.key).toSet
    def isMade(entry: CommitEntry) = {
      val names = timeline.known.snapshot.names
      val isKnown = entry.number <= view.finished && !names.unapplied.contains(entry.number)
      isKnown || timeline.isApplied(entry.number)
    }
    (Iterator(first) ++ later).map(_.entry).collect {
      case c: CommitEntry
          if c.names.exists(n => keys(n.key)) && isCompleted(c.number) && isMade(c) =>
        c
    }.toVector
  }

  private def isCompleted(number: Long): Boolean = timeline.status(number).isCompleted

  /** Of all who made names of an entry and have not said that they are done. Never throws. */
  def ofEntry(number: Long): Unit = look(timeline.makings(Some(number)))

  /** The same, of all entries. */
  def ofAll(): Unit = look(timeline.makings())

  private def look(makings: => Vector[(Making, Long)]): Unit = quietly {
    for ((making, time) <- makings)
      if (of(making) && time < clock.nowMs() - LateNames.ForgottenMs) end(making)
  }

  /** Whether nothing is left in any metastore. Nobody is late while the names are not known to be made. */
  private def of(making: Making): Boolean = {
    val status = timeline.status(making.number)
    val metastores = status.names.map(_.key.metastore).distinct
    val ours = metastores.filter(options.catalogs.has(_))
    status.entry match {
      case entry: CommitEntry if ours.nonEmpty && timeline.isApplied(making.number) =>
        try {
          apply(making, status.hash, isOwn = false)
          ours == metastores
        } catch {
          case e @ (NonFatal(_) | _: LinkageError) =>
            env.tell(TransactionEvent.CatalogBehind(entry, e))
            false
        }
      case _ => false
    }
  }

  private def quietly(work: => Unit): Unit =
    try work
    catch { case NonFatal(_) | _: LinkageError => () }
}

private object LateNames {

  /** After which time nobody looks any more for what a client may have left. */
  val ForgottenMs: Long = TimeUnit.HOURS.toMillis(1)
}

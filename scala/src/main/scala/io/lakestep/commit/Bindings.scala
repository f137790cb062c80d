package io.lakestep.commit

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.{Errors, Ids, Json}
import io.lakestep.log.{ListedCommit, TableLog, TableRef}
import io.lakestep.storage.{ObjectStores, PutOutcome}

/** Which timeline a table belongs to; `log` names the log, whatever path leads to it. */
final case class Binding(timeline: String, log: String, path: TableRef)

/**
 * Step 1: a table belongs to one timeline, the one that wrote it first, for ever.
 *
 * A binding file is never changed, but DROP removes it with its table, and the table that is then
 * made under the same path is another log. So whoever pins a table reads it again.
 */
private[commit] final class Bindings(
    stores: ObjectStores,
    timelineId: () => Option[String],
    ids: Ids,
    observer: CommitSteps,
    safeguards: Safeguards,
    keep: String => Unit) {

  private val known = new ConcurrentHashMap[TableRef, Binding]
  private val durable = ConcurrentHashMap.newKeySet[Binding]

  /**
   * The table's binding as it is now, if it has one.
   *
   * Conditions: LAKESTEP_TABLE_OF_ANOTHER_TIMELINE, LAKESTEP_TABLE_IS_A_COPY, LAKESTEP_TIMELINE_CORRUPT.
   */
  def find(table: TableRef): Option[Binding] = {
    val found = Bindings.read(stores, table)
    found match {
      case Some(binding) if known.get(table) != binding =>
        if (safeguards.binds && !timelineId().contains(binding.timeline))
          throw Errors(
            "LAKESTEP_TABLE_OF_ANOTHER_TIMELINE",
            "table" -> table.uri,
            "timeline" -> binding.timeline,
            "ours" -> timelineId().getOrElse("none")
          )
        if (binding.path != table) refuseCopy(table, binding)
        known.put(table, binding)
      case Some(_) => ()
      case None => known.remove(table)
    }
    found
  }

  /** The binding that this client last read, without a request. */
  def lastKnown(table: TableRef): Option[Binding] = Option(known.get(table))

  /** Whether the table still has this binding: it was not dropped, nor made anew. */
  def holds(table: TableRef, binding: Binding): Boolean =
    Bindings.read(stores, table).contains(binding)

  /**
   * The table's binding, as it was when this client last read it; puts one when there is none. What
   * became of it since is for `holds` to tell. Durable, whoever put it. Conditions as `find`.
   */
  def bind(table: TableRef, timeline: String): Binding = {
    val binding = lastKnown(table).orElse(find(table)).getOrElse(put(table, timeline))
    if (!durable.contains(binding)) {
      keep(table.binding)
      durable.add(binding)
    }
    binding
  }

  private def put(table: TableRef, timeline: String): Binding = {
    val file = table.binding
    val binding = Binding(timeline, ids.nextHex(), table)
    val node =
      Json.obj().put("timeline", timeline).put("log", binding.log).put("path", table.uri)
    stores.forPath(table.uri).putIfAbsent(file, (Json.text(node) + "\n").getBytes(UTF_8)) match {
      case PutOutcome.Created =>
        observer.bound(table)
        known.put(table, binding)
        binding
      case PutOutcome.Unknown(cause) if Bindings.read(stores, table).isEmpty =>
        throw Errors.caused("LAKESTEP_OUTCOME_UNKNOWN", cause, "file" -> file)
      case _ =>
        observer.bound(table)
        find(table).getOrElse(
          throw Errors("LAKESTEP_TIMELINE_CORRUPT", "file" -> file, "reason" -> "it vanished")
        )
    }
  }

  /**
   * A folder that was copied brings its binding along; one that was moved, or has two paths, too.
   *
   * Two paths to one log show the same files; one listing may be younger, so the original is
   * listed before and after.
   */
  private def refuseCopy(table: TableRef, binding: Binding): Unit = {
    val stillThere =
      try Bindings.read(stores, binding.path).exists(_.log == binding.log)
      catch { case NonFatal(_) => false }
    if (stillThere && isOther(table, binding.path, Bindings.MostListings))
      throw Errors("LAKESTEP_TABLE_IS_A_COPY", "table" -> table.uri, "original" -> binding.path.uri)
  }

  /** A log clean-up makes the listings differ, too: while the original loses files they say nothing. */
  @tailrec
  private def isOther(table: TableRef, original: TableRef, attempts: Int): Boolean = {
    val before = listing(original)
    val here = listing(table)
    val after = listing(original)
    val isSame = before.subsetOf(here) && here.subsetOf(after)
    if (isSame || before.subsetOf(after) || attempts == 1) !isSame
    else isOther(table, original, attempts - 1)
  }

  private def listing(table: TableRef): Set[ListedCommit] =
    new TableLog(stores.forPath(table.uri), table).tail(0).slots.toSet
}

private[commit] object Bindings {

  /** How often two paths are compared while files of a log go. */
  private val MostListings = 10

  /** What stands in the table's binding file. Condition: LAKESTEP_TIMELINE_CORRUPT. */
  def read(stores: ObjectStores, table: TableRef): Option[Binding] = {
    val file = table.binding
    stores.forPath(table.uri).get(file).map { bytes =>
      try {
        val node = Json.parse(bytes)
        def field(name: String) = Option(node.get(name)).filter(_.isTextual).map(_.asText)
          .getOrElse(throw new java.io.IOException(s"its field $name is missing"))
        Binding(field("timeline"), field("log"), TableRef(field("path")))
      } catch {
        case NonFatal(e) =>
          throw Errors.caused(
            "LAKESTEP_TIMELINE_CORRUPT",
            e,
            "file" -> file,
            "reason" -> String.valueOf(e.getMessage)
          )
      }
    }
  }
}

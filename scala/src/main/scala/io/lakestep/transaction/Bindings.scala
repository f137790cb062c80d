package io.lakestep.transaction

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import io.lakestep.{Errors, Ids, Json}
import io.lakestep.delta.{TableLog, TablePath}
import io.lakestep.storage.{ObjectStores, PutOutcome}

/** Which timeline a table belongs to; `log` names the log, whatever path leads to it. */
final case class Binding(timeline: String, log: String, path: String)

/**
 * Step 1: a table belongs to one timeline, the one that wrote it first, for ever.
 *
 * Bindings are never changed, so one that was read is kept.
 */
private[transaction] final class Bindings(
    stores: ObjectStores,
    timelineId: () => Option[String],
    ids: Ids,
    observer: CommitObserver,
    amendments: Amendments) {

  private val known = new ConcurrentHashMap[String, Binding]

  /**
   * The table's binding, if it has one.
   *
   * Conditions: LAKESTEP_TABLE_OF_ANOTHER_TIMELINE, LAKESTEP_TABLE_IS_A_COPY, LAKESTEP_TIMELINE_CORRUPT.
   */
  def find(path: String): Option[Binding] = {
    val table = TablePath.normalise(path)
    Option(known.get(table)).orElse {
      val found = read(table)
      found.foreach { binding =>
        if (amendments.binds && !timelineId().contains(binding.timeline))
          throw Errors(
            "LAKESTEP_TABLE_OF_ANOTHER_TIMELINE",
            "table" -> path,
            "timeline" -> binding.timeline,
            "ours" -> timelineId().getOrElse("none")
          )
        if (binding.path != table) refuseCopy(table, binding)
        known.put(table, binding)
      }
      found
    }
  }

  /** The table's binding; puts one when there is none. Conditions as `find`. */
  def bind(path: String, timeline: String): Binding = find(path).getOrElse {
    val table = TablePath.normalise(path)
    val file = TablePath.binding(table)
    val node = Json
      .obj()
      .put("timeline", timeline)
      .put("log", ids.nextHex())
      .put("path", table)
    stores.forPath(table).putIfAbsent(file, (Json.text(node) + "\n").getBytes(UTF_8)) match {
      case PutOutcome.Unknown(cause) if read(table).isEmpty =>
        throw Errors.caused("LAKESTEP_OUTCOME_UNKNOWN", cause, "file" -> file)
      case _ => observer.bound(table)
    }
    find(table).getOrElse(
      throw Errors("LAKESTEP_TIMELINE_CORRUPT", "file" -> file, "reason" -> "it vanished")
    )
  }

  private def read(table: String): Option[Binding] = {
    val file = TablePath.binding(table)
    stores.forPath(table).get(file).map { bytes =>
      try {
        val node = Json.parse(bytes)
        def field(name: String) = Option(node.get(name)).filter(_.isTextual).map(_.asText)
          .getOrElse(throw new java.io.IOException(s"its field $name is missing"))
        Binding(field("timeline"), field("log"), field("path"))
      } catch { case NonFatal(e) =>
        throw Errors.caused(
          "LAKESTEP_TIMELINE_CORRUPT",
          e,
          "file" -> file,
          "reason" -> String.valueOf(e.getMessage)
        )
      }
    }
  }

  /** A folder that was copied brings its binding along; one that was moved, or has two paths, too. */
  private def refuseCopy(table: String, binding: Binding): Unit = {
    val stillThere =
      try read(binding.path).exists(_.log == binding.log)
      catch { case NonFatal(_) => false }
    if (stillThere && listing(binding.path) != listing(table))
      throw Errors("LAKESTEP_TABLE_IS_A_COPY", "table" -> table, "original" -> binding.path)
  }

  private def listing(table: String) =
    new TableLog(stores.forPath(table), table).tail(0).slots
}

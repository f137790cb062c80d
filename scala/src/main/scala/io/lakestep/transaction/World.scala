package io.lakestep.transaction

import io.lakestep.{Clock, Errors, Ids, Json}
import io.lakestep.delta.{NetChanges, StateReader, TableLog, TablePath}
import io.lakestep.storage.ObjectStores
import io.lakestep.timeline.{CommitEntry, EntryTable, Timeline}

/** Everything that the protocol sees of the world. */
private[transaction] final class World(
    val timeline: Timeline,
    val stores: ObjectStores,
    val states: StateReader,
    val clock: Clock,
    val ids: Ids,
    val observer: CommitObserver,
    val options: DatabaseOptions,
    val amendments: Amendments) {

  def log(path: String): TableLog = new TableLog(stores.forPath(path), path)

  /**
   * The net actions that an entry publishes in a table, checked against the hash in the entry.
   *
   * Condition: LAKESTEP_STAGED_COMMIT_LOST.
   */
  def changes(entry: CommitEntry, table: EntryTable): NetChanges = {
    val file = TablePath.netActions(table.path, entry.transaction.id)
    def lost(reason: String) = Errors(
      "LAKESTEP_STAGED_COMMIT_LOST",
      "file" -> file,
      "entry" -> entry.number.toString,
      "transaction" -> entry.transaction.id,
      "reason" -> reason
    )
    val bytes = stores.forPath(table.path).get(file).getOrElse(throw lost("it is missing"))
    val changes = NetChanges.decode(file, bytes)
    if (changes.hash != table.actionsHash) throw lost("its actions are not those of the entry")
    changes
  }

  def hashOf(node: com.fasterxml.jackson.databind.JsonNode): String =
    Json.blake3(Json.canonical(node))

  /** A taken slot again and again, or a store without answers: the entry stays for the next client. */
  def unfinished(entry: CommitEntry, reason: String, cause: Option[Throwable] = None): Throwable =
    new io.lakestep.LakestepException(
      "LAKESTEP_ENTRY_UNFINISHED",
      Map(
        "entry" -> entry.number.toString,
        "transaction" -> entry.transaction.id,
        "tables" -> entry.tables.map(_.name).mkString(", "),
        "reason" -> reason
      ),
      cause
    )
}

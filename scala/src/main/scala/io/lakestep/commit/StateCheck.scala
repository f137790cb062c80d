package io.lakestep.commit

import io.lakestep.log.{NetChanges, TableState}
import io.lakestep.timeline.EntryTable

/** Whether a table's state, without its log, excludes that anybody changed what ours relies on. */
private[commit] object StateCheck {
  def excludesConflict(
      table: EntryTable,
      ours: OurChanges,
      changes: NetChanges,
      state: TableState,
      env: Environment): Boolean = {
    val removed = changes.removedOfOthers
    val live = state.liveFiles(removed.keySet)
    ours.reads.isEmpty && !ours.changesHeader && ours.domains.isEmpty && ours.appIds.isEmpty &&
    !ours.bakesRows &&
    table.metaDataHash.contains(env.hashOf(state.metaData.body)) &&
    table.protocolHash.contains(env.hashOf(state.protocol.body)) &&
    removed.forall { case (path, dv) => live.get(path).exists(_.dvId == dv) } &&
    state.liveFiles(changes.adds.map(_.path).toSet -- removed.keySet).isEmpty
  }
}

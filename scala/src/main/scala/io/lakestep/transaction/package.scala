package io.lakestep

package object transaction {

  /** Why a transaction did not happen; the timeline keeps it as evidence. */
  type Conflict = timeline.Conflict
  val Conflict: timeline.Conflict.type = timeline.Conflict
}

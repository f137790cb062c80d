package io.lakestep.names

import io.lakestep.Json
import io.lakestep.timeline.{NameChange, NamedObject}

/** What a client that was late, or ended halfway, may have left of a name. */
private[names] object LeftNames {

  /** How the folder begins in which a schema lies that is about to be dropped. */
  val Elsewhere = ".lakestep-"

  /**
   * Whether a name that entries have changed stands for what one of them made of it, or began to.
   *
   * @param changes of the name, in their order
   */
  def mayBe(changes: Vector[NameChange], now: Option[NamedObject]): Boolean = {
    val shown = now.map(n => Json.canonical(n.definition))
    def isExactly(other: Option[NamedObject]) =
      shown == other.map(o => Json.canonical(o.definition))
    val last = changes.last.after
    // A drop begins by making a table external, which one is, too, that others may be about to drop.
    def isBegun(c: NameChange) = c.drops && c.before.exists(_.isManaged) &&
      isExactly(c.before.map(_.asExternal)) && !isExactly(last.map(_.asExternal))
    if (NamedObject.areSame(now, last))
      !isExactly(last) && changes.exists(c => isExactly(c.after) || isBegun(c))
    else
      changes.exists { c =>
        NamedObject.areSame(now, c.after) || isHalfMade(c, now) ||
        c.drops && (now.isEmpty || isSameTable(now, c.before))
      }
  }

  /** A view or a schema that is as it was has been made anew. */
  private def isSameTable(now: Option[NamedObject], old: Option[NamedObject]): Boolean =
    NamedObject.areSame(now, old) &&
      now.exists(n => n.kind == NamedObject.Table && old.exists(n.isAsOld))

  /**
   * Whether somebody ended halfway: what cannot be altered is dropped first, and a schema is moved
   * before it is dropped.
   */
  def isHalfMade(change: NameChange, now: Option[NamedObject]): Boolean =
    (change.before, change.after, now) match {
      case (Some(old), Some(other), None) => old.kind != other.kind
      case (Some(old), None, Some(there)) if there.kind == NamedObject.Schema =>
        val begun = old.path.map(o => s"${o.uri}/$Elsewhere")
        there.path.exists(p => begun.exists(p.uri.startsWith))
      case _ => false
    }
}

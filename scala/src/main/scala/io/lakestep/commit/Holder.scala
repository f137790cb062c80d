package io.lakestep.commit

/**
 * Why files stay that the newest version of a table does not name any more.
 *
 * @param version which is read, if it is known
 */
final case class Holder(kind: Holder.Kind, name: String, version: Option[Long], sinceMs: Long) {

  /** The named snapshot, whose copy of the log is read where there is one. */
  def snapshot: Option[String] = kind match {
    case Holder.OfSnapshot(id) => Some(id)
    case Holder.OfTransaction => None
  }
}

object Holder {
  sealed trait Kind
  final case class OfSnapshot(id: String) extends Kind

  /** What has been written since it began stays, too: it may have staged it. */
  case object OfTransaction extends Kind
}

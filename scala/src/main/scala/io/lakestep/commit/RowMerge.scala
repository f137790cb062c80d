package io.lakestep.commit

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.log.{
  Action, AddFile, DeletionVectors, Flatten, LogCommit, NetChanges, RemoveFile, TableRef,
  VectorChange
}

/**
 * Row level: two transactions that took different rows out of one file by deletion vectors are no
 * conflict. The later one gives the file one vector with the rows of both.
 */
private[commit] object RowMerge {

  /** Files, as they stand in the log, to which the actions only give another deletion vector. */
  def vectorUpdates(actions: Seq[Action]): Set[String] = {
    val removed = actions.collect { case r: RemoveFile if r.dataChange => r.path }.toSet
    actions.collect {
      case a: AddFile if a.dataChange && a.deletionVector.isDefined && removed(a.path) => a.path
    }.toSet
  }

  /** The same for what a transaction may still change: several commits stay as they are. */
  def vectorUpdates(changes: NetChanges): Set[String] =
    if (changes.parts.size == 1) vectorUpdates(changes.actions) else Set.empty

  /**
   * Our changes on top of commits that conflict in no other way.
   *
   * @param since the commits after the pin
   * @return else the files in which both took the same rows
   */
  def apply(
      changes: NetChanges,
      since: Vector[LogCommit],
      vectors: DeletionVectors): Either[Vector[String], NetChanges] = {
    val candidates = vectorUpdates(changes)
    val theirs =
      if (candidates.isEmpty) Vector.empty
      else Flatten.net(since).collect { case a: AddFile if candidates(a.path) => a }
    if (theirs.isEmpty) Right(changes)
    else {
      val removed = changes.removes.map(r => r.path -> r).toMap
      val added = changes.adds.map(a => a.path -> a).toMap
      val (files, both) = (for {
        their <- theirs
        own <- added(their.path).deletionVector
        dv <- their.deletionVector
      } yield their -> VectorChange(
        their.path,
        removed(their.path).deletionVector,
        own,
        dv
      )).unzip
      vectors.merge(TableRef(changes.table), both) match {
        case Left(same) => Left(same.map(_.path))
        case Right(merged) =>
          val later = files.map(_.path).zip(files.zip(merged)).toMap
          Right(changes.copy(parts =
            changes.parts.map(p =>
              p.copy(actions = p.actions.map {
                case r: RemoveFile if later.contains(r.path) =>
                  RemoveFile(withVector(r.body, later(r.path)._1.deletionVector))
                case a: AddFile if later.contains(a.path) =>
                  val (their, dv) = later(a.path)
                  AddFile(withVector(their.body, Some(dv)))
                case other => other
              })
            )
          ))
      }
    }
  }

  private def withVector(body: ObjectNode, dv: Option[ObjectNode]): ObjectNode = {
    val copy = body.deepCopy()
    copy.remove("deletionVector")
    dv.foreach(copy.set[ObjectNode]("deletionVector", _))
    copy
  }
}

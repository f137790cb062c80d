package io.lakestep.timeline

import io.lakestep.storage.{ObjectStore, PutOutcome, StoredFile}

/** The REQUESTED files of a timeline: open transactions, and those whose clients died. */
private[timeline] trait RequestedFiles {
  def root: String
  protected def store: ObjectStore
  protected def atOnce: AtOnce
  protected def putOnce(file: String, bytes: Array[Byte]): PutOutcome

  private def requestedFile(id: String) = s"$root/transactions/$id.json"

  def putRequested(requested: Requested): Unit = {
    putOnce(requestedFile(requested.id), TimelineCodec.encode(requested))
    ()
  }

  def requested(id: String): Option[Requested] =
    store.get(requestedFile(id)).map(TimelineCodec.decodeRequested(requestedFile(id), _))

  /** Transactions that have not been tidied up, oldest first. */
  def requested(): Vector[Requested] =
    atOnce(allRequested.keys.toVector)(requested(_)).flatten.sortBy(_.requestedAtMs)

  /** The files of transactions that have not been tidied up, by id. */
  def allRequested: Map[String, StoredFile] =
    store.list(s"$root/transactions", "t").flatMap { file =>
      RequestedName.findFirstMatchIn(file.name).map(_.group(1) -> file)
    }.toMap

  /** Ids of the transactions that began before a time of the store and have not been tidied up. */
  def requestedBefore(timeMs: Long): Vector[String] =
    allRequested.collect { case (id, file) if file.modifiedMs < timeMs => id }.toVector.sorted

  def deleteRequested(id: String): Unit = store.delete(requestedFile(id))

  private val RequestedName = """^(t[0-9a-f]{32})\.json$""".r
}

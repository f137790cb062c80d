package io.lakestep.timeline

import io.lakestep.storage.{ObjectStore, PutOutcome, StoredFile}

/**
 * That a client makes names of an entry.
 *
 * @param id of this once, 32 hexadecimal digits
 */
final case class Making(number: Long, id: String)

/** Files of a timeline that are deleted again: what somebody does now, or did when he died. */
private[timeline] trait RequestedFiles {
  def root: String
  protected def store: ObjectStore
  protected def putOnce(file: String, bytes: Array[Byte]): PutOutcome

  private def requestedFile(id: String) = s"$root/transactions/$id.json"

  def putRequested(requested: Requested): Unit = {
    putOnce(requestedFile(requested.id), TimelineCodec.encode(requested))
    ()
  }

  def requested(id: String): Option[Requested] =
    store.get(requestedFile(id)).map(TimelineCodec.decodeRequested(requestedFile(id), _))

  /** The files of transactions that have not been tidied up, by id. */
  def allRequested: Map[String, StoredFile] =
    store.list(s"$root/transactions", "t").flatMap { file =>
      RequestedName.findFirstMatchIn(file.name).map(_.group(1) -> file)
    }.toMap

  /** Ids of the transactions that began before a time of the store and have not been tidied up. */
  def requestedBefore(timeMs: Long): Vector[String] =
    allRequested.collect { case (id, file) if file.modifiedMs < timeMs => id }.toVector.sorted

  def deleteRequested(id: String): Unit = store.delete(requestedFile(id))

  private def makingFile(making: Making) = f"$root/makings/${making.number}%020d.${making.id}.json"

  /** MAKING: before a client makes names of an entry. */
  def putMaking(making: Making, entryHash: String, timeMs: Long): Unit = {
    putOnce(makingFile(making), TimelineCodec.encodeMaking(making.number, entryHash, timeMs))
    ()
  }

  /** Of clients that have not said that they are done, with the store's times; of one entry, or all. */
  def makings(number: Option[Long] = None): Vector[(Making, Long)] =
    store.list(s"$root/makings", number.fold("")(n => f"$n%020d")).toVector.flatMap { file =>
      MakingName.findFirstMatchIn(file.name)
        .filter(found => number.forall(_ == found.group(1).toLong))
        .map(found => Making(found.group(1).toLong, found.group(2)) -> file.modifiedMs)
    }

  def deleteMaking(making: Making): Unit = store.delete(makingFile(making))

  private val MakingName = """^([0-9]{20})\.([0-9a-f]{32})\.json$""".r
  private val RequestedName = """^(t[0-9a-f]{32})\.json$""".r
}

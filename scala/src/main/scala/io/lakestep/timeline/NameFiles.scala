package io.lakestep.timeline

import io.lakestep.storage.{ObjectStore, PutOutcome}

/**
 * That a client makes names of an entry.
 *
 * @param id of this once, 32 hexadecimal digits
 */
final case class Making(number: Long, id: String)

/** The files of a timeline that tell how far names of entries have been made. */
private[timeline] trait NameFiles {
  def root: String
  protected def store: ObjectStore
  protected def putOnce(file: String, bytes: Array[Byte]): PutOutcome
  protected def learn(more: TimelineView => TimelineView): Unit

  private def appliedFile(number: Long) = f"$root/timeline/$number%020d.applied.json"

  /**
   * Puts that what entry `number` has made of names is in the metastores. Whoever is late finds it done.
   *
   * @return whether this client was the first to say so, for certain
   */
  def putApplied(number: Long, entryHash: String, timeMs: Long): Boolean = {
    val put = putOnce(appliedFile(number), TimelineCodec.encodeApplied(number, entryHash, timeMs))
    learn(_.withApplied(number))
    put == PutOutcome.Created
  }

  /** Whether somebody has put that. */
  def isApplied(number: Long): Boolean = {
    val isThere = store.exists(appliedFile(number))
    if (isThere) learn(_.withApplied(number))
    isThere
  }

  /** When that was put, by the store's time. */
  def appliedMs(number: Long): Option[Long] = {
    val name = appliedFile(number).split('/').last
    store.list(appliedFile(number).stripSuffix(s"/$name"), name)
      .find(_.name == name).map(_.modifiedMs)
  }

  private def makingFile(making: Making) = f"$root/makings/${making.number}%020d.${making.id}.json"

  /** MAKING: before a client makes names of an entry. */
  def putMaking(making: Making, entryHash: String, timeMs: Long): Unit = {
    putOnce(makingFile(making), TimelineCodec.encodeMaking(making.number, entryHash, timeMs))
    ()
  }

  /** Of clients that have not said that they are done, with the store's times. */
  def makings(): Vector[(Making, Long)] =
    // From a name on, S3 is asked once, where the folder is empty, too.
    store.list(s"$root/makings", "0").flatMap { file =>
      MakingName.findFirstMatchIn(file.name)
        .map(found => Making(found.group(1).toLong, found.group(2)) -> file.modifiedMs)
    }

  def deleteMaking(making: Making): Unit = store.delete(makingFile(making))

  private val MakingName = """^([0-9]{20})\.([0-9a-f]{32})\.json$""".r
}

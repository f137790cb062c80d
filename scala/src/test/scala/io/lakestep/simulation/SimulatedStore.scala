package io.lakestep.simulation

import java.util.TreeMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.lakestep.storage.StoredFile

/** A file of the simulated store. */
final case class SimulatedFile(bytes: Array[Byte], modifiedMs: Long)

/** A change of the store, in the order in which the changes happened. */
sealed trait Change {
  def step: Int
  def path: String
}
final case class Created(step: Int, path: String, bytes: Array[Byte], by: String) extends Change
final case class Deleted(step: Int, path: String) extends Change

/**
 * A linearizable store in memory that remembers every change.
 *
 * Its methods act at once; [[SimulatedClient]] is the way in which clients see it. Not thread-safe:
 * only the thread with the baton calls it.
 *
 * @param stamp the store's own clock for modification times
 */
final class SimulatedStore(step: () => Int, stamp: () => Long) {

  private val files = new TreeMap[String, SimulatedFile]
  private val log = mutable.ArrayBuffer.empty[Change]

  def changes: Seq[Change] = log.toSeq

  /** How many commit entries have no outcome yet, where none was put twice. */
  var undecided: Int = 0

  private def isCommit(bytes: Array[Byte]): Boolean =
    new String(
      bytes,
      0,
      bytes.length.min(20),
      java.nio.charset.StandardCharsets.US_ASCII
    ).contains("commit")

  /** Whether this call created the file. */
  def create(path: String, bytes: Array[Byte], by: String): Boolean =
    if (files.containsKey(path)) false
    else {
      files.put(path, SimulatedFile(bytes, stamp()))
      log += Created(step(), path, bytes, by)
      if (path.endsWith(".outcome.json")) undecided -= 1
      else if (path.contains("/timeline/0") && isCommit(bytes)) undecided += 1
      true
    }

  def get(path: String): Option[Array[Byte]] = Option(files.get(path)).map(_.bytes)

  def exists(path: String): Boolean = files.containsKey(path)

  def list(dir: String, from: String): Vector[StoredFile] =
    files
      .subMap(s"$dir/$from", s"${dir}0")
      .entrySet
      .iterator
      .asScala
      .filter(e => e.getKey.indexOf('/', dir.length + 1) < 0)
      .map(e =>
        StoredFile(
          e.getKey.substring(dir.length + 1),
          e.getValue.bytes.length.toLong,
          e.getValue.modifiedMs
        )
      )
      .toVector

  /** Everything below a folder. */
  def below(dir: String): Vector[String] =
    files.subMap(s"$dir/", s"${dir}0").keySet.asScala.toVector

  def delete(path: String): Unit =
    if (files.remove(path) != null) log += Deleted(step(), path)

  def deleteFolder(dir: String): Unit =
    below(dir).foreach(delete)
}

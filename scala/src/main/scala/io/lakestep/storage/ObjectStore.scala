package io.lakestep.storage

import java.util.Arrays

import scala.util.control.NonFatal

import io.lakestep.LakestepException

/** A file of a folder: its plain name, its length, and the store's own modification time. */
final case class StoredFile(name: String, sizeBytes: Long, modifiedMs: Long)

/** What a put-if-absent did. */
sealed trait PutOutcome

object PutOutcome {

  /** This call created the file, and the file is durable. */
  case object Created extends PutOutcome

  /** The file existed before this call, which changed nothing. */
  case object AlreadyExists extends PutOutcome

  /**
   * The store gave no clear answer: the file may exist with these bytes, may come to exist later,
   * or may never exist. Only a later `get` that finds the file decides.
   */
  final case class Unknown(cause: Throwable) extends PutOutcome
}

/**
 * The only way in which the timeline and the commit protocol see storage.
 *
 * A path is a URI as text (`scheme:/a%20b`), or, for the local disk, an absolute path without a
 * scheme, which is taken as it stands. Guarantees:
 *
 *  1. `putIfAbsent` creates a file with its whole content or not at all; of any number of callers
 *     for one path at most one is told `Created`. Missing parent folders are made.
 *  1. A reader never sees a half-written file: `get`, `list` and `exists` show a file only with
 *     its whole content.
 *  1. `get`, `exists` and `list` are strongly consistent: what a finished put created is seen by
 *     every call that starts later, anywhere.
 *  1. What `Created` was answered for survives a crash of this process and of the machine.
 *  1. A call that throws has changed nothing that a reader can see; where that cannot be known the
 *     answer is `Unknown`, never an exception.
 *  1. Temporary files never stand in a `_delta_log` folder and are in no listing.
 *
 * Every method may be called by any number of threads at once.
 */
trait ObjectStore {

  /**
   * Creates the file if no file has this path; see guarantees 1, 2, 4 and 5.
   *
   * Conditions: LAKESTEP_STORE_FULL, LAKESTEP_STORE_ACCESS_DENIED, LAKESTEP_STORE_WRITE_FAILED,
   * LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT.
   */
  def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome

  /**
   * As `putIfAbsent`, for a file that nobody looks for before this has answered: until then others
   * may see a part of it (not guarantee 2), and when this process dies a part may stay.
   */
  def putUnannounced(path: String, bytes: Array[Byte]): PutOutcome = putIfAbsent(path, bytes)

  /**
   * What a put of these bytes did that had no clear answer: the same bytes are those of the put, as
   * every file that Lakestep puts holds an identifier of its own.
   */
  final def readBack(path: String, bytes: Array[Byte], cause: Throwable): PutOutcome =
    try
      get(path) match {
        case Some(found) if Arrays.equals(found, bytes) => PutOutcome.Created
        case Some(_) => PutOutcome.AlreadyExists
        case None => PutOutcome.Unknown(cause)
      }
    catch {
      case NonFatal(e) =>
        cause.addSuppressed(e)
        PutOutcome.Unknown(cause)
    }

  /** The whole content, or nothing when there is no such file. */
  def get(path: String): Option[Array[Byte]]

  /**
   * The files of exactly this folder whose names are not less than `from`, in the order of their
   * names as strings; folders are not listed. Empty when the folder does not exist.
   */
  def list(dir: String, from: String): Vector[StoredFile]

  /** The names of the folders in this folder, in order. Empty when it does not exist. */
  def folders(dir: String): Vector[String]

  /** Whether a file has this path. */
  def exists(path: String): Boolean

  /** After this no file has this path; idempotent. */
  def delete(path: String): Unit

  /** After this the folder and everything below it are gone; idempotent. */
  def deleteFolder(dir: String): Unit

  /**
   * Makes a file durable that somebody else wrote, its name included. On a store where a finished
   * write is durable it only looks for the file.
   *
   * @return whether there is such a file
   */
  def sync(path: String): Boolean

  /** As `sync`, but nothing on a store where a finished write is durable. */
  def force(path: String): Unit
}

/** Finds the store that keeps a path, or refuses the path. */
trait ObjectStores {

  /**
   * The store for this path.
   *
   * Condition: LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT when no store here can create a file of that
   * scheme only if it is absent.
   */
  def forPath(path: String): ObjectStore

  /** Whether `forPath` finds a store. */
  final def serves(path: String): Boolean = find(path).isDefined

  /** As `forPath`; nothing for what it refuses. */
  final def find(path: String): Option[ObjectStore] =
    try Some(forPath(path))
    catch {
      case e: LakestepException if e.getCondition == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT" => None
    }
}

object ObjectStores {

  /** One store for every path; for tests and for roots whose store is known. */
  def single(store: ObjectStore): ObjectStores = (_: String) => store
}

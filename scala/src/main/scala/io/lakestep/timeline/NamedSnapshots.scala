package io.lakestep.timeline

import io.lakestep.Json
import io.lakestep.log.TableRef
import io.lakestep.storage.{ObjectStore, PutOutcome}

/**
 * The named snapshots of a timeline, and what VACUUM cuts.
 *
 * `<root>/snapshots/<name>.<k>.json` is the k-th snapshot of a name, and ends with
 * `<name>.<k>.dropped.json`; of a name only the newest k counts. Nothing of this is ever deleted, so
 * that who is late cannot make, or drop, another one than it meant.
 *
 * Who cuts puts `<root>/cuts/<log>.<id>.json` before it reads the snapshots; who makes a snapshot reads
 * the cuts after it has put it. So one of the two knows of the other.
 */
final class NamedSnapshots private[timeline] (
    store: ObjectStore,
    root: String,
    atOnce: AtOnce,
    put: (String, Array[Byte]) => PutOutcome) {
  import NamedSnapshots._

  private val folder = s"$root/snapshots"
  private val cuts = s"$root/cuts"

  /** Where the temporary files of stores stand. */
  private[timeline] def folders: Vector[String] = Vector(folder, cuts)

  /** Those that are not dropped, in the order of their names. */
  def all(): Vector[NamedSnapshot] =
    atOnce(newest("").values.toVector.filterNot(_.isDropped))(read).sortBy(_.name)

  /**
   * What to tell about a table that cannot be read at a point of the past: the snapshot that has it as it
   * was near there, or would have.
   *
   * @param distance how far a snapshot, with what it holds of the table, is from there
   */
  def keeper(table: TableRef)(distance: (NamedSnapshot, SnapshotTable) => Long): String = {
    val held = for (s <- all() if !s.isHold; t <- s.table(table)) yield s -> distance(s, t).abs
    held.minByOption(_._2).fold("a named snapshot of that version would have kept it") {
      case (s, _) => s"snapshot ${s.name} has it as it was in version ${s.entry}"
    }
  }

  /** The one of that name, unless it is dropped. */
  def find(name: String): Option[NamedSnapshot] = newestOf(name).filterNot(_.isDropped).map(read)

  /** Whether this call has created it; false where there is one of that name. */
  def create(snapshot: NamedSnapshot): Boolean = {
    val last = newestOf(snapshot.name)
    !last.exists(!_.isDropped) && {
      val next = Slot(snapshot.name, last.fold(0L)(_.number) + 1, isDropped = false)
      put(file(next), NamedSnapshotCodec.encode(snapshot)) == PutOutcome.Created
    }
  }

  /** Idempotent. */
  def drop(snapshot: NamedSnapshot, timeMs: Long): Unit =
    newestOf(snapshot.name).filterNot(_.isDropped).filter(read(_).id == snapshot.id).foreach { s =>
      val note = StrictFields.summed(Json.obj().put("id", snapshot.id).put("timeMs", timeMs))
      put(file(s.copy(isDropped = true)), note)
    }

  /** Notes what is about to be cut; returns once it is there. */
  def putCut(cut: Cut): Unit = {
    put(file(cut), NamedSnapshotCodec.encode(cut))
    ()
  }

  def deleteCut(cut: Cut): Unit = store.delete(file(cut))

  /** Notes that all is deleted; for those before, an identical note. */
  def endCut(cut: Cut): Unit = {
    put(ended(file(cut)), NamedSnapshotCodec.encode(cut))
    ()
  }

  private def file(cut: Cut) = s"$cuts/${cut.log}.${cut.id}.json"

  private def ended(file: String) = file.stripSuffix(".json") + Ended

  /** What is cut, or was, of a log. */
  def cutsOf(log: String): Vector[Cut] = cutFiles(log).map(_.cut)

  /** Those of which nobody has said that all is deleted. */
  def openCutsOf(log: String): Vector[Cut] = cutFiles(log).filterNot(_.isEnded).map(_.cut)

  /** Deletes the notes of which another one says all that they say. */
  def tidy(log: String): Unit = {
    val found = cutFiles(log)
    val needless = found.filter { one =>
      // One that has not ended may be taken back.
      one.isEnded && found.exists { other =>
        one.file != other.file && other.isEnded && one.cut.isWithin(other.cut) &&
        (!other.cut.isWithin(one.cut) || one.file < other.file)
      }
    }
    needless.foreach { one =>
      store.delete(one.file)
      store.delete(ended(one.file))
    }
  }

  private def cutFiles(log: String): Vector[CutFile] = {
    val names = store.list(cuts, s"$log.").map(_.name).takeWhile(_.startsWith(s"$log."))
    val (ends, begun) = names.map(name => s"$cuts/$name").partition(_.endsWith(Ended))
    atOnce(begun) { file =>
      store.get(file).map { bytes =>
        val id = file.stripPrefix(s"$cuts/$log.").stripSuffix(".json")
        CutFile(file, NamedSnapshotCodec.decodeCut(id, file, bytes), ends.contains(ended(file)))
      }
    }.flatten
  }

  private def newestOf(name: String): Option[Slot] = newest(s"$name.").get(name)

  /** By name, the newest one whose file begins like that. */
  private def newest(prefix: String): Map[String, Slot] =
    store.list(folder, prefix).map(_.name).takeWhile(_.startsWith(prefix))
      .collect { case FileName(name, number, end) => Slot(name, number.toLong, end != null) }
      .groupBy(_.name).map { case (name, slots) =>
        name -> slots.maxBy(s => (s.number, s.isDropped))
      }

  private def read(slot: Slot): NamedSnapshot = {
    val path = file(slot)
    val bytes = store.get(path).getOrElse(throw StrictFields.corrupt(path, "it is missing"))
    NamedSnapshotCodec.decode(path, bytes)
  }

  private def file(slot: Slot) = {
    val end = if (slot.isDropped) ".dropped" else ""
    f"$folder/${slot.name}.${slot.number}%020d$end.json"
  }
}

object NamedSnapshots {

  /** Letters, digits, `_` and `-`, in any case. */
  def isName(text: String): Boolean = text.matches("[A-Za-z0-9_-]{1,100}")

  private final case class CutFile(file: String, cut: Cut, isEnded: Boolean)

  private val Ended = ".ended.json"

  private final case class Slot(name: String, number: Long, isDropped: Boolean)

  private val FileName = """([A-Za-z0-9_-]+)\.(\d{20})(\.dropped)?\.json""".r
}

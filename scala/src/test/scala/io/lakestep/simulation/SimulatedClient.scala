package io.lakestep.simulation

import io.lakestep.{Clock, Errors, Ids}
import io.lakestep.commit.CommitSteps
import io.lakestep.storage.{ObjectStore, PutOutcome, StoredFile}

/** One request of a history, for the trace of a failing seed. */
final case class Traced(
    step: Int,
    client: String,
    request: Request,
    path: String,
    fault: Option[Fault],
    result: Any)

/** A metastore does not answer. */
final class MetastoreAway(path: String) extends RuntimeException(path)

/**
 * A client: the store as it sees it, with its faults, its wrong clock and its ids.
 *
 * Every request is a scheduling point.
 *
 * @param skewMs how far its clock is from the store's
 * @param foreign a client that dies when it would put a commit below a checkpoint that was made
 *   while it slept: what a foreign client destroys by that is nobody's business
 */
final class SimulatedClient(
    val name: String,
    world: World,
    faults: Faults,
    skewMs: Long,
    foreign: Boolean = false)
    extends ObjectStore {

  private var crashed = false
  private var made = 0

  val clock: Clock = new Clock {
    override def nowMs(): Long = world.nowMs + skewMs
    override def steadyMs(): Long = world.nowMs
  }

  val ids: Ids = () => {
    made += 1
    val digits = (name.hashCode & 0x7fffffffL) * 1000 + made
    f"$digits%032x"
  }

  private var decidedBy = Map.empty[String, Int]

  /** When a transaction had last looked what it reads, before it says so in its REQUESTED file. */
  def decidedAt(transaction: String): Option[Int] = decidedBy.get(transaction)

  val observer: CommitSteps = new CommitSteps {
    override def beforeRequested(transaction: String): Unit =
      decidedBy += transaction -> world.scheduler.step
  }

  override def putIfAbsent(named: String, bytes: Array[Byte]): PutOutcome = {
    val path = Alias.real(named)
    def effect(): PutOutcome =
      if (foreign && world.isBelowCheckpoint(path)) stop()
      else if (world.store.create(path, bytes, name)) PutOutcome.Created
      else PutOutcome.AlreadyExists
    val lost = PutOutcome.Unknown(new java.io.IOException("no answer"))
    request(Request.of(Verb.Put, path, bytes), path, effect()) {
      case Fault.AnswerLost =>
        effect()
        lost
      case Fault.RequestLost => lost
      case Fault.Delayed =>
        delayed(path, bytes)
        lost
      case Fault.DelayedCrash =>
        delayed(path, bytes)
        stop()
    }
  }

  private def delayed(path: String, bytes: Array[Byte]): Unit = world.scheduler.later { () =>
    if (!foreign || !world.isBelowCheckpoint(path)) land(path, bytes)
  }

  private def land(path: String, bytes: Array[Byte]): Unit = {
    val landed = world.store.create(path, bytes, name)
    val put = Request.of(Verb.Put, path, bytes)
    world.trace(name, put, path, Some(Fault.Delayed), if (landed) "lands" else "too late")
  }

  override def get(path: String): Option[Array[Byte]] =
    read(Verb.Get, path)(world.store.get)

  override def list(dir: String, from: String): Vector[StoredFile] =
    read(Verb.List, dir)(world.store.list(_, from))

  /** Nothing in a history looks for folders. */
  override def folders(dir: String): Vector[String] = throw new UnsupportedOperationException(dir)

  override def exists(path: String): Boolean = read(Verb.Exists, path)(world.store.exists)

  override def sync(path: String): Boolean = read(Verb.Sync, path)(world.store.exists)
  override def force(path: String): Unit = read(Verb.Sync, path)(_ => ())

  override def delete(path: String): Unit = remove(Verb.Delete, path)(world.store.delete)

  /** That of a table file by file: others may come between, and the client may die. */
  override def deleteFolder(dir: String): Unit = {
    val request = Request.of(Verb.DeleteFolder, Alias.real(dir))
    if (request == Request.DeleteFolderTable)
      faults.inAnyOrder(world.store.below(Alias.real(dir))).foreach { file =>
        remove(request, file)(world.store.delete)
      }
    else remove(request, dir)(world.store.deleteFolder)
  }

  private def read[A](verb: Verb, named: String)(effect: String => A): A = {
    val path = Alias.real(named)
    request(Request.of(verb, path), path, effect(path))(PartialFunction.empty)
  }

  private def remove(verb: Verb, named: String)(effect: String => Unit): Unit =
    remove(Request.of(verb, Alias.real(named)), named)(effect)

  private def remove(request: Request, named: String)(effect: String => Unit): Unit = {
    val path = Alias.real(named)
    val check = world.purges.check(name, path)
    change(request, path) {
      check()
      effect(path)
    }
  }

  /** A question to a metastore. */
  def ask[A](kind: Request, path: String)(answer: => A): A =
    request(kind, path, answer)(PartialFunction.empty)

  /** A change that is no put: where there is no answer, it may have happened, or happen later. */
  def change[A](kind: Request, path: String)(effect: => A): A = {
    def later(): Unit = world.scheduler.later { () =>
      world.trace(name, kind, path, Some(Fault.Delayed), s"happens: $effect")
    }
    request(kind, path, effect) {
      case Fault.AnswerLost =>
        effect
        throw refused(kind, path)
      case Fault.Delayed =>
        later()
        throw refused(kind, path)
      case Fault.DelayedCrash =>
        later()
        stop()
    }
  }

  private def request[A](kind: Request, path: String, effect: => A)(
      special: PartialFunction[Fault, A]): A = {
    if (crashed) throw new Crashed
    def actor = world.scheduler.running
    faults.pause(kind) match {
      case 0 => actor.yieldNow()
      case steps => actor.sleep(steps)
    }
    // Another task of this client may have crashed it meanwhile.
    if (crashed) throw new Crashed
    world.counts.request(kind)
    val fault = faults.draw(kind)
    fault.foreach(world.counts.fault(kind, _))
    fault match {
      case None => traced(kind, path, fault)(effect)
      case Some(Fault.Sleep) =>
        world.trace(name, kind, path, fault, "")
        faults.sleep() match {
          case Some(steps) => actor.sleep(steps)
          case None => actor.sleepUntilPhase(World.LateZombies)
        }
        traced(kind, path, None)(effect)
      case Some(Fault.CrashBefore) => traced(kind, path, fault)(stop())
      case Some(Fault.CrashAfter) =>
        traced(kind, path, fault) {
          effect
          stop()
        }
      case Some(Fault.Refused) =>
        world.trace(name, kind, path, fault, "")
        throw refused(kind, path)
      case Some(other) => traced(kind, path, fault)(special(other))
    }
  }

  private def refused(kind: Request, path: String): Throwable = {
    def failed(condition: String) = Errors(condition, "path" -> path, "reason" -> "simulated")
    kind.verb match {
      case Verb.Ask | Verb.Change => new MetastoreAway(path)
      case Verb.Get | Verb.List | Verb.Exists => failed("LAKESTEP_STORE_READ_FAILED")
      case _ => failed("LAKESTEP_STORE_WRITE_FAILED")
    }
  }

  private def stop(): Nothing = {
    crashed = true
    throw new Crashed
  }

  private def traced[A](kind: Request, path: String, fault: Option[Fault])(body: => A): A =
    try {
      val result = body
      world.trace(name, kind, path, fault, result)
      result
    } catch {
      case e: Crashed =>
        world.trace(name, kind, path, fault, "crash")
        throw e
    }
}

package io.lakestep.simulation

import java.util.SplittableRandom
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReference

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.LakestepException
import io.lakestep.commit.{
  Catalogs, CommitOutcome, ConflictCheck, ConflictRules, Database, DatabaseOptions, Finding,
  IsolationLevel, OurChanges, PublishExecutor, Safeguards
}
import io.lakestep.log.{DeletionVectors, LogCommit, RowSets, TableLog, TableRef, VectorChange}
import io.lakestep.storage.ObjectStores
import io.lakestep.timeline.Rule

/**
 * One history: a scenario drawn from a seed, run to its end and judged.
 *
 * The same seed and protections give the same history, request by request.
 */
final class History(seed: Long, protections: Protections, workers: Workers, counts: Counts) {
  import History._

  private val random = new SplittableRandom(seed)
  private val scenario = Scenario.draw(random.split())
  private val scheduler =
    new Scheduler(workers, random.split(), scenario.stayPercent)
  private val world = new World(
    seed,
    scheduler,
    counts,
    Vector("/A", "/B", "/C").take(scenario.tables) ++ Vector("/M", "/N").take(scenario.newTables),
    scenario.newTables > 0,
    scenario.stampGranularityMs
  )

  private val roots =
    if (scenario.secondRoot.isEmpty) Vector(MainRoot) else Vector(MainRoot, OtherRoot)

  /** Whether some client judges every foreign commit a conflict. */
  def isStrict: Boolean = scenario.strictHelpers > 0

  /** Runs it; gives the world with every broken invariant in it. */
  def run(): World = if (scenario.metastores == 0) play()
  else
    SimulatedFolders.of(world) { conf =>
      world.conf = conf
      world.hasPurges = scenario.vacuums.nonEmpty
      world.metastores =
        Vector("m1", "m2").take(scenario.metastores).map(new SimulatedMetastore(world, _))
      world.metastores.foreach(NamesOfSession.setUp(world, _, random.split()))
      counts.event("history with names")
      play()
    }

  private def play(): World = {
    world.tables.zip(scenario.modes).foreach { case (table, mode) => create(table, mode) }
    actors()
    scheduler.run()
    counts.event("history")
    if (scheduler.isAbandoned) world.violated("I6 the history does not end")
    else {
      scheduler.all.foreach { a =>
        if (!a.isDone) world.violated(s"I6 ${a.name} waits for ever")
        a.failure.foreach(e => world.violated(s"UNEXPECTED ${a.name}: ${describe(e)}"))
      }
      try new Judge(world, roots, isStrict).judge()
      catch { case NonFatal(e) => world.violated(s"UNEXPECTED the judge: ${describe(e)}") }
    }
    world
  }

  private def create(table: String, mode: String): Unit = {
    val first = Cells.first(table, mode = mode)
    world.store.create(TableRef(table).slot(0), TableLog.text(first), "set-up")
    (0 until Cells.Count).foreach { i =>
      world.store.create(
        TableRef(table).dataFile(s"${Cells.cell(i)}-0"),
        Array.emptyByteArray,
        "set-up"
      )
    }
  }

  private def actors(): Unit = {
    scenario.clients.zipWithIndex.foreach { case (times, i) =>
      // Names need some history before they tell anything.
      val more =
        if (world.hasPurges) times + 4 else if (world.metastores.isEmpty) times else times + 2
      ours(s"client-$i", MainRoot, more)((client, dice) =>
        if (world.metastores.isEmpty || dice.nextInt(if (world.hasPurges) 3 else 6) == 0)
          client.transaction(some(dice), isolation(dice))
        else overNames(client, dice)
      )
    }
    scenario.secondRoot.zipWithIndex.foreach { case (times, i) =>
      ours(s"other-$i", OtherRoot, times) { (client, dice) =>
        if (dice.nextInt(4) == 0) client.transaction(some(dice), isolation(dice))
        else if (dice.nextInt(3) == 0) client.query(some(dice))
        else client.snapshot(world.tables, readOnly = dice.nextBoolean(), isolation(dice))
      }
    }
    scenario.helpers.zipWithIndex.foreach { case (times, i) =>
      val rules = if (i < scenario.strictHelpers) StrictRules else ConflictCheck
      ours(s"helper-$i", MainRoot, times, rules)((client, dice) =>
        if (dice.nextInt(4) == 0) client.describe() else client.recover()
      )
    }
    scenario.readers.zipWithIndex.foreach { case (times, i) =>
      ours(s"reader-$i", MainRoot, times) { (client, dice) =>
        client.snapshot(world.tables, readOnly = dice.nextInt(3) > 0, isolation(dice))
      }
    }
    scenario.queriers.zipWithIndex.foreach { case (times, i) =>
      ours(s"querier-$i", MainRoot, times)((client, dice) => client.query(some(dice)))
    }
    (0 until scenario.collectors).foreach { i =>
      ours(s"collector-$i", MainRoot, 1 + random.nextInt(3))((client, _) => client.collect())
    }
    scenario.foreign.zipWithIndex.foreach { case (times, i) =>
      actor(s"foreign-$i", times, foreign = true, aims = true) { (client, dice, _) =>
        val writer = new ForeignWriter(world, client, dice, protections.heedsFence)
        () => writer.commit(one(dice))
      }
    }
    scenario.writers.zipWithIndex.foreach { case (times, i) =>
      actor(s"writer-$i", times, foreign = true, aims = true) { (client, dice, actor) =>
        val session = this.session(s"writer-$i", client, MainRoot, dice, actor, names(dice))
        val delta = new ForeignWriter(world, client, dice, protections.heedsFence)
        () => session.statement(one(dice), delta)
      }
    }
    scenario.cleaners.zipWithIndex.foreach { case (times, i) =>
      actor(s"cleaner-$i", times, foreign = true, aims = true) { (client, dice, _) =>
        val cleaner = new LogCleaner(world, client)
        val writer = new ForeignWriter(world, client, dice, protections.heedsFence)
        () => {
          val table = one(dice)
          (1 to dice.nextInt(3)).foreach(_ => writer.commit(table))
          cleaner.clean(table)
        }
      }
    }
    (0 until scenario.droppers).foreach { i =>
      actor(s"dropper-$i", 1, foreign = true, aims = true, fails = false) { (client, dice, _) =>
        val writer = new ForeignWriter(world, client, dice, protections.heedsFence)
        () => writer.drop(one(dice))
      }
    }
    if (world.metastores.nonEmpty) {
      scenario.nameReaders.zipWithIndex.foreach { case (times, i) =>
        ours(s"names-$i", MainRoot, times, lastly = lookLast)(readNames)
      }
      scenario.namers.zipWithIndex.foreach { case (times, i) =>
        actor(s"namer-$i", times, foreign = true, aims = true) { (client, dice, _) => () =>
          NamesOfSession
            .foreign(world, client, oneOf(world.metastores, dice), dice, scenario.contended)
        }
      }
    }
    if (world.hasPurges) scenario.vacuums.zipWithIndex.foreach { case (times, i) =>
      ours(s"vacuum-$i", MainRoot, times)((client, _) => client.vacuumDropped())
    }
    last("recovery-1", World.FirstRecovery)(_ => ())
    last("recovery-2", World.SecondRecovery)(if (scenario.probes) probe else _ => ())
  }

  private def overNames(client: LakestepClient, dice: SplittableRandom): Unit =
    client.transactionOverNames(
      isolation(dice),
      world.tables.filter(t => dice.nextInt(2) == 0 && (world.hasPurges || Set("/M", "/N")(t)))
    )

  private def readNames(client: LakestepClient, dice: SplittableRandom): Unit =
    if (dice.nextBoolean()) client.queryOfNames()
    else client.transactionOverNames(isolation(dice), Vector.empty, readOnly = true)

  /** The first query learns what there is to know of the entries. */
  private def lookLast(client: LakestepClient): Unit = {
    client.queryOfNames()
    client.queryOfNames(isLast = true)
  }

  private def oneOf[A](all: Vector[A], dice: SplittableRandom): A = all(dice.nextInt(all.size))

  /** Most sessions have a metastore, one of two. */
  private def metastore(root: String, dice: SplittableRandom): Option[SimulatedMetastore] =
    if (world.metastores.isEmpty || root != MainRoot || dice.nextInt(6) == 0) None
    else Some(world.metastores(dice.nextInt(3) % world.metastores.size))

  private def one(dice: SplittableRandom): String = world.tables(dice.nextInt(world.tables.size))

  /** Two or all of the tables, in any order. */
  private def some(dice: SplittableRandom): Vector[String] = {
    val shuffled = world.tables.map(t => dice.nextInt() -> t).sortBy(_._1).map(_._2)
    if (dice.nextInt(3) > 0) shuffled.take(2) else shuffled
  }

  private def isolation(dice: SplittableRandom): IsolationLevel =
    if (dice.nextInt(5) == 0) IsolationLevel.Serializable else IsolationLevel.Snapshot

  /** A transaction whose client has died keeps what was dropped since: then there is little to delete. */
  private lazy val onlyVacuumsFail = world.hasPurges && random.nextInt(3) > 0

  /** @param lastly what it does when all is quiet */
  private def ours(
      name: String,
      root: String,
      times: Int,
      rules: ConflictRules = ConflictCheck,
      lastly: LakestepClient => Unit = _ => ())(
      work: (LakestepClient, SplittableRandom) => Unit): Unit =
    actor(
      name,
      times,
      foreign = false,
      aims = !name.startsWith("client"),
      fails = !onlyVacuumsFail || name.startsWith("vacuum")
    ) { (client, dice, actor) =>
      val paths = names(dice)
      val found = metastore(root, dice).map(new NamesOfSession(
        world,
        client,
        dice,
        protections,
        _,
        scenario.refusedPercent,
        scenario.contended
      ))
      val session = this.session(name, client, root, dice, actor, paths, rules, found)
      if (scenario.twins && found.isDefined) twin(name, session, actor, dice)
      if (found.isDefined) lasting += actor -> (() => lastly(session))
      () => work(session, dice)
    }

  /** Another thread of the same process, which reads names. */
  private def twin(
      name: String,
      session: LakestepClient,
      actor: Scheduler#Actor,
      dice: SplittableRandom): Unit = {
    val times = 1 + dice.nextInt(5)
    val own = dice.split()
    scheduler.spawn(s"$name-twin", actor.phase) { thread =>
      val twin = session.twin(own, thread)
      (1 to times).foreach { _ =>
        if (own.nextInt(4) > 0) thread.await(() => session.isMakingNames)
        else thread.sleep(own.nextInt(MostSteps))
        explained(if (own.nextInt(4) > 0) twin.queryOfNames() else readNames(twin, own))
      }
    }
    ()
  }

  private def session(
      name: String,
      client: SimulatedClient,
      root: String,
      dice: SplittableRandom,
      actor: Scheduler#Actor,
      paths: String => String,
      rules: ConflictRules = ConflictCheck,
      names: Option[NamesOfSession] = None): LakestepClient = new LakestepClient(
    world,
    client,
    root,
    dice,
    actor,
    protections,
    paths,
    open(
      root,
      rules,
      publishing(name),
      names.fold[Catalogs](Catalogs.None)(_.catalogs),
      // Most drivers have begun long ago.
      protections.protocol.copy(repairsAtBegin =
        protections.protocol.repairsAtBegin && names.nonEmpty && dice.nextBoolean()
      )
    ),
    names
  )

  /** The path by which a session knows each table; where names hold paths, everybody knows those. */
  private def names(dice: SplittableRandom): String => String =
    if (!scenario.aliases || world.metastores.nonEmpty) identity
    else {
      val paths = world.tables.map(t => t -> (if (dice.nextInt(3) == 0) Alias.of(t) else t)).toMap
      if (paths.exists { case (t, path) => t != path }) counts.event("session with a second path")
      paths
    }

  /** Every table of an entry by an actor of its own, where the scenario asks for it. */
  private def publishing(name: String): PublishExecutor =
    if (!scenario.parallel) PublishExecutor.CallingThread
    else
      new PublishExecutor {
        override def run[A](tasks: Vector[() => A]): Vector[Either[Throwable, A]] =
          if (tasks.size < 2) PublishExecutor.CallingThread.run(tasks)
          else {
            val results = tasks.map(_ => new AtomicReference[Either[Throwable, A]])
            val bodies = tasks.zip(results).map { case (task, result) =>
              () =>
                result.set(
                  try Right(task())
                  catch { case e: Throwable => Left(e) }
                )
            }
            scheduler.runAll(tasks.indices.toVector.map(i => s"$name/$i"), bodies)
            counts.event("published at once")
            results.map(_.get)
          }
      }

  /**
   * @param aims whether it mostly waits until an entry is in flight before it does something
   * @param fails whether its requests may go wrong
   */
  private def actor(
      name: String,
      times: Int,
      foreign: Boolean,
      aims: Boolean,
      fails: Boolean = true)(
      work: (SimulatedClient, SplittableRandom, Scheduler#Actor) => () => Unit): Unit = {
    val dice = random.split()
    val faults = new Faults(
      random.split(),
      if (fails) scenario.faultsPerMille else 0,
      scenario.faultBudget,
      scenario.napPercent,
      scenario.napSteps
    )
    val skew = Skews(random.nextInt(Skews.size))
    scheduler.spawn(name) { actor =>
      val client = new SimulatedClient(name, world, faults, skew, foreign)
      val step = work(client, dice, actor)
      (1 to times).foreach { _ =>
        if (world.hasPurges && foreign && dice.nextInt(3) == 0)
          actor.await(() => world.purges.isDeleting)
        else if (aims && dice.nextInt(4) > 0) actor.await(() => world.store.undecided > 0)
        else actor.sleep(dice.nextInt(MostSteps))
        explained(step())
      }
      lasting.get(actor).foreach { lastly =>
        actor.sleepUntilPhase(World.Quiet)
        explained(lastly())
      }
    }
    ()
  }

  private var lasting = Map.empty[Scheduler#Actor, () => Unit]

  /** A session that nothing goes wrong for: finishes what is left in every database. */
  private def last(name: String, phase: Int)(afterwards: LakestepClient => Unit): Unit = {
    val dice = random.split()
    scheduler.spawn(name, phase) { actor =>
      roots.foreach { root =>
        val client = new SimulatedClient(s"$name$root", world, Faults.none, 0L)
        val session = this.session(name, client, root, dice, actor, paths = identity)
        val failed = session.recoverAll().filterNot(_ => world.dropped.exists(world.isDamaged))
        failed.foreach(e =>
          world.violated(s"I6 $name cannot finish an entry of $root: ${describe(e)}")
        )
        if (root == MainRoot) {
          world.metastores.foreach(makeNames(s"$name-names", actor, dice, 0L, _))
          // In the end nobody is waited for any more who was silent.
          if (phase == World.SecondRecovery) {
            val skewMs = TimeUnit.HOURS.toMillis(2)
            world.metastores.foreach(makeNames(s"$name-late", actor, dice, skewMs, _))
          }
          if (world.hasPurges && phase == World.SecondRecovery)
            world.metastores.foreach { metastore =>
              freshSession(s"$name-vacuum", actor, dice, 0L, metastore).vacuumDropped(isLast = true)
            }
          if (world.metastores.nonEmpty) world.droppedTables = Some(session.dropped)
          afterwards(session)
        }
      }
    }
    ()
  }

  /** What is left to be made in a metastore. */
  private def makeNames(
      name: String,
      actor: Scheduler#Actor,
      dice: SplittableRandom,
      skewMs: Long,
      metastore: SimulatedMetastore): Unit = {
    freshSession(name, actor, dice, skewMs, metastore).recoverAll()
    ()
  }

  /** A session with a metastore for which nothing goes wrong. */
  private def freshSession(
      name: String,
      actor: Scheduler#Actor,
      dice: SplittableRandom,
      skewMs: Long,
      metastore: SimulatedMetastore): LakestepClient = {
    val client = new SimulatedClient(s"$name-${metastore.id}", world, Faults.none, skewMs)
    val names =
      new NamesOfSession(world, client, dice, protections, metastore, 0, contended = false)
    session(name, client, MainRoot, dice, actor, identity, names = Some(names))
  }

  /** I6: after all that somebody can still commit to every table of the main database. */
  private def probe(session: LakestepClient): Unit = {
    val mine =
      if (world.dropped.exists(world.isDamaged)) Vector.empty
      else world.tables.filterNot(t => isOfOtherRoot(t) || world.dropped(t))
    // A put that was on its way may land and conflict once or twice.
    def answers = Iterator.continually(session.probe(mine)).take(4).flatten
    if (mine.nonEmpty && !answers.exists(_.isInstanceOf[CommitOutcome.Committed]))
      world.violated(
        s"I6 nobody else is there, and no transaction over ${mine.mkString(", ")} commits"
      )
  }

  private def isOfOtherRoot(table: String): Boolean = {
    val format = world.store.get(s"$OtherRoot/format.json")
    val binding = world.store.get(TableRef(table).binding)
    def timeline(bytes: Array[Byte]) = io.lakestep.Json.parse(bytes).get("timeline").asText
    binding.map(timeline).exists(b => format.map(timeline).contains(b))
  }

  private def open(
      root: String,
      rules: ConflictRules,
      publishing: PublishExecutor,
      catalogs: Catalogs,
      safeguards: Safeguards)(client: SimulatedClient): Database =
    Database.open(
      root = root,
      stores = ObjectStores.single(client),
      states = new SimulatedStates(client),
      vectors = if (protections.comparesRows) RowSets else History.Unseen,
      clock = client.clock,
      ids = client.ids,
      observer = client.observer,
      options =
        DatabaseOptions(
          publishing,
          maxAttempts = 20,
          putAttempts = 2,
          publishAttempts = 200,
          rules = rules,
          checkpointInterval = scenario.checkpointInterval,
          catalogs = catalogs,
          pause = _ => ()
        ),
      safeguards = safeguards
    )

  /** Errors that a client may get here; anything else is a bug. */
  private def explained(body: => Unit): Unit =
    try body
    catch {
      case e: LakestepException if Expected(e.getCondition) =>
        counts.event(s"error ${e.getCondition}")
      case _: MetastoreAway => counts.event("error metastore away")
      case _: VersionGone => counts.event("error version gone")
      // Whatever is read while a table's files are being deleted.
      case NonFatal(_) if world.dropped.nonEmpty => counts.event("error under a drop")
    }

  private def describe(e: Throwable): String =
    e.toString + e.getStackTrace.take(12).mkString("\n    at ", "\n    at ", "")
}

object History {
  val MainRoot = "/root"
  private val OtherRoot = "/second"

  private val Skews = Vector(0L, 0L, -40L, 40L, -3000L, 3000L)

  /** How long an actor waits at most before it does something. */
  private val MostSteps = 120

  private val Expected = Set(
    "LAKESTEP_BATCH_BEHIND",
    "LAKESTEP_BATCH_IN_FLIGHT",
    "LAKESTEP_STORE_READ_FAILED",
    "LAKESTEP_STORE_WRITE_FAILED",
    "LAKESTEP_OUTCOME_UNKNOWN",
    "LAKESTEP_TABLE_OF_ANOTHER_TIMELINE",
    "LAKESTEP_ENTRY_UNFINISHED",
    "LAKESTEP_METASTORE_WITHOUT_ID",
    "LAKESTEP_SNAPSHOT_GONE",
    "LAKESTEP_SNAPSHOT_BEHIND_DATABASE",
    "LAKESTEP_SNAPSHOT_BEHIND_SESSION"
  )

  /** The union of vectors, whatever rows they take. */
  object Unseen extends DeletionVectors {
    override def merge(
        table: TableRef,
        changes: Vector[VectorChange]): Either[Vector[VectorChange], Vector[ObjectNode]] =
      Right(changes.map { c =>
        Cells.add(c.path, (RowSets.of(c.ours) ++ RowSets.of(c.theirs)).map(_.toInt)).deletionVector
          .getOrElse(c.ours)
      })
  }

  /** Another version's rules: every foreign commit conflicts. */
  object StrictRules extends ConflictRules {
    override val version: Int = ConflictCheck.version
    override def check(ours: OurChanges, theirs: LogCommit): Option[Finding] =
      ConflictCheck.check(ours, theirs).orElse(Some(Finding(Rule.Other("strict"), Vector.empty)))
  }
}

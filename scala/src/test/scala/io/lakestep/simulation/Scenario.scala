package io.lakestep.simulation

import io.lakestep.log.ForeignWriters.{Allow, Forbid, Reserve}
import java.util.SplittableRandom

/**
 * Who takes part in one history, and how much goes wrong.
 *
 * @param tables that exist at first
 * @param clients sessions that run transactions, with the number of transactions
 * @param helpers sessions that run RECOVER, with the number of times
 * @param strictHelpers how many of the helpers judge every foreign commit a conflict
 * @param foreign writers without Lakestep, with the number of commits
 * @param writers sessions that write single tables outside transactions, with the number of statements
 * @param readers sessions that take snapshots, with the number of snapshots
 * @param queriers sessions that query several tables outside transactions, with the number of queries
 * @param modes for each table what it says of foreign writers at first
 * @param aliases whether sessions may know a table by its second path
 * @param secondRoot sessions of another database root over the same tables
 * @param droppers foreign clients that drop a table, and perhaps make it anew
 * @param parallel whether clients publish to several tables at once
 * @param probes whether a transaction over all tables must succeed in the end
 * @param checkpointInterval of the timeline
 * @param napPercent see [[Faults]], as what follows
 * @param stayPercent see [[Scheduler]]
 * @param newTables that do not exist before somebody makes them
 * @param metastores in which tables have names; none in most histories
 * @param namers clients without Lakestep that change names, with the number of changes
 * @param nameReaders sessions that read several names, in transactions or outside, with the number of times
 * @param refusedPercent how many changes the metastores refuse, for no reason
 * @param contended whether all change few names, and sleep while they do
 * @param vacuums sessions that delete the data of dropped tables, with the number of times
 * @param twins whether a process runs queries beside transactions
 */
final case class Scenario(
    tables: Int,
    clients: Vector[Int],
    helpers: Vector[Int],
    strictHelpers: Int,
    foreign: Vector[Int],
    writers: Vector[Int],
    readers: Vector[Int],
    queriers: Vector[Int],
    cleaners: Vector[Int],
    collectors: Int,
    secondRoot: Vector[Int],
    droppers: Int,
    modes: Vector[String],
    aliases: Boolean,
    parallel: Boolean,
    probes: Boolean,
    checkpointInterval: Int,
    napPercent: Int,
    napSteps: Int,
    stayPercent: Int,
    faultsPerMille: Int,
    faultBudget: Int,
    stampGranularityMs: Long,
    newTables: Int,
    metastores: Int,
    namers: Vector[Int],
    nameReaders: Vector[Int],
    refusedPercent: Int,
    twins: Boolean,
    contended: Boolean,
    vacuums: Vector[Int])

object Scenario {

  def draw(random: SplittableRandom): Scenario = {
    def upTo(n: Int): Int = random.nextInt(n + 1)
    def some(actors: Int, times: Int): Vector[Int] =
      Vector.fill(actors)(if (random.nextInt(3) == 0) 1 + random.nextInt(times) else 1)
    def sometimes(percent: Int)(actors: => Vector[Int]): Vector[Int] =
      if (random.nextInt(100) < percent) actors else Vector.empty
    val helpers = some(upTo(2), 2)
    val tables = 2 + upTo(1)
    val modes = Vector(Allow, Allow, Allow, Allow, Forbid, Reserve, Reserve)(upTo(6))
    val allowPercent = Vector(0, 0, 30)(upTo(2))
    val drawn = Scenario(
      tables = tables,
      clients = some(1 + upTo(2), 4),
      helpers = helpers,
      strictHelpers = if (random.nextInt(5) == 0) upTo(helpers.size) else 0,
      foreign = sometimes(75)(some(1 + upTo(1), 3)),
      writers = sometimes(15)(some(1, 2)),
      readers = sometimes(60)(some(1 + upTo(1), 2)),
      queriers = sometimes(40)(some(1 + upTo(1), 2)),
      cleaners = sometimes(30)(some(1, 2)),
      collectors = if (random.nextInt(100) < 25) 1 else 0,
      secondRoot = sometimes(10)(some(1, 2)),
      droppers = if (random.nextInt(100) < 8) 1 else 0,
      modes = Vector.fill(tables)(if (random.nextInt(100) < allowPercent) Allow else modes),
      aliases = random.nextInt(100) < 15,
      parallel = random.nextInt(100) < 40,
      probes = random.nextInt(4) == 0,
      checkpointInterval = Vector(1, 2, 64)(upTo(2)),
      napPercent = Vector(0, 10, 30)(upTo(2)),
      napSteps = Vector(10, 40, 120)(upTo(2)),
      stayPercent = Vector(50, 80, 90, 95, 98)(upTo(4)),
      faultsPerMille = Vector(0, 5, 15, 40)(upTo(3)),
      faultBudget = 1 + upTo(3),
      stampGranularityMs = Vector(1L, 1L, 1000L)(upTo(2)),
      // Drawn last: a history without any is that of its seed as it was before there were some.
      newTables = if (random.nextInt(100) < 15) 1 + upTo(1) else 0,
      metastores =
        if (random.nextInt(100) < 20) 1 + upTo(3) / 3 else 0,
      namers = sometimes(25)(some(1, 2)),
      nameReaders = some(1 + upTo(1), 3),
      refusedPercent = Vector(0, 0, 40)(upTo(2)),
      twins = random.nextBoolean(),
      contended = random.nextInt(3) == 0,
      vacuums = sometimes(40)(some(1 + upTo(1), 3).map(_ + 3))
    )
    // Others who take such names are rare else.
    val contended =
      if (drawn.contended && drawn.twins) drawn.copy(namers = Vector(3, 3)) else drawn
    if (drawn.metastores == 0 || drawn.vacuums.isEmpty) contended
    // Who is at work keeps what was dropped meanwhile.
    else
      contended.copy(
        readers = Vector.empty,
        queriers = Vector.empty,
        cleaners = Vector.empty,
        secondRoot = Vector.empty,
        foreign = drawn.foreign.take(1)
      )
  }
}

package io.lakestep.simulation

import java.util.SplittableRandom

/**
 * Who takes part in one history, and how much goes wrong.
 *
 * @param clients sessions that run transactions, with the number of transactions
 * @param helpers sessions that run RECOVER, with the number of times
 * @param strictHelpers how many of the helpers judge every foreign commit a conflict
 * @param foreign writers without Lakestep, with the number of commits
 * @param readers sessions that take snapshots, with the number of snapshots
 * @param secondRoot sessions of another database root over the same tables
 * @param droppers foreign clients that drop a table, and perhaps make it anew
 * @param parallel whether clients publish to several tables at once
 * @param probes whether a transaction over all tables must succeed in the end
 * @param napPercent see [[Faults]], as what follows
 * @param stayPercent see [[Scheduler]]
 */
final case class Scenario(
    tables: Int,
    clients: Vector[Int],
    helpers: Vector[Int],
    strictHelpers: Int,
    foreign: Vector[Int],
    readers: Vector[Int],
    cleaners: Vector[Int],
    collectors: Int,
    secondRoot: Vector[Int],
    droppers: Int,
    parallel: Boolean,
    probes: Boolean,
    napPercent: Int,
    napSteps: Int,
    stayPercent: Int,
    faultsPerMille: Int,
    faultBudget: Int,
    stampGranularityMs: Long)

object Scenario {

  def draw(random: SplittableRandom): Scenario = {
    def upTo(n: Int): Int = random.nextInt(n + 1)
    def some(actors: Int, times: Int): Vector[Int] =
      Vector.fill(actors)(if (random.nextInt(3) == 0) 1 + random.nextInt(times) else 1)
    def sometimes(percent: Int)(actors: => Vector[Int]): Vector[Int] =
      if (random.nextInt(100) < percent) actors else Vector.empty
    val helpers = some(upTo(2), 2)
    Scenario(
      tables = 2 + upTo(1),
      clients = some(1 + upTo(2), 2),
      helpers = helpers,
      strictHelpers = if (random.nextInt(5) == 0) upTo(helpers.size) else 0,
      foreign = sometimes(75)(some(1 + upTo(1), 3)),
      readers = sometimes(60)(some(1 + upTo(1), 2)),
      cleaners = sometimes(30)(some(1, 2)),
      collectors = if (random.nextInt(100) < 25) 1 else 0,
      secondRoot = sometimes(10)(some(1, 2)),
      droppers = if (random.nextInt(100) < 8) 1 else 0,
      parallel = random.nextInt(100) < 40,
      probes = random.nextInt(4) == 0,
      napPercent = Vector(0, 10, 30)(upTo(2)),
      napSteps = Vector(10, 40, 120)(upTo(2)),
      stayPercent = Vector(50, 80, 90, 95, 98)(upTo(4)),
      faultsPerMille = Vector(0, 5, 15, 40)(upTo(3)),
      faultBudget = 1 + upTo(3),
      stampGranularityMs = Vector(1L, 1L, 1000L)(upTo(2))
    )
  }
}

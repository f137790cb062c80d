package io.lakestep.commit

import io.lakestep.simulation.Workers
import io.lakestep.storage.{ObjectStores, SlowStore}
import io.lakestep.testing.{PassingTime, VirtualTime}

/**
 * A lake on an object store, where the requests of its clients take time. In virtual time nothing
 * else does: what a test itself does in the lake, what statements stage, the states of tables.
 *
 * @param asked is told of each request of the clients when it begins: the verb, and the path
 */
private[lakestep] final class SlowLake(
    val lake: Lake,
    val time: PassingTime,
    latencyMs: Long,
    asked: (String, String) => Unit) {

  val store: SlowStore = new SlowStore(lake.store, latencyMs, time.pause, asked)
  private val stores = ObjectStores.single(store)

  /** @param waits whether it waits for others, in virtual time */
  def client(
      observer: CommitSteps = CommitSteps.Silent,
      waits: Boolean = true,
      catalogs: Catalogs = Catalogs.None): Database =
    lake.client(
      observer,
      options = DatabaseOptions(
        catalogs = catalogs,
        publishExecutor = time,
        afterwards = afterwards,
        pause = if (waits) time.pause else _ => ()
      ),
      stores = stores
    )

  private val afterwards: Afterwards = stages =>
    time.begin(() => stages.foreach(stage => time.run(stage.toVector)))

  /**
   * Pins a table, and stages a commit with one new data file, and without some old ones. What is staged
   * is given to COMMIT, as a driver does.
   */
  def change(
      db: Database,
      txn: BegunTransaction,
      table: String,
      removed: String*): WrittenTable = {
    val pin = db.pinned(txn, lake.path(table), -1)
    val file = s"of-${txn.id}"
    lake.file(table, file)
    lake.stage(txn, table, pin.version, removed.map(lake.remove(_)) :+ lake.add(file): _*)
    val staged = lake.log(table).readStaged(txn.id, pin.version + 1)
    lake.written(table, pin.version).copy(
      stagedTo = pin.version + 1,
      pinnedAs = Some(pin),
      staged = staged.map(commit => commit.version -> commit.actions).toMap
    )
  }
}

private[lakestep] object SlowLake {

  /** One in memory, in virtual time. */
  def apply(
      workers: Workers,
      latencyMs: Long,
      asked: (String, String) => Unit,
      seed: Long = 1): SlowLake = {
    val lake = Lake.inMemory()
    new SlowLake(lake, new VirtualTime(lake.clock, workers, seed), latencyMs, asked)
  }
}

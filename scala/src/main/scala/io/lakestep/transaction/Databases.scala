package io.lakestep.transaction

import java.util.concurrent.{ConcurrentHashMap, Executor, Executors, ThreadFactory}

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{DeltaDeletionVectors, DeltaStateReader}
import io.lakestep.{Clock, ConfKey, Errors, Ids, LakestepConf}
import io.lakestep.commit.{
  CommitSteps, ConflictStrategy, Database, DatabaseOptions, PublishExecutor
}
import io.lakestep.storage.{HadoopStores, ObjectStores}

/**
 * One [[Database]] for each timeline root of this process and each set of settings, shared by the
 * sessions that have them. Its Hadoop settings, credentials for example, are those of the first of them.
 */
object Databases {

  private final case class Settings(
      root: String,
      syncFiles: Boolean,
      observer: Option[String],
      maxAttempts: Int,
      strategy: String,
      timeoutMs: Long,
      checkpointInterval: Int,
      publishThreads: Int)

  private val databases = new ConcurrentHashMap[Settings, Database]
  private val quick = new ConcurrentHashMap[Database, ObjectStores]

  def of(session: SparkSession): Database = {
    def conf[T](key: ConfKey[T]): T = key.from(session.conf.getOption)
    val settings = Settings(
      root(session),
      conf(LakestepConf.SyncFiles),
      conf(LakestepConf.Observer),
      conf(LakestepConf.MaxAttempts),
      conf(LakestepConf.Strategy),
      conf(LakestepConf.TimeoutMs),
      conf(LakestepConf.CheckpointInterval),
      conf(LakestepConf.PublishThreads)
    )
    databases.computeIfAbsent(settings, open(session))
  }

  /** Stores like those of a database, for files that need not survive a crash of the machine. */
  def quickStores(session: SparkSession, database: Database): ObjectStores = quick.computeIfAbsent(
    database,
    _ => new HadoopStores(session.sessionState.newHadoopConf(), durable = false)
  )

  /** `spark.lakestep.root`, or `_lakestep` in the warehouse folder; qualified. */
  def root(session: SparkSession): String = {
    val configured = LakestepConf.Root.from(session.conf.getOption)
    val text = configured.getOrElse(s"${session.sessionState.conf.warehousePath}/_lakestep")
    try BasePath.ref(BasePath.canonical(new Path(text), session.sessionState.newHadoopConf())).uri
    catch {
      case NonFatal(cause) =>
        throw Errors.caused(
          "LAKESTEP_STORE_PATH_INVALID",
          cause,
          "path" -> text,
          "reason" -> String.valueOf(cause.getMessage)
        )
    }
  }

  private def open(session: SparkSession)(settings: Settings): Database =
    Database.open(
      root = settings.root,
      stores = new HadoopStores(session.sessionState.newHadoopConf(), settings.syncFiles),
      states = DeltaStateReader,
      vectors = new DeltaDeletionVectors(session.sessionState.newHadoopConf()),
      clock = Clock.system,
      ids = Ids.random,
      observer = LakestepConf.Observer.as(session.conf.getOption) {
        _.fold[CommitSteps](CommitSteps.Silent)(observer)
      },
      options = DatabaseOptions(
        maxAttempts = settings.maxAttempts,
        // The stores force nothing where they need not; a file that is gone is noticed anyway.
        syncDataFiles = true,
        conflicts =
          LakestepConf.Strategy.as(session.conf.getOption)(ConflictStrategy.named),
        longestWaitMs = settings.timeoutMs,
        checkpointInterval = settings.checkpointInterval,
        listener = LogEvents,
        publishExecutor = PublishExecutor.on(threads(settings.publishThreads))
      )
    )

  private def observer(className: String): CommitSteps =
    try
      Thread.currentThread.getContextClassLoader
        .loadClass(className)
        .getDeclaredConstructor()
        .newInstance()
        .asInstanceOf[CommitSteps]
    catch {
      case cause: ReflectiveOperationException => throw new IllegalArgumentException(cause)
    }

  /** Threads that read with the settings of the session for which they work. */
  private def threads(number: Int): Executor = {
    val pool = Executors.newFixedThreadPool(number, Daemons)
    task => {
      val caller = SparkSession.getActiveSession
      pool.execute { () =>
        caller.foreach(SparkSession.setActiveSession)
        try task.run()
        finally SparkSession.clearActiveSession()
      }
    }
  }

  private object Daemons extends ThreadFactory {
    override def newThread(task: Runnable): Thread = {
      val thread = new Thread(task, "lakestep-publish")
      thread.setDaemon(true)
      thread
    }
  }
}

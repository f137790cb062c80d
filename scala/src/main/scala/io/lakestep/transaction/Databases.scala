package io.lakestep.transaction

import java.lang.{Boolean => JBoolean}
import java.security.PrivilegedAction
import java.util.{Collections, WeakHashMap}
import java.util.concurrent.{ConcurrentHashMap, Executor, Executors}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.hadoop.security.UserGroupInformation
import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{DeltaDeletionVectors, DeltaStateReader, SparkInternals}
import io.lakestep.{Clock, ConfKey, Errors, Ids, LakestepConf}
import io.lakestep.commit.{
  Background, CommitSteps, ConflictStrategy, Database, DatabaseOptions, PublishExecutor,
  TransactionListener
}
import io.lakestep.log.TableRef
import io.lakestep.names.Metastore
import io.lakestep.storage.{CanonicalPath, HadoopStores, ObjectStores, Requests}

/**
 * One [[Database]] for each timeline root of this process and each set of settings, shared by the
 * sessions that have them. Its Hadoop settings are those of the first of them, as are those of the file systems,
 * of which Hadoop keeps one for each user; the user is that of the session which works.
 */
object Databases {

  private final case class Settings(
      root: String,
      syncFiles: Boolean,
      observer: Option[String],
      strategy: String,
      timeoutMs: Long,
      checkpointInterval: Int,
      publishThreads: Int)

  private val databases = new ConcurrentHashMap[Settings, Database]
  Metrics.gauge("timeline.entries") {
    databases.values.asScala.map(_.timeline.known.next - 1).maxOption.getOrElse(0L)
  }
  private val quick = new ConcurrentHashMap[Database, ObjectStores]

  /** What follows COMMIT and ROLLBACK in this process. */
  private[transaction] val background =
    new Background(pool("lakestep-afterwards", 8), most = 1000, carry = forCaller)

  /**
   * Waits for what follows the COMMITs and ROLLBACKs that have returned: deleting what was staged, and
   * checksums of Delta's. Whether it is done.
   */
  def flush(timeoutMs: Long): Boolean = background.flush(timeoutMs)

  def of(session: SparkSession): Database = {
    def conf[T](key: ConfKey[T]): T = key.from(session.conf.getOption)
    val settings = Settings(
      root(session),
      conf(LakestepConf.SyncFiles),
      conf(LakestepConf.Observer),
      conf(LakestepConf.Strategy),
      conf(LakestepConf.TimeoutMs),
      conf(LakestepConf.CheckpointInterval),
      conf(LakestepConf.PublishThreads)
    )
    known(session.sparkContext)
    databases.computeIfAbsent(settings, open(session))
  }

  /** Before a log is listed: that the checksum of what this process has just published is there. */
  private[transaction] def awaitChecksum(table: => TableRef): Unit =
    background.await(table, LongestWaitMs)

  private val LongestWaitMs = 2000L

  /** Stores like those of a database, for files that need not survive a crash of the machine. */
  def quickStores(session: SparkSession, database: Database): ObjectStores = quick.computeIfAbsent(
    database,
    _ => new HadoopStores(session.sessionState.newHadoopConf(), durable = false)
  )

  /** `spark.lakestep.root`, or `_lakestep` in the warehouse folder; qualified. */
  def root(session: SparkSession): String = {
    val configured = LakestepConf.Root.from(session.conf.getOption)
    val text = configured.getOrElse(s"${session.sessionState.conf.warehousePath}/_lakestep")
    try BasePath.ref(CanonicalPath(new Path(text), session.sessionState.newHadoopConf())).uri
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

  private def open(session: SparkSession)(settings: Settings): Database = {
    Database.open(
      root = settings.root,
      stores = Requests.counted(
        new HadoopStores(session.sessionState.newHadoopConf(), settings.syncFiles)
      ),
      states = DeltaStateReader,
      vectors = new DeltaDeletionVectors(session.sessionState.newHadoopConf()),
      clock = Clock.system,
      ids = Ids.random,
      observer = LakestepConf.Observer.as(session.conf.getOption) {
        _.fold[CommitSteps](CommitSteps.Silent)(observer)
      },
      options = DatabaseOptions(
        // The stores force nothing where they need not; a file that is gone is noticed anyway.
        syncDataFiles = true,
        conflicts =
          LakestepConf.Strategy.as(session.conf.getOption)(ConflictStrategy.named),
        longestWaitMs = settings.timeoutMs,
        checkpointInterval = settings.checkpointInterval,
        catalogs = new Metastore(
          SparkInternals.metastore(working),
          working.sessionState.newHadoopConf()
        ),
        listener = TransactionListener.all(Seq(LogEvents, Metrics)),
        publishExecutor = publishExecutor(settings.publishThreads),
        afterwards = background
      )
    )
  }

  /** A database may outlive the Spark that opened it. */
  private def working: SparkSession =
    SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession)
      .getOrElse(throw new IllegalStateException("No Spark session is active"))

  private val contexts = Collections.newSetFromMap(new WeakHashMap[SparkContext, JBoolean])

  /** Spark waits for its listeners when it stops, also as the process ends. */
  private def known(context: SparkContext): Unit = contexts.synchronized {
    if (contexts.add(context)) {
      Metrics.register()
      context.addSparkListener(new SparkListener {
        override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = {
          flush(LongestFlushMs)
          ()
        }
      })
    }
  }

  private val LongestFlushMs = 10000L

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

  private def publishExecutor(threads: Int): PublishExecutor =
    if (threads == 1) PublishExecutor.CallingThread
    else {
      val pool = this.pool("lakestep-publish", threads)
      PublishExecutor.on(task => pool.execute(forCaller(task)))
    }

  /** Works with the settings of the session for which it does, and as the user whose file systems that has. */
  private[transaction] def forCaller(task: Runnable): Runnable = {
    val caller = SparkSession.getActiveSession
    val user = UserGroupInformation.getCurrentUser
    val counted = Requests.carried(task)
    val work: PrivilegedAction[Unit] = () => counted.run()
    () => {
      caller.foreach(SparkSession.setActiveSession)
      try user.doAs(work)
      finally SparkSession.clearActiveSession()
    }
  }

  /** Daemons, which take over nothing of the statement that happened to be the first to need them. */
  private def pool(name: String, threads: Int): Executor = Executors.newFixedThreadPool(
    threads,
    task => {
      val thread = new Thread(null, task, name, 0L, false)
      thread.setDaemon(true)
      thread
    }
  )
}

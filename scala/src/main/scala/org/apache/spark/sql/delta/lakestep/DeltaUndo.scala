package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{
  DeltaLog, DeltaOperations, DomainMetadataUtils, IdentityColumn, Snapshot
}
import org.apache.spark.sql.delta.actions.{
  Action, AddFile, DeletionVectorDescriptor, FileAction, Metadata, Protocol, RemoveFile,
  SetTransaction
}
import org.apache.spark.sql.functions.{col, lit, when}
import org.apache.spark.util.SerializableConfiguration

import io.lakestep.log.CommitMark

/** Takes a table to an earlier state, by one more commit, as Delta's RESTORE does. */
object DeltaUndo {

  /** Files, with the rows in them as far as the statistics of all tell, and bytes. */
  final case class Files(count: Long, rows: Option[Long], sizeBytes: Long)

  object Files {
    val none: Files = Files(0, Some(0), 0)

    private[DeltaUndo] def of(files: Seq[FileAction]): Files = {
      def sum(of: FileAction => Option[Long]) = files.foldLeft(Option(0L)) { (all, file) =>
        for (a <- all; more <- of(file)) yield a + more
      }
      Files(files.size.toLong, sum(_.numLogicalRecords), files.map(_.getFileSize).sum)
    }
  }

  /** What the commit holds. */
  final class Change private[DeltaUndo] (
      private[DeltaUndo] val actions: Seq[Action],
      private[DeltaUndo] val metadata: Option[Metadata],
      private[DeltaUndo] val protocol: Option[Protocol]) {

    private[DeltaUndo] def adds = actions.collect { case add: AddFile => add }

    def isEmpty: Boolean = actions.isEmpty && metadata.isEmpty && protocol.isEmpty
    def added: Files = Files.of(adds)
    def removed: Files = Files.of(actions.collect { case remove: RemoveFile => remove })

    /** Applications that get an earlier mark. */
    def applications: Seq[String] = actions.collect { case t: SetTransaction => t.appId }

    def withoutApplications: Change =
      new Change(actions.filterNot(_.isInstanceOf[SetTransaction]), metadata, protocol)
  }

  val Nothing: Change = new Change(Nil, None, None)

  /** @param actions lines of a commit */
  def of(actions: Seq[String]): Change = {
    val all = actions.map(Action.fromJson)
    new Change(
      all.filterNot(a => a.isInstanceOf[Metadata] || a.isInstanceOf[Protocol]),
      all.collectFirst { case m: Metadata => m },
      None
    )
  }

  /**
   * What makes a table equal to an earlier version of it: files, metadata and marks of applications; the
   * protocol never goes back.
   *
   * @param table the overlay of a transaction
   * @param earlier an overlay in which the version is the newest one
   */
  def between(session: SparkSession, table: Path, earlier: Path): Change = session.withActive {
    val log = DeltaLog.forTable(session, table)
    val now = log.update()
    val wanted = DeltaLog.forTable(session, earlier).update()
    val schema = IdentityColumn.copySchemaWithMergedHighWaterMarks(
      deltaLog = log,
      schemaToCopy = wanted.metadata.schema,
      schemaWithHighWaterMarksToMerge = now.metadata.schema
    )
    val metadata = wanted.metadata.copy(schemaString = schema.json)
    val protocol = wanted.protocol.merge(now.protocol)
    val domains = DomainMetadataUtils.handleDomainMetadataForRestoreTable(wanted, now)
      .filterNot(now.domainMetadata.contains)
    new Change(
      only(now, wanted).map(_.removeWithTimestamp()) ++
        only(wanted, now).map(_.copy(dataChange = true)) ++
        domains ++ applications(now, wanted),
      Some(metadata).filter(_ != now.metadata),
      Some(protocol).filter(_ != now.protocol)
    )
  }

  /** The files of one version that the other one does not have, or with another deletion vector. */
  private def only(one: Snapshot, other: Snapshot): Seq[AddFile] = {
    import org.apache.spark.sql.delta.implicits._
    def keyed(snapshot: Snapshot) = snapshot.allFiles.toDF().withColumn(
      Vector,
      when(col("deletionVector").isNull, lit(""))
        .otherwise(DeletionVectorDescriptor.uniqueIdExpression(col("deletionVector")))
    )
    val there = keyed(other).select(col("path"), col(Vector))
    keyed(one).join(
      there,
      Seq("path", Vector),
      "left_anti"
    ).drop(Vector).as[AddFile].collect().toSeq
  }

  private val Vector = "lakestep_vector"

  /** An application that had none gets the mark that is before all. */
  private def applications(now: Snapshot, wanted: Snapshot): Seq[SetTransaction] = {
    val earlier = wanted.setTransactions.map(t => t.appId -> t.version).toMap
    for {
      mark <- now.setTransactions if !CommitMark.isOwnAppId(mark.appId)
      version = earlier.getOrElse(mark.appId, -1L) if version != mark.version
    } yield SetTransaction(mark.appId, version, Some(System.currentTimeMillis()))
  }

  /**
   * Data files and deletion vectors that would come back and are not there.
   *
   * @param base where the table is
   */
  def missing(session: SparkSession, base: Path, change: Change): Seq[String] = {
    val files = change.adds.flatMap(VersionFiles.pathsOf(base.toString, _)).map(_._1).distinct
    if (files.isEmpty) Nil
    else {
      val conf = session.sparkContext.broadcast(
        new SerializableConfiguration(session.sessionState.newHadoopConf())
      )
      val tasks = (files.size / FilesOfTask + 1).min(MostTasks)
      session.sparkContext.parallelize(files, tasks).filter { file =>
        val path = new Path(file)
        !path.getFileSystem(conf.value.value).exists(path)
      }.collect().toSeq
    }
  }

  /** When the first of the files was removed that come back; before all where the table does not tell of one. */
  def removedAt(session: SparkSession, table: Path, change: Change): Option[Long] =
    if (change.adds.isEmpty) None
    else session.withActive {
      val paths = change.adds.map(_.path).toSet
      val spark = session.sparkContext.broadcast(paths)
      val times = DeltaLog.forTable(session, table).update().tombstones
        .filter(file => spark.value(file.path)).collect()
        .groupMapReduce(_.path)(_.delTimestamp)(_ min _)
      Some(if (paths.forall(times.contains)) times.values.min else Long.MinValue)
    }

  private val FilesOfTask = 100
  private val MostTasks = 64

  /** @param table the overlay of a transaction, which stages the commit */
  def stage(session: SparkSession, table: Path, change: Change): Unit = session.withActive {
    DeltaLog.forTable(session, table).withNewTransaction(None) { txn =>
      txn.readWholeTable()
      change.metadata.foreach { wanted =>
        // No number is given twice.
        val schema = IdentityColumn.copySchemaWithMergedHighWaterMarks(
          deltaLog = txn.deltaLog,
          schemaToCopy = wanted.schema,
          schemaWithHighWaterMarksToMerge = txn.snapshot.metadata.schema
        )
        txn.updateMetadata(wanted.copy(schemaString = schema.json))
      }
      change.protocol.foreach(txn.updateProtocol)
      txn.commit(change.actions, DeltaOperations.Restore(None, None))
    }
    ()
  }
}

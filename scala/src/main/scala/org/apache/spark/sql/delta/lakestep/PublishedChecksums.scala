package org.apache.spark.sql.delta.lakestep

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{
  DeltaLog, DeltaOperations, RecordChecksum, Snapshot, VersionChecksum
}
import org.apache.spark.sql.delta.actions.{Action, CommitInfo, Metadata, Protocol}
import org.apache.spark.sql.delta.commands.DeletionVectorUtils
import org.apache.spark.sql.delta.hooks.ChecksumHook.WriteChecksum
import org.apache.spark.sql.delta.sources.DeltaSQLConf
import org.apache.spark.sql.delta.util.{FileNames, JsonUtils}

import io.lakestep.log.{Action => LogAction, CommitInfo => LogInfo, LogCommit, TableLog}
import io.lakestep.storage.{ObjectStore, PutOutcome}

/**
 * Delta's checksum files of versions that a transaction published: `<version>.crc`, from which the
 * next reader and writer take protocol, metadata and sizes instead of reconstructing the state.
 *
 * Each is Delta's own sum of the checksum before it and the actions of the published commit. Where
 * the one before is missing, as after a commit by a client that writes none, it is that of the
 * state that the statements have read; where they have not, there is none until the next
 * checkpoint. They are read and put by a store of ours: to rename one file on a local disk Delta
 * starts eight processes.
 *
 * @param pinned the session's snapshot that the transaction was found to have begun with
 * @param transaction whose commits count; in the same slot of a table made anew stands another one
 */
final class PublishedChecksums(
    override protected val spark: SparkSession,
    override val deltaLog: DeltaLog,
    store: ObjectStore,
    pinned: Option[Snapshot],
    transaction: String)
    extends RecordChecksum {
  import RecordChecksum._

  /**
   * Puts those of all versions, where that `isQuick`, and whether it did; also once the session has ended.
   *
   * @param versions the table's published commits, in their order
   * @param known the commits that this process has put
   */
  def put(versions: Seq[Long], known: Seq[LogCommit]): Boolean =
    PublishedChecksums.oneByOne(derived(versions, known)).map(_.foreach { case (version, sum) =>
      if (own(version).nonEmpty) writeChecksumFile(version, sum)
    }).isDefined

  /** Whether `put` can be asked, which runs no Spark job. */
  def isQuick(versions: Seq[Long], known: Seq[LogCommit]): Boolean = {
    // Between two of them others may have committed.
    val isRun = versions.zip(versions.drop(1)).forall { case (one, next) => next == one + 1 }
    isOn && isRun && before(versions).isDefined &&
    versions.forall(v => known.exists(_.version == v))
  }

  private def before(versions: Seq[Long]): Option[(Long, VersionChecksum)] =
    pinned.filter(s => versions.headOption.contains(s.version + 1))
      .flatMap(s => s.checksumOpt.map(s.version -> _))

  private def derived(
      versions: Seq[Long],
      known: Seq[LogCommit]): Option[Seq[(Long, VersionChecksum)]] =
    before(versions).flatMap { first =>
      val texts = known.map(c => c.version -> linesOf(TableLog.text(c.actions))).toMap
      versions.foldLeft(Option(Vector(first))) { (sums, version) =>
        sums.flatMap { sums =>
          after(Right(sums.last._2), version, texts(version)).map(sum => sums :+ (version -> sum))
        }
      }.map(_.tail)
    }

  /** The same for all versions, from what stands in the log. */
  def write(versions: Seq[Long]): Unit = if (isOn) {
    versions.foldLeft(Option.empty[(Long, VersionChecksum)]) { (last, version) =>
      val known = last.collect { case (v, sum) if v == version - 1 => sum }
        .orElse(pinned.filter(_.version == version - 1).flatMap(_.checksumOpt))
        .orElse(deltaLog.readChecksum(version - 1))
      val before = known.map(Right(_)).orElse(reconstructed(version - 1).map(Left(_)))
      val checksum = before.flatMap(after(_, version, own(version)))
      checksum.foreach(writeChecksumFile(version, _))
      checksum.map(version -> _)
    }
    ()
  }

  private def isOn: Boolean =
    spark.sessionState.conf.getConf(DeltaSQLConf.DELTA_WRITE_CHECKSUM_ENABLED) &&
      deltaLog.incrementalCommitEnabled

  private def after(
      before: Either[Snapshot, VersionChecksum],
      version: Long,
      lines: Seq[String]): Option[VersionChecksum] = {
    val actions = lines.map(Action.fromJson)
    val isSameSchema = !actions.exists(_.isInstanceOf[Metadata])
    actions.collectFirst { case c: CommitInfo => c }.filter(PublishedChecksums.adds).flatMap {
      info =>
        before match {
          case Right(sum) =>
            summed(sum, version, actions, info, isSameSchema && sum.allFiles.isDefined)
          case Left(snapshot) =>
            incrementallyDeriveChecksum(
              spark,
              deltaLog,
              version,
              actions,
              metadataOpt = None,
              protocolOpt = None,
              info.operation,
              info.txnId,
              previousVersionState = before,
              mustIncludeFileSizeHistogram = false,
              isSameSchema && Snapshot.allFilesInCrcWritePathEnabled(spark, snapshot)
            ).toOption
        }
    }
  }

  /** By the part of Delta's derivation that no active session is needed for: the last one may have stopped. */
  private def summed(
      before: VersionChecksum,
      version: Long,
      actions: Seq[Action],
      info: CommitInfo,
      includesFiles: Boolean): Option[VersionChecksum] =
    for {
      protocol <-
        actions.collectFirst { case p: Protocol => p }.orElse(Option(before.protocol))
      metadata <-
        actions.collectFirst { case m: Metadata => m }.orElse(Option(before.metadata))
      sum <- computeNewChecksum(
        version,
        info.operation,
        info.txnId,
        before,
        oldSnapshot = None,
        actions,
        ignoreAddFiles = operationNamesWhereAddFilesIgnoredForIncrementalCrc(info.operation),
        ignoreRemoveFiles =
          operationNamesWhereRemoveFilesIgnoredForIncrementalCrc(info.operation),
        includesFiles,
        DeletionVectorUtils.deletionVectorsReadable(protocol, metadata),
        DeletionVectorUtils.deletionVectorsWritable(protocol, metadata)
      ).toOption
    } yield sum

  /** The lines of that commit, none if it is not one of the transaction: the first one has its mark. */
  private def own(version: Long): Seq[String] = {
    val file = text(FileNames.unsafeDeltaFile(deltaLog.logPath, version))
    val lines = store.get(file).toSeq.flatMap(linesOf)
    val isOwn = lines.headOption.map(LogAction.parse).exists {
      case info: LogInfo => info.mark.exists(_.transaction == transaction)
      case _ => false
    }
    if (isOwn) lines else Nil
  }

  private def linesOf(text: Array[Byte]): Seq[String] = new String(text, UTF_8).linesIterator.toSeq

  private def reconstructed(version: Long): Option[Snapshot] =
    pinned.filter(s => s.version == version && PublishedChecksums.isReconstructed(s))

  override protected def writeChecksumFile(version: Long, checksum: VersionChecksum): Unit = {
    val isByProtocol =
      spark.sessionState.conf.getConf(DeltaSQLConf.DELTA_CHECKSUM_HISTOGRAM_FIELD_FOLLOWS_PROTOCOL)
    val json =
      if (isByProtocol) JsonUtils.toJson(checksum) else JsonUtils.toJson(checksum.toLegacy)
    val file = text(FileNames.checksumFile(deltaLog.logPath, version))
    store.putIfAbsent(file, s"$json\n".getBytes(UTF_8)) match {
      // The table may have been made anew between the reading and this.
      case PutOutcome.Created => if (own(version).isEmpty) store.delete(file)
      case PutOutcome.Unknown(cause) => throw cause
      case PutOutcome.AlreadyExists => ()
    }
  }

  private def text(file: Path): String = file.toUri.toString
}

object PublishedChecksums {
  import RecordChecksum._

  private val turn = new ReentrantLock
  private val LongestTurnMs = 200L

  /**
   * To sum up takes a core, which statements that follow need more; but who waits for a checksum does not
   * wait for that of another table for long.
   */
  private def oneByOne[A](work: => A): A = {
    val isTaken = turn.tryLock(LongestTurnMs, TimeUnit.MILLISECONDS)
    try work
    finally if (isTaken) turn.unlock()
  }

  /** Whether a statement has reconstructed the state for want of a checksum. */
  def isReconstructed(snapshot: Snapshot): Boolean =
    snapshot.checksumOpt.isEmpty && snapshot.stateReconstructionTriggered

  /** For a snapshot whose state is known anyway. */
  def writeMissing(spark: SparkSession, snapshot: Snapshot): Unit =
    if (snapshot.checksumOpt.isEmpty) {
      WriteChecksum(spark, snapshot.deltaLog, java.util.UUID.randomUUID.toString, snapshot)
      ()
    }

  /**
   * Whether every file that the commit names as added is one more, and every one it removes one
   * less. For one statement Delta looks by itself.
   */
  private def adds(info: CommitInfo): Boolean = {
    val statements = Option(info.operationParameters).flatMap(_.get("statements")).map(_.toString)
    val unlike = operationNamesWhereAddFilesIgnoredForIncrementalCrc ++
      operationNamesWhereRemoveFilesIgnoredForIncrementalCrc
    info.operation != DeltaOperations.ManualUpdate.name &&
    !statements.exists(text => unlike.exists(text.contains))
  }
}

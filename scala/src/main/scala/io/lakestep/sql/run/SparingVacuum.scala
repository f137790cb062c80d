package io.lakestep.sql.run

import io.delta.tables.execution.VacuumTableCommand
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command.LeafRunnableCommand

import org.apache.spark.sql.delta.lakestep.{DeltaReference, DeltaVacuum}
import io.lakestep.LakestepConf
import io.lakestep.commit.Holder
import io.lakestep.log.TableRef
import io.lakestep.overlay.OverlayPath
import io.lakestep.storage.CanonicalPath
import io.lakestep.timeline.Cut
import io.lakestep.transaction.{Autocommit, BasePath, Databases, HeldFiles, Transactions}

/** VACUUM, which leaves what named snapshots and undo need, and what open transactions read or have staged. */
final case class SparingVacuum(vacuum: VacuumTableCommand) extends LeafRunnableCommand
    with Logging {

  override val output: Seq[Attribute] = vacuum.output

  override def run(session: SparkSession): Seq[Row] = {
    val held = for {
      path <- DeltaReference.in(vacuum.child).headOption.map(r => SparingVacuum.base(r.path))
      if Autocommit.isBound(session, path)
      table = BasePath.ref(CanonicalPath(path, session.sessionState.newHadoopConf()))
      log <- Databases.of(session).snapshots.logOf(table)
    } yield sparing(session, table, log)
    held.getOrElse(vacuum.run(session))
  }

  private def sparing(session: SparkSession, table: TableRef, log: String): Seq[Row] = {
    val snapshots = Databases.of(session).snapshots
    val open = Transactions.open(session)
    val own = open.map(_.id)
    var cut = Option.empty[Cut]
    val rows = DeltaVacuum(session, vacuum) { (shown, beforeMs) =>
      // Over a closed table its overlay shows a version more, which nobody else ever sees.
      val head = open.flatMap(_.touched.find(_.ref == table)).fold(shown)(_.pin)
      val holders =
        if (vacuum.dryRun) snapshots.holders(log, table, own)
        else {
          val (put, holders) = snapshots.cutting(log, table, head, beforeMs, own)
          cut = Some(put)
          holders
        }
      spared(session, table, head, beforeMs, holders)
    }(cut.foreach(snapshots.uncut))
    cut.foreach(snapshots.ended)
    rows
  }

  private def spared(
      session: SparkSession,
      table: TableRef,
      head: Long,
      beforeMs: Long,
      holders: Vector[Holder]): DeltaVacuum.Spared = {
    val now = System.currentTimeMillis()
    val files = new HeldFiles(session, table)
    val held = for (holder <- holders; version <- holder.version) yield {
      val left = files.count(holder, version)
      val whose = if (holder.kind == Holder.OfTransaction) "transaction" else "snapshot"
      logInfo(
        s"VACUUM of $table leaves ${left.files} files, ${left.bytes} bytes, which $whose " +
          s"${holder.name} reads in version $version and the newest version does not have"
      )
      version -> (files.data(holder, version)(_: String))
    }
    // A snapshot that is made now may read what is removed before Delta looks for it.
    val isShort = beforeMs > now - SparingVacuum.SkewMs
    val newest = Option.when(isShort)(head -> ((base: String) =>
      files.data(head)(base).getOrElse(session.emptyDataFrame.selectExpr(
        "'' AS path",
        "0L AS bytes",
        "'' AS vector"
      ))
    ))
    val open = holders.filter(_.kind == Holder.OfTransaction).map(_.sinceMs - SparingVacuum.SkewMs)
    val undo =
      for (ms <- LakestepConf.undoMs(session.conf.getOption) if now - ms < beforeMs) yield {
        val left = files.countRemoved(now - ms)
        logInfo(s"VACUUM of $table leaves ${left.files} files, ${left.bytes} bytes, for undo")
        files.removed(now - ms)(_: String)
      }
    DeltaVacuum.Spared(
      (open ++ Option.when(isShort)(now)).minOption,
      (held ++ newest).distinctBy(_._1).map(_._2) ++ undo
    )
  }
}

object SparingVacuum {

  /** The same plan, with a VACUUM that spares. */
  private[sql] def in(root: LogicalPlan): LogicalPlan = root match {
    case vacuum: VacuumTableCommand => SparingVacuum(vacuum)
    case other => other
  }

  private def base(path: Path): Path =
    OverlayPath.baseOf(path)

  /** How far clocks may be apart. */
  private val SkewMs = 3600000L
}

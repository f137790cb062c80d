package io.lakestep.sql.run

import io.delta.tables.execution.VacuumTableCommand
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command.LeafRunnableCommand

import org.apache.spark.sql.delta.lakestep.{DeltaReference, DeltaVacuum}
import io.lakestep.commit.Holder
import io.lakestep.log.TableRef
import io.lakestep.overlay.OverlayPath
import io.lakestep.storage.CanonicalPath
import io.lakestep.transaction.{BasePath, Databases, HeldFiles, Transactions}

/** VACUUM, which leaves what named snapshots read, and what open transactions read or have staged. */
final case class SparingVacuum(vacuum: VacuumTableCommand) extends LeafRunnableCommand
    with Logging {

  override val output: Seq[Attribute] = vacuum.output

  override def run(session: SparkSession): Seq[Row] = {
    val database = Databases.of(session)
    val held = for {
      table <-
        DeltaReference.in(vacuum.child).headOption.map(r => SparingVacuum.ref(session, r.path))
      log <- database.snapshots.logOf(table)
    } yield DeltaVacuum(session, vacuum) { (head, beforeMs) =>
      val own = Transactions.open(session).map(_.id)
      val holders =
        if (vacuum.dryRun) database.snapshots.holders(log, own)
        else database.snapshots.cutting(log, table, head, beforeMs, own)
      spared(session, table, head, beforeMs, holders)
    }
    held.getOrElse(vacuum.run(session))
  }

  private def spared(
      session: SparkSession,
      table: TableRef,
      head: Long,
      beforeMs: Long,
      holders: Vector[Holder]): DeltaVacuum.Spared = {
    val snapshots = holders.collect { case s: Holder.OfSnapshot if s.table.version < head => s }
    val since = holders.collect { case t: Holder.OfTransaction => t.sinceMs }.minOption
    snapshots.foreach { s =>
      logInfo(s"VACUUM of $table leaves what snapshot ${s.snapshot.name} reads in version " +
        s"${s.table.version}")
    }
    since.filter(_ < beforeMs).foreach { ms =>
      logInfo(s"VACUUM of $table leaves what was written or removed since a transaction began, " +
        s"${java.time.Instant.ofEpochMilli(ms)}, that is open")
    }
    DeltaVacuum.Spared(since, snapshots.map(HeldFiles.state(session, _)).distinct)
  }
}

object SparingVacuum {

  /** The same plan, with a VACUUM that spares. */
  private[sql] def in(root: LogicalPlan): LogicalPlan = root match {
    case vacuum: VacuumTableCommand => SparingVacuum(vacuum)
    case other => other
  }

  private def ref(session: SparkSession, path: Path): TableRef = {
    val base = if (OverlayPath.isOverlay(path)) OverlayPath.parse(path).base else path
    BasePath.ref(CanonicalPath(base, session.sessionState.newHadoopConf()))
  }
}

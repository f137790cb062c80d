package io.lakestep.sql.read

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, AttributeSet, Expression, PredicateHelper, SubqueryExpression
}
import org.apache.spark.sql.catalyst.plans.logical.{
  AppendData, Command, GlobalLimit, LocalLimit, LogicalPlan, Offset, Sample, Tail, V2WriteCommand
}
import org.apache.spark.sql.delta.DeltaColumnMapping
import org.apache.spark.sql.delta.actions.AddFile
import org.apache.spark.sql.delta.commands.{DeleteCommand, MergeIntoCommand, UpdateCommand}
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.execution.datasources.{
  InsertIntoDataSourceCommand, SaveIntoDataSourceCommand
}
import org.apache.spark.sql.types.StructType

import org.apache.spark.sql.delta.lakestep.{DeltaReference, DeltaScan}
import io.lakestep.log.{FileAction, ReadScan, ReadSet, RowFilter}
import io.lakestep.sql.guard.{CommandCatalogue, Decision, StatementKinds, TransactionGuard}
import io.lakestep.transaction.Transaction

/**
 * What a statement of a SERIALIZABLE transaction reads, recorded when it is planned, before it runs.
 * What cannot be narrowed counts as the whole table: counts that the log alone answers, cached
 * data, a LIMIT, a scan that was planned without statistics.
 */
private[sql] object ReadSets extends PredicateHelper {

  /**
   * Records the reads of a query, or of those inside a command.
   *
   * @param noted the scans of each table, by name, before any was optimized away
   */
  def query(
      transaction: Transaction,
      plan: LogicalPlan,
      noted: Map[Path, Set[String]]): Unit =
    if (transaction.recordsReads && !isPlannedAgain(plan) && !isPlannedLater(plan)) {
      val scans = scansIn(plan)
      val isCut = plan.collectWithSubqueries {
        case _: GlobalLimit | _: LocalLimit | _: Offset | _: Tail | _: Sample => ()
      }.nonEmpty
      (noted.keySet ++ scans.keySet).foreach { path =>
        val found = scans.getOrElse(path, Nil)
        val isMissing = (noted.getOrElse(path, Set.empty) -- found.map(_._1)).nonEmpty
        val isWhole = isCut || isMissing || found.exists(_._2.isEmpty)
        if (isWhole) transaction.reads(path, ReadSet.WholeTable)
        else found.flatMap(_._2).foreach(scan => transaction.reads(path, ReadSet(scan)))
      }
    }

  /**
   * Records what a command reads of the tables that it changes. The rows that it writes come from
   * queries: in its plan, or of its own, which are planned, and recorded, when it runs.
   */
  def command(transaction: Transaction, command: Command): Unit =
    if (transaction.recordsReads) command match {
      case update: UpdateCommand => target(transaction, update.target, update.condition.toSeq)
      case delete: DeleteCommand => target(transaction, delete.target, delete.condition.toSeq)
      case merge: MergeIntoCommand =>
        val readsAll = merge.notMatchedBySourceClauses.nonEmpty
        target(transaction, merge.target, if (readsAll) Nil else Seq(merge.condition))
      case _: AppendData =>
      case save: SaveIntoDataSourceCommand if save.mode == SaveMode.Append =>
      case insert: InsertIntoDataSourceCommand if !insert.overwrite =>
      case overwrite: V2WriteCommand => whole(transaction, overwrite.table)
      case save: SaveIntoDataSourceCommand =>
        DeltaReference.in(save).foreach(t => transaction.reads(t.path, ReadSet.WholeTable))
      // A change of metadata conflicts with every change of data, a rearrangement with none.
      case other if StatementKinds.keepsRows(other) =>
      case other if readsData(other) => whole(transaction, other)
      case _ =>
    }

  /** DESCRIBE HISTORY and DETAIL of Delta, and every other command that writes a table. */
  private def readsData(command: Command): Boolean =
    CommandCatalogue.decide(command) == Decision.Staged ||
      command.getClass.getName.startsWith("org.apache.spark.sql.delta.")

  /** Adaptive execution plans what is left of a query again, when it was recorded already. */
  private def isPlannedAgain(plan: LogicalPlan): Boolean =
    plan.exists(_.isInstanceOf[LogicalQueryStage])

  /** Delta takes the query of an INSERT as it is, and plans it when it writes. */
  private def isPlannedLater(plan: LogicalPlan): Boolean = plan.isInstanceOf[V2WriteCommand]

  /** By table: each scan with its name; nothing for one that cannot be narrowed. */
  private def scansIn(plan: LogicalPlan): Map[Path, Seq[(String, Option[ReadScan])]] =
    plan.collectWithSubqueries {
      case relation @ DeltaScan(index) =>
        val name = NoteStatementTables.nameOf(relation)
        index match {
          case other if !StatementTables.mayChange(other) => None
          case prepared: PreparedDeltaFileIndex =>
            val filter =
              RowFilters.of(prepared.preparedScan.allFilters, column(prepared.metadata.schema)(_))
            Some(prepared.path -> (name -> Some(scanOf(filter, prepared.preparedScan.files))))
          case other => Some(other.path -> (name -> None))
        }
    }.flatten.groupMap(_._1)(_._2)

  private def scanOf(filter: RowFilter, files: Seq[AddFile]): ReadScan =
    ReadScan(
      filter,
      Option.when(files.size <= ReadSet.MostFiles)(files.map(f => FileAction.plain(f.path)).toSet)
    )

  private def column(schema: StructType)(attribute: Attribute): Option[String] =
    schema.find(_.name.equalsIgnoreCase(attribute.name)).map(DeltaColumnMapping.getPhysicalName)

  /** The rows of the target for which a condition over target and source may hold. */
  private def target(
      transaction: Transaction,
      table: LogicalPlan,
      conditions: Seq[Expression]): Unit = {
    val scan = table.collectFirst {
      case relation @ DeltaScan(index) =>
        val own = AttributeSet(relation.output)
        val alone = conditions.flatMap(splitConjunctivePredicates).filter { c =>
          c.deterministic && c.references.nonEmpty && c.references.subsetOf(own) &&
          !SubqueryExpression.hasSubquery(c)
        }
        scanOf(
          RowFilters.of(alone, column(index.metadata.schema)(_)),
          index.matchingFiles(Nil, alone)
        )
    }
    val reads = scan.fold(ReadSet.WholeTable)(ReadSet(_))
    tablesIn(table).foreach(transaction.reads(_, reads))
  }

  private def whole(transaction: Transaction, plan: LogicalPlan): Unit =
    tablesIn(plan).foreach(transaction.reads(_, ReadSet.WholeTable))

  private def tablesIn(plan: LogicalPlan): Seq[Path] =
    DeltaReference.in(plan).map(_.path) ++ TransactionGuard.inside(plan).flatMap(tablesIn)
}

package io.lakestep.sql.guard

import scala.io.{Codec, Source}
import scala.util.Using

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** What a plan node is while its session has an open transaction. */
sealed trait Decision

object Decision {

  /** Writes Delta tables, and the overlay stages what it writes. */
  case object Staged extends Decision

  /** What is [[Harmless]] for a temporary object, and [[Staged]] for one of the metastore. */
  case object Named extends Decision

  /** Reads only. */
  case object Read extends Decision

  /** Changes something of the session, or of its memory, that no other session can see. */
  case object Harmless extends Decision

  /**
   * Cannot be part of a transaction.
   *
   * @param reason a subclass of `LAKESTEP_UNSUPPORTED_IN_TRANSACTION`
   */
  final case class Refused(reason: String) extends Decision
}

/**
 * One line of `lakestep-commands.tsv`.
 *
 * @param onlyIf the condition on the node's content without which it is refused with `reason`
 * @param early  refused before names are resolved, as Spark acts on it during analysis
 */
final case class CatalogueEntry(
    className: String,
    decision: Decision,
    onlyIf: Option[CatalogueCondition],
    reason: Option[String],
    early: Boolean)

/**
 * Decides every logical plan node by its class; a class that is not listed is refused.
 *
 * The list is data, so that a new version of Spark or Delta is judged by reading a diff: the
 * catalogue's test fails for each class that it brings, whether it is a command or not. (Side
 * effects are not confined to `Command`: `WriteToStream` and `CloneTableStatement` are none.)
 */
object CommandCatalogue {

  private val Resource = "lakestep-commands.tsv"
  private val Ours = "io.lakestep."

  lazy val entries: Map[String, CatalogueEntry] =
    Using.resource(Source.fromResource(Resource, getClass.getClassLoader)(Codec.UTF8)) {
      _.getLines()
        .filterNot(line => line.isEmpty || line.startsWith("#"))
        .map(parse)
        .map(entry => entry.className -> entry)
        .toMap
    }

  /** The decision on this node alone; the plans inside it are nodes of their own. */
  def decide(plan: LogicalPlan): Decision = entry(plan) match {
    case None if plan.getClass.getName.startsWith(Ours) => Decision.Harmless
    case None => Decision.Refused("UNKNOWN_COMMAND")
    case Some(_) if CatalogueCondition.writesNothing(plan) => Decision.Harmless
    case Some(entry) =>
      val failed = entry.onlyIf.filterNot(_.holds(plan))
      if (entry.decision == Decision.Named && CatalogueCondition.Temporary.holds(plan))
        Decision.Harmless
      else if (failed.isEmpty)
        if (entry.decision == Decision.Named) Decision.Staged else entry.decision
      else Decision.Refused(entry.reason.getOrElse("UNKNOWN_COMMAND"))
  }

  /** Whether it changes names of the metastore, which it looks up while it runs. */
  def changesNames(plan: LogicalPlan): Boolean = entry(plan).exists { found =>
    found.decision == Decision.Named || found.onlyIf.exists(CatalogueCondition.ofNames) ||
    OfNames(plan.getClass.getSimpleName)
  } && !CatalogueCondition.Temporary.holds(plan)

  private val OfNames = Set(
    "AlterDatabasePropertiesCommand",
    "CreateDatabaseCommand",
    "DropDatabaseCommand",
    "RenameTable",
    "SetTableLocation",
    "UnsetNamespacePropertiesCommand"
  )

  /** A refusal that must not wait for the end of the analysis. */
  def decideEarly(plan: LogicalPlan): Option[Decision.Refused] =
    entry(plan).filter(_.early).map(_.decision).collect { case refused: Decision.Refused =>
      refused
    }

  private def entry(plan: LogicalPlan): Option[CatalogueEntry] = entries.get(plan.getClass.getName)

  private def parse(line: String): CatalogueEntry = line.split('\t') match {
    case Array(className, decision, onlyIf, reason, _) =>
      val reasonKey = Option(reason).filterNot(_ == "-")
      CatalogueEntry(
        className,
        (decision, reasonKey) match {
          case ("STAGED", _) => Decision.Staged
          case ("NAMED", _) => Decision.Named
          case ("READ", _) => Decision.Read
          case ("HARMLESS", _) => Decision.Harmless
          case ("REFUSED", Some(key)) => Decision.Refused(key)
          case _ => throw new IllegalStateException(s"$Resource: no such decision: $line")
        },
        Option(onlyIf).filterNot(key => key == "-" || key == "early").map(CatalogueCondition(_)),
        reasonKey,
        early = onlyIf == "early"
      )
    case _ => throw new IllegalStateException(s"$Resource: not five columns: $line")
  }
}

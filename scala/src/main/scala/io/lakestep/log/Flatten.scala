package io.lakestep.log

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json

/**
 * Makes of the staged commits of a transaction on one table what is published: one commit, or as few
 * as can say the same.
 *
 * Applied to the pinned version the result gives the same state as the staged commits one after
 * another. It is a function of its arguments alone. What cannot be published at all is
 * LAKESTEP_UNSUPPORTED_COMBINATION, by which the statement has been refused before. Source: Delta's
 * PROTOCOL.md, "Action Reconciliation".
 */
object Flatten {

  /** What flattening has to know about the table; see `WrittenTable` and `NetChanges`. */
  final case class Table(
      name: String,
      path: TableRef,
      pin: Long,
      rowTracking: Boolean,
      pinned: Option[PinnedHeader],
      rowIdHighWaterMark: Option[Long] = None) {
    def isNew: Boolean = pin < 0
  }

  def apply(transaction: String, table: Table, commits: Vector[LogCommit]): NetChanges = {
    val staged = check(table, commits)
    if (bakesRows(table, staged)) asStaged(transaction, table, commits)
    else if (table.isNew && hasRowIds(table, staged))
      result(transaction, table, Vector(ofNewTable(staged)))
    else
      result(
        transaction,
        table,
        OneCommit.groups(table.pinned, staged)(c => StagedEffect.of(c.actions))
      )
  }

  /** Every staged commit as a part of its own: plain readers will see the versions in between. */
  def keepingCommits(transaction: String, table: Table, commits: Vector[LogCommit]): NetChanges =
    result(transaction, table, check(table, commits).map(Vector(_)))

  /** Without what lets statements through the fence, which nobody publishes. */
  private def check(table: Table, commits: Vector[LogCommit]): Vector[LogCommit] = {
    val staged = commits.filterNot(ForeignWriters.isStaging)
    OneCommit.fault(table.rowTracking, staged.map(c => StagedEffect.of(c.actions)))
      .foreach(fault => throw fault.error(table.name))
    staged
  }

  /** Each at the version at which it was staged, those that do nothing, too. */
  private def asStaged(
      transaction: String,
      table: Table,
      commits: Vector[LogCommit]): NetChanges = {
    val groups = commits.map(c => Vector(c).filterNot(ForeignWriters.isStaging))
    changes(transaction, table, parts(table, groups)).copy(bakesRows = true)
  }

  /**
   * Whether rows of files that the transaction has made were copied by a later statement: then the new
   * files hold the row ids and versions that the first ones were staged with.
   */
  private def bakesRows(table: Table, staged: Vector[LogCommit]): Boolean =
    table.rowTracking && {
      val pinned = table.rowIdHighWaterMark.getOrElse(-1L)
      val made = mutable.Set.empty[String]
      staged.exists { commit =>
        val files = commit.files
        val isBaked = files.exists(f => made(f.plainPath))
        made ++= files.filter(f => !f.isRemoved && f.baseRowId.exists(_ > pinned)).map(_.plainPath)
        isBaked
      }
    }

  /** Whether every file that there is in the end has row ids, or need not have them. */
  private def hasRowIds(table: Table, staged: Vector[LogCommit]): Boolean =
    !table.rowTracking || net(staged).forall(_.baseRowId.isDefined)

  /** All rows of a new table are new, to its change feed and to streams. */
  private def ofNewTable(staged: Vector[LogCommit]): Vector[LogCommit] = staged.map { commit =>
    LogCommit(
      commit.version,
      commit.actions.collect {
        case add: AddFile if !add.dataChange => AddFile(add.body.deepCopy().put("dataChange", true))
        case action if !action.isInstanceOf[ChangeFile] => action
      }
    )
  }

  /** Each group as a commit on top of those before it. */
  private def parts(table: Table, groups: Vector[Vector[LogCommit]]): Vector[NetPart] =
    groups.foldLeft((table, Vector.empty[NetPart])) { case ((now, done), group) =>
      val part = NetPart(summary(table, group), net(now, group))
      now.copy(pinned = now.pinned.map(_.after(part))) -> (done :+ part)
    }._2

  private def result(
      transaction: String,
      table: Table,
      groups: Vector[Vector[LogCommit]]): NetChanges = {
    val (made, own) = parts(table, groups).zip(groups).filter(_._1.actions.nonEmpty).unzip
    changes(transaction, table, made.map(numbered(table, own, _)))
  }

  /** Versions that were staged are called by the number, above the pin, of the part that makes them. */
  private def numbered(table: Table, own: Vector[Vector[LogCommit]], part: NetPart): NetPart = {
    def partOf(staged: Long) = 1 + own.indexWhere(_.exists(_.version >= staged)).max(0)
    part.copy(actions = part.actions.map {
      case m: MetaData => m.withVersionsMoved(table.pin, v => table.pin + partOf(v))
      case other => other
    })
  }

  private def changes(transaction: String, table: Table, parts: Vector[NetPart]): NetChanges = {
    val all = NetChanges(transaction, table.path.uri, table.pin, parts, None)
    if (all.changesHeader) all.copy(before = table.pinned) else all
  }

  private def net(table: Table, staged: Vector[LogCommit]): Vector[Action] = {
    val files = netFiles(staged)
    val actions = staged.flatMap(_.actions)
    header(table, staged, actions) ++
      lastOf(actions.collect { case d: DomainMetadata => d })(_.domain).filterNot { d =>
        d.removed && table.pinned.exists(!_.domains(d.domain))
      } ++
      lastOf(
        actions.collect { case t: SetTransaction if !CommitMark.isOwnAppId(t.appId) => t }
      )(_.appId) ++
      files.collect { case r: RemoveFile => r } ++
      files.collect { case a: AddFile => a } ++
      actions.collect { case c: ChangeFile => c }
  }

  /** Protocol and metadata where they differ from those of the version below. */
  private def header(
      table: Table,
      staged: Vector[LogCommit],
      actions: Vector[Action]): Vector[Action] = {
    val protocol = actions.collect { case p: Protocol => p }.reduceOption(_ union _)
    val metaData = actions.collect { case m: MetaData => m }.lastOption
    table.pinned match {
      case None => protocol.toVector ++ metaData
      case Some(pinned) =>
        val united = protocol.fold(pinned.protocol)(pinned.protocol.union)
        val (p, m) = metaData match {
          case None => (united, pinned.metaData)
          case Some(last) => ForeignWriters.publishable(pinned, staged, united, last)
        }
        Vector(p).filterNot(_.sameAs(pinned.protocol)) ++ Vector(m).filterNot { m =>
          Json.canonical(pinned.metaData.body) == Json.canonical(m.body)
        }
    }
  }

  private def lastOf[A](actions: Vector[A])(key: A => String): Vector[A] =
    actions.groupBy(key).toVector.sortBy(_._1).map(_._2.last)

  /**
   * @param base the removal of what was live at the pin, when the first action on the path was one
   * @param now what is live after the actions so far
   */
  private final case class NetFile(base: Option[RemoveFile], now: Option[AddFile])

  /** Files that commits add and remove in the end, one after another. */
  def net(commits: Vector[LogCommit]): Vector[FileAction] = netFiles(commits)

  private def netFiles(staged: Vector[LogCommit]): Vector[FileAction] = {
    val files = mutable.LinkedHashMap.empty[String, NetFile]
    for (commit <- staged) {
      commit.actions.foreach {
        case r: RemoveFile =>
          files.get(r.path) match {
            case None => files(r.path) = NetFile(Some(r), None)
            case Some(f) => if (f.now.exists(_.dvId == r.dvId)) files(r.path) = f.copy(now = None)
          }
        case _ => ()
      }
      commit.actions.foreach {
        case a: AddFile =>
          files(a.path) = files.getOrElse(a.path, NetFile(None, None)).copy(now = Some(a))
        case _ => ()
      }
    }
    files.values.toVector.flatMap {
      case NetFile(Some(r), Some(a)) if r.dvId == a.dvId => Vector.empty
      case NetFile(base, now) => base.toVector ++ now
    }
  }

  /** The commitInfo of the one statement, or one that sums the statements up. */
  private def summary(table: Table, staged: Vector[LogCommit]): CommitInfo = {
    val infos = staged.filter(_.actions.exists(!_.isInstanceOf[CommitInfo])).flatMap(_.info)
    val body = infos match {
      case Vector(one) => one.body.deepCopy()
      case Vector() => Json.obj().put("operation", CommitInfo.Summary)
      case several => united(several)
    }
    Seq(
      CommitMark.Field,
      "inCommitTimestamp",
      "timestamp",
      "txnId",
      "readVersion"
    ).foreach(body.remove)
    Option(body.get(CommitInfo.Parameters)).collect { case o: ObjectNode =>
      o.properties.removeIf(e => e.getValue.asText.contains(s"${TableRef.OverlayScheme}://"))
    }
    if (table.pin >= 0) body.put("readVersion", table.pin)
    body.put("isBlindAppend", infos.nonEmpty && infos.forall(_.isBlindAppend))
    CommitInfo(body)
  }

  private def united(infos: Vector[CommitInfo]): ObjectNode = {
    val body = infos.last.body.deepCopy()
    Seq("operation", CommitInfo.Parameters, "operationMetrics", "tags").foreach(body.remove)
    val notes = infos.flatMap(i => Option(i.body.get("userMetadata"))).filter(_.isTextual)
    if (notes.nonEmpty) body.put("userMetadata", notes.map(_.asText).distinct.mkString("; "))
    body.put("operation", CommitInfo.Summary)
    val operations = Json.array()
    infos.foreach(i => operations.add(i.operation.getOrElse("UNKNOWN")))
    body.putObject(CommitInfo.Parameters).put(CommitInfo.Statements, Json.text(operations))
    val metrics = sums(infos)
    if (metrics.nonEmpty) {
      val node = body.putObject("operationMetrics")
      metrics.foreach { case (name, value) => node.put(name, value.toString) }
    }
    val tags = infos.map(i => fields(i, "tags")).reduce((a, b) => a.filter(e => b.contains(e)))
    if (tags.nonEmpty) {
      val node = body.putObject("tags")
      tags.foreach { case (name, value) => node.set[JsonNode](name, value) }
    }
    body
  }

  /** Counts of files, rows and bytes add up; of everything else a sum would say nothing. */
  private def sums(infos: Vector[CommitInfo]): Vector[(String, Long)] =
    infos
      .flatMap(i => fields(i, "operationMetrics"))
      .collect { case (name, value) if name.startsWith("num") => name -> value.asText.toLongOption }
      .collect { case (name, Some(value)) => name -> value }
      .groupMapReduce(_._1)(_._2)(_ + _)
      .toVector
      .sortBy(_._1)

  private def fields(info: CommitInfo, field: String): Vector[(String, JsonNode)] = {
    import scala.jdk.CollectionConverters._
    Option(info.body.get(field)).collect { case o: ObjectNode => o }.toVector
      .flatMap(_.properties.asScala.map(e => e.getKey -> e.getValue))
  }
}

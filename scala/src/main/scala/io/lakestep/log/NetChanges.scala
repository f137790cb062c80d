package io.lakestep.log

import com.fasterxml.jackson.databind.JsonNode

import io.lakestep.{Errors, Json}

/**
 * One commit as it will be published, but for what only its slot decides: mark, times, row ids.
 *
 * @param info the commitInfo of the statement, or the summary of several
 * @param actions everything else, in the order of publication
 */
final case class NetPart(info: CommitInfo, actions: Vector[Action]) {
  def operations: Vector[String] = info.operations
  lazy val adds: Vector[AddFile] = actions.collect { case a: AddFile => a }
  lazy val removes: Vector[RemoveFile] = actions.collect { case r: RemoveFile => r }
  lazy val metaData: Option[MetaData] = actions.collectFirst { case m: MetaData => m }
  lazy val protocol: Option[Protocol] = actions.collectFirst { case p: Protocol => p }
  lazy val txns: Vector[SetTransaction] = actions.collect { case t: SetTransaction => t }
  lazy val domains: Vector[DomainMetadata] = actions.collect { case d: DomainMetadata => d }
}

/** Metadata and protocol of a table at the pinned version, as its log has them. */
final case class PinnedHeader(metaData: MetaData, protocol: Protocol, domains: Set[String]) {

  /** Of the version that the part makes. */
  def after(part: NetPart): PinnedHeader = {
    val (gone, set) = part.domains.partition(_.removed)
    PinnedHeader(
      part.metaData.getOrElse(metaData),
      part.protocol.getOrElse(protocol),
      domains -- gone.map(_.domain) ++ set.map(_.domain)
    )
  }
}

/**
 * What a transaction does to one table, relative to the pinned version.
 *
 * @param parts the commits to publish, usually one
 * @param before what an undo puts back when the transaction changes metadata or protocol
 * @param bakesRows whether files hold row ids and versions that are right only where each part gets
 *   the version at which it was staged; the entry says so (`RowIds.asStaged`)
 */
final case class NetChanges(
    transaction: String,
    table: String,
    pin: Long,
    parts: Vector[NetPart],
    before: Option[PinnedHeader],
    bakesRows: Boolean = false) {

  def isEmpty: Boolean = parts.forall(_.actions.isEmpty)
  lazy val actions: Vector[Action] = parts.flatMap(_.actions)
  lazy val adds: Vector[AddFile] = parts.flatMap(_.adds)
  lazy val removes: Vector[RemoveFile] = parts.flatMap(_.removes)

  /** The files that were there before, by path, each with the vector that it had. */
  def removedOfOthers: Map[String, Option[String]] = {
    type Files = Map[String, Option[String]]
    val (_, removed) = parts.foldLeft((Set.empty[(String, Option[String])], Map.empty: Files)) {
      case ((added, removed), part) =>
        val here = part.removes.map(r => r.path -> r.dvId).filterNot(added)
        (added ++ part.adds.map(a => a.path -> a.dvId), removed ++ here)
    }
    removed
  }

  /**
   * The files that the transaction made for a part, from the first one or a later one on; a file that
   * only gets a deletion vector is older.
   *
   * @param table where it lies
   */
  def madeFiles(table: TableRef, from: Int = 1): Vector[String] = {
    val older = removedOfOthers.keySet
    parts.drop(from - 1).flatMap(_.actions).flatMap {
      case a: AddFile =>
        Option.when(!older(a.path))(table.dataFile(a.path)).toVector ++
          a.deletionVector.flatMap(table.deletionVectorFile(_))
      case c: ChangeFile => Vector(table.dataFile(c.path))
      case _ => Vector.empty
    }.distinct
  }

  def changesHeader: Boolean = parts.exists(p => p.metaData.isDefined || p.protocol.isDefined)

  /**
   * BLAKE3 over `part <number>` and the sorted canonical lines of its actions, part by part, each
   * line ended by a line feed. The commitInfo is left out: publishing completes it.
   */
  lazy val hash: String = Json.blake3(
    parts.zipWithIndex.map { case (part, i) =>
      val lines = part.actions.map(a => Json.canonical(a.node)).sorted
      (s"part ${i + 1}" +: lines).mkString("", "\n", "\n")
    }.mkString
  )

  def encode: Array[Byte] = {
    val header = Json
      .obj()
      .put("transaction", transaction)
      .put("table", table)
      .put("pin", pin)
      .put("parts", parts.size)
    before.foreach { b =>
      header.set[JsonNode]("metaDataBefore", b.metaData.body)
      header.set[JsonNode]("protocolBefore", b.protocol.body)
    }
    val lines = Other(NetChanges.Header, header) +: parts.zipWithIndex.flatMap { case (part, i) =>
      Other(NetChanges.Part, Json.obj().put("number", i + 1)) +: part.info +: part.actions
    }
    TableLog.text(lines)
  }
}

object NetChanges {
  private val Header = "lakestep"
  private val Part = "part"

  /** Condition: LAKESTEP_LOG_CORRUPT, naming the file. */
  def decode(file: String, bytes: Array[Byte]): NetChanges = {
    def corrupt(reason: String) =
      Errors("LAKESTEP_LOG_CORRUPT", "file" -> file, "reason" -> reason)
    val lines = TableLog.parse(file, bytes)
    val header = lines.headOption match {
      case Some(Other(Header, body)) => body
      case _ => throw corrupt("its first line is not the header of net actions")
    }
    def child(name: String) =
      Option(header.get(name)).collect { case o: com.fasterxml.jackson.databind.node.ObjectNode =>
        o
      }
    val parts = lines.tail.foldLeft(Vector.empty[Vector[Action]]) {
      case (all, Other(Part, _)) => all :+ Vector.empty
      case (all, action) if all.nonEmpty => all.init :+ (all.last :+ action)
      case _ => throw corrupt("it has an action outside a part")
    }
    if (parts.size != header.path("parts").asInt(-1))
      throw corrupt("it does not have all its parts")
    val read = parts.map {
      case (info: CommitInfo) +: actions => NetPart(info, actions)
      case _ => throw corrupt("a part does not begin with commitInfo")
    }
    val before = for (m <- child("metaDataBefore"); p <- child("protocolBefore"))
      yield PinnedHeader(MetaData(m), Protocol(p), Set.empty)
    NetChanges(
      header.path("transaction").asText,
      header.path("table").asText,
      header.path("pin").asLong,
      read,
      before
    )
  }
}

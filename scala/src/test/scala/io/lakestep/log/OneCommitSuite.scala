package io.lakestep.log

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.Json
import io.lakestep.commit.Lake

/**
 * Every sequence of up to three kinds of statements, on tables with and without a change data feed, row
 * tracking and column mapping: published so that every reader gets what the commits one after another
 * say.
 */
final class OneCommitSuite extends AnyFunSuite {
  private val lake = Lake.inMemory()

  private val Feed = "delta.enableChangeDataFeed"
  private val Mapping = "delta.columnMapping.mode"
  private val Tracking = "rowTracking"

  /** How the table stands while a statement stages its commit. */
  private case class Now(state: ReplayedState, made: Int) {
    def hasFeed: Boolean = state.metaData.property(Feed).contains("true")
    def tracks: Boolean = state.protocol.writerFeatures.exists(_(Tracking))
    def live: Vector[AddFile] = state.files.values.map(_.add).toVector.sortBy(_.path)

    def file(name: String, dv: Option[String] = None, dataChange: Boolean = true): AddFile = {
      val add = lake.add(name, dv, dataChange = dataChange)
      if (tracks) AddFile(add.body.put("baseRowId", 100 + made)) else add
    }

    def fresh(dataChange: Boolean = true): AddFile = file(s"new$made", dataChange = dataChange)

    def gone(f: AddFile, dataChange: Boolean = true): RemoveFile =
      lake.remove(
        f.path,
        f.deletionVector.map(_.path("pathOrInlineDv").asText),
        dataChange = dataChange
      )

    def property(key: String, value: String): MetaData =
      state.metaData.withProperty(key, Some(value))
  }

  private type Statement = Now => Vector[Action]

  private def change(now: Now)(f: AddFile): Vector[Action] =
    if (now.hasFeed)
      Vector(
        now.gone(f),
        now.fresh(),
        ChangeFile(Json.obj().put("path", s"cdc${now.made}").put("dataChange", false))
      )
    else Vector(now.gone(f), now.fresh())

  private val statements: Vector[(String, Statement)] = Vector(
    "append" -> (now => Vector(now.fresh())),
    "delete the first file" -> (now => now.live.headOption.map(now.gone(_)).toVector),
    "delete the last file" -> (now => now.live.lastOption.map(now.gone(_)).toVector),
    "overwrite" -> (now => now.live.map(now.gone(_)) :+ now.fresh()),
    "delete rows of the first file" -> (now =>
      now.live.headOption.toVector.flatMap(f =>
        Vector(now.gone(f), now.file(f.path, Some(s"dv${now.made}")))
      )
    ),
    "update the first file" -> (now => now.live.headOption.toVector.flatMap(change(now))),
    "update the last file" -> (now => now.live.lastOption.toVector.flatMap(change(now))),
    "rearrange" -> (now =>
      if (now.live.size < 2) Vector.empty
      else now.live.map(now.gone(_, dataChange = false)) :+ now.fresh(dataChange = false)
    ),
    "switch the feed on" -> (now => Vector(now.property(Feed, "true"))),
    "switch the feed off" -> (now => Vector(now.property(Feed, "false"))),
    "support row tracking" -> (now =>
      Vector(now.state.protocol.union(lake.protocol(Tracking)))
    ),
    "another property" -> (now => Vector(now.property("delta.appendOnly", "false"))),
    "another schema" -> (now =>
      Vector(MetaData(now.state.metaData.body.deepCopy().put("schemaString", s"s${now.made}")))
    )
  )

  private def tables: Seq[(String, Vector[Action])] = for {
    feed <- Seq("false", "true")
    mapping <- Seq("none", "name")
    tracks <- Seq(false, true)
  } yield s"feed $feed, mapping $mapping, row tracking $tracks" -> Vector(
    lake.metaData("i", properties = Map(Feed -> feed, Mapping -> mapping)),
    if (tracks) lake.protocol(Tracking) else lake.protocol("appendOnly"),
    lake.add("a"),
    lake.add("b")
  )

  /** What a reader of the change feed is told by a commit, each file that comes as 1, that goes as -1. */
  private def told(commit: LogCommit, hasFeed: Boolean): Map[String, Int] = {
    val cdc = commit.actions.collect { case c: ChangeFile => c.path -> 1 }
    val files = commit.files.filter(_.dataChange).map { f =>
      s"${f.path}@${f.dvId}" -> (if (f.isRemoved) -1 else 1)
    }
    if (!hasFeed) Map.empty else sum(if (cdc.nonEmpty) cdc else files)
  }

  private def sum(counts: Seq[(String, Int)]): Map[String, Int] =
    counts.groupMapReduce(_._1)(_._2)(_ + _).filter(_._2 != 0)

  private def hasFeed(state: ReplayedState): Boolean =
    state.metaData.property(Feed).contains("true")

  private case class Run(base: ReplayedState, commits: Vector[LogCommit], last: ReplayedState) {

    def feed: Map[String, Int] = {
      val states = commits.scanLeft(base)(_ next _).tail
      sum(commits.zip(states).flatMap { case (c, s) => told(c, hasFeed(s)) })
    }
  }

  private def run(base: ReplayedState, sequence: Seq[Statement]): Run =
    sequence.zipWithIndex.foldLeft(Run(base, Vector.empty, base)) { case (run, (statement, i)) =>
      val commit = LogCommit(base.version + 1L + i, statement(Now(run.last, i)))
      if (commit.actions.isEmpty) run
      else run.copy(commits = run.commits :+ commit, last = run.last.next(commit))
    }

  /** What the commits tell somebody else than those that were staged, if they do. */
  private def fault(run: Run, published: Vector[LogCommit]): Option[String] = {
    val states = published.scanLeft(run.base)(_ next _)
    val steps = published.zip(states.tail)
    def tracks(s: ReplayedState) = s.protocol.writerFeatures.exists(_(Tracking))
    def state(s: ReplayedState) = (s.files, s.metaData, s.protocol.writerFeatures)
    def lacksIds(c: LogCommit) = c.files.exists(f => !f.isRemoved && f.baseRowId.isEmpty)
    def rearranges(c: LogCommit) = c.files.map(_.dataChange).distinct == Vector(false)
    if (state(states.last) != state(run.last)) Some("another state")
    else if (sum(steps.flatMap { case (c, s) => told(c, hasFeed(s)) }) != run.feed)
      Some("another change feed")
    else if (published.exists(_.files.map(_.dataChange).distinct.size > 1) ||
      published.forall(rearranges) && Flatten.net(run.commits.filter(_.changesData)).nonEmpty)
      Some("changes of rows that a stream does not see")
    else if (steps.exists { case (c, s) => tracks(s) && lacksIds(c) })
      Some("files without row ids")
    else None
  }

  private def published(base: ReplayedState, net: NetChanges): Vector[LogCommit] =
    net.parts.zipWithIndex.map { case (part, i) => LogCommit(base.version + 1L + i, part.actions) }

  for ((name, actions) <- tables) test(s"what is published says what was staged: $name") {
    val base = ReplayedState.empty.next(LogCommit(4, actions))
    val pinned = PinnedHeader(base.metaData, base.protocol, Set.empty)
    var one, several, kept = 0
    for (length <- 1 to 3; sequence <- statements.combined(length)) {
      val staged = run(base, sequence.map(_._2))
      def clue = sequence.map(_._1).mkString(", ")
      val effects = staged.commits.map(c => StagedEffect.of(c.actions))
      val tracks = OneCommit.tracksRows(Some(pinned), effects)
      val net =
        Flatten("t", Flatten.Table("t", TableRef("/t"), 4, tracks, Some(pinned)), staged.commits)
      assert(fault(staged, published(base, net)).isEmpty, clue)
      if (net.bakesRows) {
        kept += 1
        assert(tracks && net.parts.size == staged.commits.size, clue)
      } else if (net.parts.size > 1) several += 1
      else one += 1
    }
    assert(one > 100 && several > 100 && kept > 10)
  }

  test("commits are not split without need: two statements") {
    for {
      (name, actions) <- tables
      (first, one) <- statements
      (next, two) <- statements
    } {
      val base = ReplayedState.empty.next(LogCommit(4, actions))
      val pinned = PinnedHeader(base.metaData, base.protocol, Set.empty)
      val staged = run(base, Seq(one, two))
      val groups = OneCommit.groups(Some(pinned), staged.commits)(c => StagedEffect.of(c.actions))
      // Delta reads the feed of a version by one schema.
      val movesColumns = base.metaData.mapsColumns && Set(first, next)("another schema")
      // Of two images of one row in one version nobody could tell which one is the later.
      val mayRepeat = staged.commits.count(c => StagedEffect.of(c.actions).hasChangeFiles) > 1
      if (groups.size > 1 && !movesColumns && !mayRepeat) {
        val net = Flatten.net(staged.commits) ++ staged.commits.flatMap(_.actions).collect {
          case other @ (_: MetaData | _: Protocol | _: ChangeFile) => other
        }
        val commit = LogCommit(base.version + 1, net)
        assert(fault(staged, Vector(commit)).isDefined, s"$name: $first, $next")
      }
    }
  }

  private implicit class Combined[A](items: Vector[A]) {
    def combined(length: Int): Iterator[Vector[A]] =
      if (length == 0) Iterator(Vector.empty)
      else items.iterator.flatMap(item => combined(length - 1).map(item +: _))
  }
}

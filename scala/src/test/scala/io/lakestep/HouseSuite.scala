package io.lakestep

import java.nio.file.{Files, Path, Paths}

import scala.io.Source
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

/**
 * How the code is laid out: folders know lower folders only, no circles of files, no long files, and a
 * protocol that knows neither Spark nor Delta.
 *
 * Who uses whom is told by the compiler (`file-graph.tsv`), as inside a package no import shows it.
 */
final class HouseSuite extends AnyFunSuite {

  private val Ours = "io/lakestep"
  private val EngineRoom = "org/apache/spark/sql/delta/lakestep"

  private val engineRoom = Paths.get("scala/src/main/scala", EngineRoom)

  /** A folder may use those before it. */
  private val folders = Vector(
    "generated",
    Ours,
    s"$Ours/storage",
    s"$Ours/log",
    s"$Ours/timeline",
    s"$Ours/commit",
    EngineRoom,
    s"$Ours/overlay",
    s"$Ours/names",
    s"$Ours/transaction",
    s"$Ours/catalog",
    s"$Ours/sql/guard",
    s"$Ours/sql/listing",
    s"$Ours/sql/command",
    s"$Ours/sql/parse",
    s"$Ours/sql/read",
    s"$Ours/sql/redirect",
    s"$Ours/sql/run",
    s"$Ours/api"
  )

  /** Pairs of files that use one another, and why. */
  private val pairs: Map[Set[String], String] = Map(
    Set("generated/LakestepSqlParser.java", "generated/LakestepSqlVisitor.java") ->
      "ANTLR makes them so",
    Set(s"$Ours/log/Action.scala", s"$Ours/log/CommitMark.scala") ->
      "a mark is a field of one action, and is written as another",
    Set(s"$Ours/log/ForeignWriters.scala", s"$Ours/log/StagedEffect.scala") ->
      "the mode is a part of what a commit does, and the mode of all follows from what they do"
  )

  private lazy val uses: Map[String, Set[String]] =
    Using.resource(Source.fromResource("file-graph.tsv"))(_.getLines().toVector)
      .map(_.split('\t')).groupMap(_(0))(_(1)).view.mapValues(_.toSet).toMap

  private def folder(file: String): String = file.take(file.lastIndexOf('/'))

  test("a folder uses only folders before it") {
    for ((file, others) <- uses; other <- others if folder(other) != folder(file)) {
      assert(folders.contains(folder(file)), file)
      assert(folders.indexOf(folder(other)) < folders.indexOf(folder(file)), s"$file uses $other")
    }
  }

  test("of two files at most one uses the other, but for pairs with a reason") {
    def reached(from: String): Set[String] = {
      @annotation.tailrec
      def go(seen: Set[String], next: Set[String]): Set[String] =
        if (next.isEmpty) seen
        else go(seen ++ next, next.flatMap(uses.getOrElse(_, Set.empty)) -- seen -- next)
      go(Set.empty, uses.getOrElse(from, Set.empty))
    }
    val all = uses.keys.map(file => file -> reached(file)).toMap
    val circles = all.collect {
      case (file, above) if above(file) => above.filter(all.getOrElse(_, Set.empty)(file)) + file
    }.toSet
    assert(circles == pairs.keySet)
  }

  test("no file of the product is longer than 400 lines") {
    val sources =
      filesBelow("scala/src/main", ".scala", ".java") ++ filesBelow("python/src", ".py") ++
        filesBelow("benchmarks", ".py")
    assert(sources.size > 100)
    val long = sources.map(f => f -> Files.readAllLines(f).size).filter(_._2 > 400)
    assert(long.isEmpty)
  }

  test(
    "storage, log, timeline and commit know neither Spark nor Delta; storage alone knows Hadoop"
  ) {
    val engines = """\b(org\.apache\.spark|io\.delta|org\.apache\.hadoop)\b""".r
    for {
      name <- Seq("storage", "log", "timeline", "commit")
      file <- filesBelow(s"scala/src/main/scala/io/lakestep/$name", ".scala")
    } {
      val known = engines.findAllIn(code(file)).toSet
      assert((known -- Set("org.apache.hadoop").filter(_ => name == "storage")).isEmpty, file)
    }
  }

  test("what is private in Spark or Delta is reached from the engine room alone") {
    val reflection =
      """\b(StackWalker|getDeclaredField|getDeclaredMethod|getMethod|setAccessible)\b""".r
    val outside = filesBelow("scala/src/main", ".scala").filterNot(_.startsWith(engineRoom))
    for (file <- outside) assert(reflection.findFirstIn(code(file)).isEmpty, file)
  }

  test("no pattern takes a case class of Spark or Delta by the number of its fields") {
    val others =
      """(?!org\.apache\.spark\.sql\.delta\.lakestep)(?:org\.apache\.spark|io\.delta)\.[\w.]*?"""
    val imports = ("(?s)import " + others + """(?:\{([^}]*)\}|(\w+))\n""").r
    for (file <- filesBelow("scala/src/main", ".scala"); text = Files.readString(file)) {
      val names = imports.findAllMatchIn(text)
        .flatMap(m => Option(m.group(1)).getOrElse(m.group(2)).split(',').map(_.trim)).toSet
      // Fields of which only the place is known.
      val patterns = """\bcase [^=\n]*?\b([A-Z]\w+)\((?:[^()=\n]*, )?_\b""".r
      for (m <- patterns.findAllMatchIn(code(file)))
        assert(!names(m.group(1)), s"$file: ${m.matched}")
    }
  }

  private def filesBelow(folder: String, endings: String*): Vector[Path] =
    Using.resource(Files.walk(Paths.get(folder))) { files =>
      files.iterator.asScala.filter(f => endings.exists(f.toString.endsWith)).toVector.sorted
    }

  /** Without comments and texts. */
  private def code(file: Path): String =
    Files.readString(file).replaceAll("(?s)/\\*.*?\\*/", "")
      .replaceAll("\"[^\"\n]*\"", "").replaceAll("//.*", "")
}

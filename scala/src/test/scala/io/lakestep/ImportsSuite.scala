package io.lakestep

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/** Imports go down only, and the protocol knows neither Spark nor Delta. */
final class ImportsSuite extends AnyFunSuite {

  private val main = Paths.get("scala/src/main/scala/io/lakestep")

  /** Lower ones first; those of one row may not know each other. */
  private val rows: Vector[Set[String]] = Vector(
    Set("storage"),
    Set("timeline"),
    Set("delta"),
    Set("overlay"),
    Set("transaction"),
    Set("session"),
    Set("catalog"),
    Set("sql"),
    Set("api")
  )

  private val OurPackage = """\bio\.lakestep\.([a-z]+)\b""".r
  private val Engine = """\b(org\.apache\.spark|io\.delta|org\.apache\.hadoop)\b""".r

  private def sources(folder: String): Vector[(Path, String)] = {
    val files = Files.walk(main.resolve(folder))
    try
      files.iterator.asScala.filter(_.toString.endsWith(".scala")).toVector.sorted.map { file =>
        val code = Files.readString(file).replaceAll("(?s)/\\*.*?\\*/", "")
          .replaceAll("\"[^\"\n]*\"", "").replaceAll("//.*", "")
        file -> code
      }
    finally files.close()
  }

  test("every folder has its row, and its code names only itself and folders of lower rows") {
    val folders =
      Files.list(main).iterator.asScala.filter(Files.isDirectory(_)).map(_.getFileName.toString)
    assert(folders.toSet == rows.flatten.toSet)
    for ((row, i) <- rows.zipWithIndex; folder <- row; (file, code) <- sources(folder)) {
      val above = OurPackage.findAllMatchIn(code).map(_.group(1)).toSet
        .intersect(rows.flatten.toSet) - folder -- rows.take(i).flatten
      assert(above.isEmpty, s"$file knows ${above.mkString(", ")}")
    }
  }

  test(
    "storage, timeline and transaction know no class of Spark or Delta; stores alone know Hadoop"
  ) {
    for (folder <- Seq("storage", "timeline", "transaction"); (file, code) <- sources(folder)) {
      val engines =
        Engine.findAllIn(code).toSet -- Set("org.apache.hadoop").filter(_ => folder == "storage")
      assert(engines.isEmpty, file)
    }
  }

  test("of the folder delta only what begins with Delta knows Spark or Delta") {
    sources("delta").filterNot(_._1.getFileName.toString.startsWith("Delta")).foreach {
      case (file, code) => assert(Engine.findFirstIn(code).isEmpty, file)
    }
  }
}

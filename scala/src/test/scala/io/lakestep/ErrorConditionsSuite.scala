package io.lakestep

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.funsuite.AnyFunSuite

/** The list of error conditions, against the code that raises them and the tests that ask for them. */
final class ErrorConditionsSuite extends AnyFunSuite {

  private val conditions: JsonNode = read("lakestep-error-conditions.json")

  private val names: Vector[String] = fields(conditions)

  private def read(resource: String): JsonNode =
    Using.resource(Thread.currentThread.getContextClassLoader.getResourceAsStream(resource))(in =>
      Json.parse(in.readAllBytes())
    )

  private def fields(node: JsonNode): Vector[String] = node.fieldNames.asScala.toVector

  /** Everything under these folders of the project, as one text. */
  private def text(folders: String*): String =
    folders.map(Paths.get(_)).filter(Files.isDirectory(_)).flatMap { folder =>
      val files = Files.walk(folder)
      try files.iterator.asScala.filter(isSource).map(Files.readString).toVector
      finally files.close()
    }.mkString("\n")

  private def isSource(file: Path): Boolean =
    Seq(".scala", ".java", ".py", ".sql").exists(file.getFileName.toString.endsWith)

  private def missing(from: String): Vector[String] =
    names.filterNot(name => from.matches(s"(?s).*\\b$name\\b.*"))

  test("conditions, and the subclasses of each, are sorted") {
    assert(names == names.sorted)
    names.foreach { name =>
      val subclasses =
        Option(conditions.get(name).get("subClass")).fold(Vector.empty[String])(fields)
      assert(subclasses == subclasses.sorted, name)
    }
  }

  test("every condition has a message and an SQLSTATE that Spark knows") {
    val known = fields(read("error/error-states.json")).toSet
    names.foreach { name =>
      val condition = conditions.get(name)
      assert(condition.get("message").size > 0, name)
      assert(known(condition.get("sqlState").asText), s"$name: ${condition.get("sqlState")}")
    }
  }

  test("every condition is raised by the product") {
    assert(missing(text("scala/src/main", "python/src")).isEmpty)
  }

  test("every condition is asked for by a test") {
    val here = Paths.get(s"scala/src/test/scala/io/lakestep/${getClass.getSimpleName}.scala")
    assert(Files.exists(here))
    assert(missing(text("scala/src/test", "tests", "python/tests")).isEmpty)
  }

  test("every condition that the product raises is in the list") {
    val raised = "LAKESTEP_[A-Z_]+(?=[\".])".r.findAllIn(text("scala/src/main")).toSet
    val settings = Set("LAKESTEP_JAR")
    assert((raised -- names -- settings).isEmpty)
    val parts = "(LAKESTEP_[A-Z_]+)\\.([A-Z_]+)(?=\")".r.findAllMatchIn(text("scala/src/main"))
    parts.map(m => m.group(1) -> m.group(2)).foreach { case (name, part) =>
      assert(fields(conditions.get(name).get("subClass")).contains(part), name)
    }
  }
}

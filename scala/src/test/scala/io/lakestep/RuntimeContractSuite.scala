package io.lakestep

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.internal.SQLConf
import org.scalatest.funsuite.AnyFunSuite

/** The versions that are accepted, and what is looked for in them. */
class RuntimeContractSuite extends AnyFunSuite {

  private val line = RuntimeContract.line(Versions.spark)

  private def refused(condition: String)(body: => Unit): Map[String, String] = {
    val error = intercept[UnsupportedRuntimeException](body)
    assert(error.getCondition == condition && error.getSqlState == "55000")
    assert(!error.getMessage.contains("<"))
    error.getMessageParameters.asScala.toMap
  }

  private def unsupported(spark: String, delta: String): Map[String, String] =
    refused("LAKESTEP_UNSUPPORTED_RUNTIME")(RuntimeContract.check(spark, delta))

  test("the Spark and Delta this JAR was built for are accepted and its version is published") {
    RuntimeContract.check()
    Versions.publish()
    Versions.publish()
    assert(Versions.lakestep.matches("""\d+\.\d+\.\d+.*"""))
    assert(new SQLConf().getConfString(Versions.versionKey) == Versions.lakestep)
  }

  test("patch releases are accepted when they have all that the code names") {
    RuntimeContract.check(s"$line.9", Versions.delta)
    RuntimeContract.check(Versions.spark, "4.4.1")
  }

  test(
    "another Spark line is refused with the versions that are supported, and how to get its JAR"
  ) {
    val others = Seq("3.5.6", "4.0.1", "4.1.0", "4.2.0", "4.3.0").filterNot(_.startsWith(line))
    for (other <- others) {
      val parameters = unsupported(other, Versions.delta)
      assert(parameters("component") == "Spark" && parameters("found") == other)
      assert(parameters("spark") == s"$line.x" && parameters("delta") == "4.4.x")
      assert(parameters("lines") == "4.0, 4.1, 4.2")
    }
  }

  test("another Delta line is refused, and none") {
    assert(unsupported(Versions.spark, "4.0.0")("component") == "Delta")
    assert(unsupported(Versions.spark, null)("found") == "none")
  }

  test("what is looked up by name, and what the code names, is all there") {
    for (list <- Seq("lakestep-contract.tsv", "lakestep-linkage.tsv")) {
      val rows = RuntimeContract.rows(list).asScala.toVector
      assert(rows.size > 10 && rows.forall(_.length == 4), list)
      assert(rows.forall(_(3).nonEmpty), list)
      assert(RuntimeContract.missing(list).isEmpty)
    }
  }
}

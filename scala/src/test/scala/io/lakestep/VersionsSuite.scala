package io.lakestep

import org.apache.spark.sql.internal.SQLConf
import org.scalatest.funsuite.AnyFunSuite

class VersionsSuite extends AnyFunSuite {

  private def refused(body: => Unit): LakestepException = {
    val error = intercept[LakestepException](body)
    assert(error.getCondition == "LAKESTEP_UNSUPPORTED_RUNTIME")
    assert(error.getSqlState == "55000")
    error
  }

  test("the Spark and Delta this JAR was built for are accepted and its version is published") {
    Versions.checkRuntime()
    Versions.checkRuntime()
    assert(Versions.lakestep.matches("""\d+\.\d+\.\d+.*"""))
    assert(new SQLConf().getConfString(Versions.versionKey) == Versions.lakestep)
  }

  test("a patch release of the supported Spark line is accepted") {
    Versions.check("4.2.7", Some(Versions.delta))
  }

  test("another Spark line is refused with the versions that are supported") {
    val parameters =
      refused(Versions.check("4.1.0", Some(Versions.delta))).getMessageParameters
    assert(parameters.get("component") == "Spark")
    assert(parameters.get("found") == "4.1.0")
    assert(parameters.get("spark") == "4.2.x")
    assert(parameters.get("delta") == Versions.delta)
  }

  test("another Delta version is refused") {
    assert(
      refused(Versions.check(Versions.spark, Some("4.0.0"))).getMessageParameters
        .get("component") == "Delta"
    )
  }

  test("a missing Delta is refused") {
    assert(
      refused(Versions.check(Versions.spark, None)).getMessageParameters.get("found") == "none"
    )
  }
}

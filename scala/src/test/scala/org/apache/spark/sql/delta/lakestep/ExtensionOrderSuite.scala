package org.apache.spark.sql.delta.lakestep

import org.apache.spark.sql.SparkSessionExtensions
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException

final class ExtensionOrderSuite extends AnyFunSuite {

  test("extensions whose lists cannot be reached are refused, not left in the wrong order") {
    val none: Option[SparkSessionExtensions] = None
    val error = intercept[LakestepException] {
      ExtensionOrder.injectOutermostParser(none.orNull, (_, parser) => parser)
    }
    assert(error.getCondition == "LAKESTEP_EXTENSION_ORDER" && error.getSqlState == "55000")
  }
}

package io.lakestep

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

class LakestepConfSuite extends AnyFunSuite {

  test("the page of settings lists every one") {
    val page = Files.readString(Path.of("docs/settings.md"))
    val missing = LakestepConf.all.map(_.key).filterNot(key => page.contains(s"| `$key` |"))
    assert(missing.isEmpty)
  }

  test("a value that cannot be read is refused with its key") {
    val error = intercept[LakestepException](LakestepConf.MaxAttempts.from(_ => Some("many")))
    assert(error.getCondition == "LAKESTEP_INVALID_SETTING")
    assert(error.getSqlState == "22023")
    assert(error.getMessageParameters.get("key") == LakestepConf.MaxAttempts.key)
  }
}

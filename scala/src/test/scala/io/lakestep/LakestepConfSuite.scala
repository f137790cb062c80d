package io.lakestep

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

class LakestepConfSuite extends AnyFunSuite {

  test("the page of settings lists every one") {
    val page = Files.readString(Path.of("docs/settings.md"))
    val missing = LakestepConf.all.map(_.key).filterNot(key => page.contains(s"| `$key` |"))
    assert(missing.isEmpty)
  }

  test("a value that cannot be read, or means nothing, is refused with its key") {
    import LakestepConf._
    val refused = Seq(
      MaxAttempts -> "many",
      MaxAttempts -> "0",
      TimeoutMs -> "-1",
      PublishThreads -> "0",
      CheckpointInterval -> "0",
      SyncFiles -> "maybe",
      ForeignWriters -> "some"
    )
    for ((setting, value) <- refused) {
      val error = intercept[LakestepException](setting.from(_ => Some(value)))
      assert(error.getCondition == "LAKESTEP_INVALID_SETTING")
      assert(error.getSqlState == "22023")
      assert(error.getMessageParameters.get("key") == setting.key)
    }
  }
}

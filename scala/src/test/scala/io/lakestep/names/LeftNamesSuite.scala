package io.lakestep.names

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.Json
import io.lakestep.log.TableRef
import io.lakestep.timeline.{NameChange, NameKey, NamedObject}

class LeftNamesSuite extends AnyFunSuite {

  private val name = NameKey("m", "s", Some("t"))

  private def table(comment: String): Some[NamedObject] = {
    val definition = Json.obj().put(NamedObject.Type, NamedObject.Managed).put("comment", comment)
    Some(NamedObject(NamedObject.Table, Some(TableRef("file:/lake/t")), definition))
  }

  test("a table that somebody has begun to drop is left, when its name has it again") {
    val (old, now) = (table("old"), table("new"))
    val history = Vector(NameChange(name, old, None), NameChange(name, None, now))
    def mayBe(shown: Option[NamedObject]) = LeftNames.mayBe(history, shown)
    assert(mayBe(old.map(_.asExternal)) && mayBe(None))
    // As it is to be, where others may be about to drop it, and as others have altered it.
    assert(!mayBe(now) && !mayBe(now.map(_.asExternal)) && !mayBe(table("of others")))
  }

  test("a view or a schema that is as it was before a drop is not left by a late client") {
    for (kind <- Seq(NamedObject.Table, NamedObject.View, NamedObject.Schema)) {
      val old = Some(NamedObject(kind, Some(TableRef("file:/lake/t")), Json.obj()))
      val history = Vector(NameChange(name, old, None))
      assert(LeftNames.mayBe(history, old) == (kind == NamedObject.Table), kind)
      // Who has made it may be late, too.
      assert(LeftNames.mayBe(NameChange(name, None, old) +: history, old))
    }
  }
}

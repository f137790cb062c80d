package io.lakestep.timeline

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.Json

final class NameHistorySuite extends AnyFunSuite {

  private def view(name: String, schema: String = "s"): NameChange = NameChange(
    NameKey("m", schema, Some(name)),
    None,
    Some(NamedObject(NamedObject.View, None, Json.obj()))
  )

  private def unapplied(history: NameHistory): Set[Long] = history.unapplied.keySet

  test("earlier entries over the names of one that is made are made, and those over theirs") {
    val history = NameHistory(
      6,
      Map(
        1L -> Vector(view("a")),
        2L -> Vector(view("a"), view("b")),
        3L -> Vector(view("z")),
        4L -> Vector(view("b"), view("c")),
        5L -> Vector(view("c")),
        6L -> Vector(view("a", "t"))
      ),
      Vector.empty
    )
    assert(unapplied(history.applied(4)) == Set(3L, 5L, 6L))
    assert(unapplied(history.applied(1)) == Set(2L, 3L, 4L, 5L, 6L))
    assert(unapplied(history.applied(9)) == unapplied(history))
  }

  test("a schema is one name with all that is inside") {
    val drop = NameChange(NameKey("m", "s", None), None, None)
    val changes = Map(1L -> Vector(view("a")), 2L -> Vector(view("a", "t")), 3L -> Vector(drop))
    assert(unapplied(NameHistory(3, changes, Vector.empty).applied(3)) == Set(2L))
  }
}

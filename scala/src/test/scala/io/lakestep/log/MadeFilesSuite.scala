package io.lakestep.log

import org.scalatest.funsuite.AnyFunSuite

/** Only what a statement has surely made may be deleted once it is taken back. */
class MadeFilesSuite extends AnyFunSuite {

  private val table = TableRef("file:/lake/t")

  private def made(operation: String, actions: String*): Vector[String] = {
    val info = s"""{"commitInfo":{"operation":"$operation"}}"""
    MadeFiles.of(table, LogCommit(3L, (info +: actions).map(Action.parse(_)).toVector))
  }

  private def add(path: String, more: String = ""): String =
    s"""{"add":{"path":"$path","partitionValues":{},"size":1,"dataChange":true$more}}"""

  private def vector(path: String): String =
    s""","deletionVector":{"storageType":"p","pathOrInlineDv":"$path","offset":1}"""

  test("new files of a statement, with its change files and deletion vectors") {
    val cdc =
      """{"cdc":{"path":"_change_data/c","partitionValues":{},"size":1,"dataChange":false}}"""
    val found = made("MERGE", add("p=1/a%20b"), cdc, add("old", vector("file:/lake/t/v.bin")))
    assert(found.toSet == Set(
      "file:/lake/t/p=1/a%20b",
      "file:/lake/t/_change_data/c",
      "file:/lake/t/old",
      "file:/lake/t/v.bin"
    ))
  }

  test("a file that is removed and added again was there before, and so was its old vector") {
    val before = s"""{"remove":{"path":"old","dataChange":true${vector("file:/lake/t/w.bin")}}}"""
    assert(made("DELETE", before, add("old", vector("file:/lake/t/v.bin"))) ==
      Vector("file:/lake/t/v.bin"))
    assert(made("DELETE", before, add("old", vector("file:/lake/t/w.bin"))).isEmpty)
  }

  test("what OPTIMIZE writes rearranges rows") {
    val rearranged = add("b").replace("\"dataChange\":true", "\"dataChange\":false")
    assert(made("OPTIMIZE", add("a"), rearranged) == Vector("file:/lake/t/b"))
  }

  test("nothing of a statement that names files which were there") {
    for (operation <- Seq("RESTORE", "CLONE", "CONVERT", "REORG", "ADD COLUMNS"))
      assert(made(operation, add("a")).isEmpty, operation)
    assert(made("WRITE", add("a").replace("\"dataChange\":true", "\"dataChange\":false")).isEmpty)
  }

  test("nothing outside of the table") {
    for (path <- Seq("file:/lake/u/a", "/lake/t/a", "s3://b/a", "../u/a", "x/../../u/a"))
      assert(made("WRITE", add(path)).isEmpty, path)
  }
}

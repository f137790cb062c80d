package io.lakestep.overlay

import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.log.LogFileName

class OverlayPathTest extends AnyFunSuite {

  private val segment = "t0123456789abcdef0123456789abcdef"
  private val chains = Vector(
    Chain(-1, Vector.empty),
    Chain(0, Vector(segment)),
    Chain(Long.MaxValue, Vector("branch-1", segment))
  )
  private val bases = Vector(
    new Path("file:/tmp/t"),
    new Path("file:///tmp/t"),
    new Path("/"),
    new Path("hdfs://name-node:8020/a b/t"),
    new Path("hdfs:///warehouse/t"),
    new Path("abfss://container@account.dfs.example/t"),
    new Path("s3a://bucket_with_underscore/a/b"),
    new Path("file", null, "/tmp/a b%20c%+#?&=;@:d/日本/é/p=a:b"),
    new Path("file", null, "/tmp/_/lakestep:/x")
  ).map(p => if (p.toUri.getScheme == null) new Path("file", null, p.toString) else p)

  test("a path survives the way to its overlay and back, whatever characters it has") {
    for (chain <- chains; base <- bases) {
      val overlay = OverlayPath(chain, base)
      val path = overlay.toPath
      assert(OverlayPath.parse(path) == overlay)
      assert(OverlayPath.parse(path).toPath == path)
      assert(OverlayPath.parse(new Path(path.toUri)) == overlay, "through the escaped URI")
      assert(OverlayPath.parse(new Path(path.toString)) == overlay, "through the plain text")
      assert(OverlayPath.isOverlay(path) && !OverlayPath.isOverlay(base))
      val child = new Path("lakestep", chain.text, path.toUri.getPath.stripSuffix("/") + "/x y%")
      assert(OverlayPath.parse(child).base.getName == "x y%")
    }
  }

  test("the URI has the form that the design gives") {
    assert(
      OverlayPath(Chain(7, Vector("t1")), new Path("s3a://b:80/t/u")).toPath.toString ==
        "lakestep://7.t1/s3a/b:80/t/u"
    )
    assert(
      OverlayPath(Chain(-1, Vector("t1")), new Path("file:/t")).toPath.toString ==
        "lakestep://new.t1/file/_/t"
    )
  }

  test("a malformed overlay path is refused") {
    Seq(
      "lakestep://x/file/_/t",
      "lakestep://-1.t1/file/_/t",
      "lakestep://01.t1/file/_/t",
      "lakestep://1.T1/file/_/t",
      "lakestep://1..t1/file/_/t",
      "lakestep://1.t1/file",
      "lakestep://1.t1/lakestep/1.t2/t",
      "lakestep:///file/_/t",
      "lakestep://1.t1/file/_delta_log",
      "file:/t"
    ).foreach { text =>
      val e = intercept[LakestepException](OverlayPath.parse(new Path(text)))
      assert(e.getCondition == "LAKESTEP_OVERLAY_PATH_INVALID", text)
    }
    intercept[IllegalArgumentException](OverlayPath(Chain(1, Vector("a.b")), new Path("file:/t")))
    intercept[IllegalArgumentException](OverlayPath(Chain(1, Vector("a")), new Path("/t")))
  }

  test("a text shows the base paths") {
    for (chain <- chains; base <- bases) {
      val path = OverlayPath(chain, new Path(base, "t"))
      for (text <- Seq(path.toPath.toString, path.toPath.toUri.toString)) {
        val shown = OverlayPath.replacedIn(s"of `$text` and $text.")
        assert(shown.contains("`") && !shown.contains("lakestep://"))
      }
      assert(new Path(OverlayPath.replacedIn(path.toPath.toString)) == path.base)
    }
    assert(
      OverlayPath.replacedIn("x lakestep://1.t1/s3a/b:80/t/$1, lakestep://new.t1/file/_/u\n") ==
        "x s3a://b:80/t/$1, file:/u\n"
    )
    for (other <- Seq("", "lakestep://x/file/_/t", "lakestep://1.t1/file", "of lakestep://"))
      assert(OverlayPath.replacedIn(other) == other)
  }

  test("log entries are told apart by name") {
    import LogFileName._
    assert(LogFileName("00000000000000000012.json") == Commit(12))
    assert(LogFileName("00000000000000000012.crc") == Derived(12))
    Seq(
      "00000000000000000012.checkpoint.parquet",
      "00000000000000000012.checkpoint.0000000001.0000000002.parquet",
      "00000000000000000012.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    ).foreach(name => assert(LogFileName(name) == Checkpoint(12)))
    assert(LogFileName("00000000000000000004.00000000000000000012.compacted.json") == Derived(12))
    assert(LogFileName("99999999999999999999.json") == Hidden)
    assert(LogFileName("_lakestep") == Hidden)
    assert(LogFileName("_staged_commits") == Hidden)
    assert(LogFileName(".00000000000000000012.json.x.tmp") == Hidden)
    assert(LogFileName("_sidecars") == Other)
  }
}

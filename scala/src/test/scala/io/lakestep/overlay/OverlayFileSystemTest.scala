package io.lakestep.overlay

import java.io.FileNotFoundException
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path => JPath}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path, RawLocalFileSystem}
import org.apache.spark.SparkConf
import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.log.LogFileName

/** A local file system of another scheme that remembers how it was set up and closed. */
class ProbeFileSystem extends RawLocalFileSystem {
  override def getScheme: String = "probe"
  override def getUri: URI = URI.create("probe:///")
  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    ProbeFileSystem.token = conf.get("fs.probe.token", "")
    ProbeFileSystem.open += 1
  }
  override def close(): Unit = {
    ProbeFileSystem.open -= 1
    super.close()
  }
}

object ProbeFileSystem {
  @volatile var token: String = ""
  @volatile var open: Int = 0
}

/** The file system by itself, without Spark. */
class OverlayFileSystemTest extends AnyFunSuite with BeforeAndAfterEach {

  private val conf = new Configuration
  OverlaySettings.install(new SparkConf(false), conf)

  private var table: Path = _
  private var log: JPath = _
  private var over: Path = _
  private var fs: FileSystem = _

  private def name(version: Int) = LogFileName.commitName(version.toLong)

  override protected def beforeEach(): Unit = {
    val folder = Files.createTempDirectory("overlay-fs")
    table = new Path(folder.toUri)
    log = Files.createDirectory(folder.resolve("_delta_log"))
    (0 to 4).foreach(v => Files.writeString(log.resolve(name(v)), s"base $v\n"))
    Files.writeString(log.resolve("_last_checkpoint"), """{"version":3,"size":1}""")
    Files.writeString(folder.resolve("data.parquet"), "data")
    over = OverlayPath(Chain(2, Vector("t1")), table).toPath
    fs = over.getFileSystem(conf)
  }

  private def inLog(name: String) = new Path(new Path(over, "_delta_log"), name)

  private def content(path: Path): String = {
    val in = fs.open(path)
    try new String(in.readAllBytes(), UTF_8)
    finally in.close()
  }

  private def put(path: Path, text: String): Unit = {
    val out = fs.create(path, true)
    try out.write(text.getBytes(UTF_8))
    finally out.close()
  }

  private def stage(version: Int, text: String): Unit = {
    val file = JPath.of(StagingFolder.commit(table, "t1", version.toLong).toUri.getPath)
    Files.createDirectories(file.getParent)
    Files.writeString(file, text)
    ()
  }

  private def files: Map[String, String] =
    log.toFile.listFiles.filter(_.isFile).map(f => f.getName -> Files.readString(f.toPath)).toMap

  test("reads come from the base up to the pin and from the segment above it") {
    stage(3, "staged 3\n")
    assert(content(inLog(name(2))) == "base 2\n")
    assert(content(inLog(name(3))) == "staged 3\n")
    intercept[FileNotFoundException](content(inLog(name(4))))
    intercept[FileNotFoundException](fs.getFileStatus(inLog("_last_checkpoint")))
    intercept[FileNotFoundException](fs.getFileStatus(inLog("_lakestep")))
    intercept[FileNotFoundException](fs.listStatus(inLog("_lakestep/t1")))
    intercept[FileNotFoundException](content(inLog(s"_lakestep/t1/${name(3)}")))
    assert(fs.listStatus(new Path(over, "_delta_log")).map(_.getPath).toSeq ==
      (0 to 3).map(v => inLog(name(v))))
    assert(fs.getFileStatus(inLog(name(3))).getLen == 9)
  }

  test("a data file is the base's own: stream, status, blocks, capabilities") {
    val base = table.getFileSystem(conf)
    val (shown, real) = (new Path(over, "data.parquet"), new Path(table, "data.parquet"))
    val (in, own) = (fs.open(shown), base.open(real))
    assert(
      in.getClass == own.getClass && in.getWrappedStream.getClass == own.getWrappedStream.getClass
    )
    in.close()
    own.close()
    val status = fs.getFileStatus(shown)
    val expected = base.getFileStatus(real)
    assert(status.getPath == shown && status.getLen == 4)
    assert(status.getModificationTime == expected.getModificationTime)
    assert((status.getOwner, status.getPermission) == ((expected.getOwner, expected.getPermission)))
    assert(fs.getFileBlockLocations(status, 0, 4).map(_.toString).toSeq ==
      base.getFileBlockLocations(expected, 0, 4).map(_.toString).toSeq)
    assert(fs.listStatus(over).map(_.getPath).toSet == Set(shown, new Path(over, "_delta_log")))
    assert(fs.listStatus(shown).map(_.getPath).toSeq == Seq(shown))
    val located = fs.listLocatedStatus(over)
    var found = Vector.empty[Path]
    while (located.hasNext) {
      val next = located.next()
      found = found :+ next.getPath
      assert(next.isDirectory || next.getBlockLocations.nonEmpty)
    }
    assert(found.toSet == Set(shown, new Path(over, "_delta_log")))
    assert(content(shown) == "data")
    val future = fs.openFile(shown).withFileStatus(status).build()
    val opened = future.get()
    try assert(new String(opened.readAllBytes(), UTF_8) == "data")
    finally opened.close()
    val all = fs.listFiles(over, true)
    var names = Vector.empty[String]
    while (all.hasNext) names = names :+ all.next().getPath.getName
    assert(names.toSet == Set("data.parquet", name(0), name(1), name(2)))
  }

  test("nothing that is done to the log reaches the base") {
    val before = files
    put(inLog("_last_checkpoint"), """{"version":2}""")
    put(inLog("00000000000000000002.crc"), "x")
    put(inLog("00000000000000000003.checkpoint.parquet"), "x")
    put(inLog("_sidecars/one.parquet"), "x")
    put(inLog(".00000000000000000003.crc.u.tmp"), "x")
    assert(fs.rename(inLog(".00000000000000000003.crc.u.tmp"), inLog("00000000000000000003.crc")))
    assert(!fs.delete(inLog(name(0)), false))
    assert(!fs.delete(inLog("_last_checkpoint"), false))
    assert(!fs.delete(new Path(over, "_delta_log"), true))
    assert(fs.mkdirs(inLog("_staged_commits")))
    fs.setTimes(inLog(name(0)), 1, 1)
    assert(fs.getFileStatus(inLog("00000000000000000003.checkpoint.parquet")).getLen == 0)
    assert(!fs.exists(inLog("00000000000000000003.crc")))
    assert(!fs.exists(inLog("_staged_commits")))
    assert(files == before)
    assert(log.toFile.listFiles.filter(_.isDirectory).isEmpty)
    assert(Files.getLastModifiedTime(log.resolve(name(0))).toMillis > 1)
  }

  test("changes that no transaction makes are refused") {
    def condition(body: => Any) = intercept[LakestepException](body).getCondition
    val before = files
    val refused = "LAKESTEP_OVERLAY_CHANGE_REFUSED"
    assert(condition(put(inLog(name(3)), "x")) == refused)
    assert(condition(fs.delete(over, true)) == refused)
    assert(condition(fs.delete(over.getParent, true)) == refused)
    assert(condition(fs.rename(over, new Path(over.getParent, "elsewhere"))) == refused)
    assert(condition(fs.rename(new Path(over, "data.parquet"), inLog(name(3)))) == refused)
    assert(condition(fs.append(new Path(over, "data.parquet"))) == refused)
    val fixed = OverlayPath(Chain(2, Vector.empty), table).toPath
    val still = fixed.getFileSystem(conf)
    assert(condition(still.create(new Path(fixed, "new.parquet"))) == "LAKESTEP_OVERLAY_READ_ONLY")
    assert(condition(still.delete(new Path(fixed, "data.parquet"), false)) ==
      "LAKESTEP_OVERLAY_READ_ONLY")
    assert(condition(new Path("lakestep://nonsense/file/_/t").getFileSystem(conf)) ==
      "LAKESTEP_OVERLAY_PATH_INVALID")
    assert(files == before && Files.exists(log))
  }

  test("data files are created, renamed and deleted in the base") {
    put(new Path(over, "part=a%20b/one.parquet"), "one")
    val base = table.getFileSystem(conf)
    assert(base.exists(new Path(table, "part=a%20b/one.parquet")))
    assert(fs.rename(new Path(over, "part=a%20b/one.parquet"), new Path(over, "two.parquet")))
    assert(fs.delete(new Path(over, "part=a%20b"), true))
    assert(base.exists(new Path(table, "two.parquet")))
    assert(fs.delete(new Path(over, "two.parquet"), false))
    assert(!base.exists(new Path(table, "two.parquet")))
  }

  test("the folders above a base path do not exist, so that walking up ends") {
    Seq("lakestep://2.t1/file", "lakestep://2.t1/").foreach { text =>
      assert(!fs.exists(new Path(text)) && !fs.exists(new Path(text, "_delta_log")))
    }
    assert(fs.makeQualified(over) == over && fs.resolvePath(over) == over)
  }

  test("the base file system is built from the given configuration, and closed with ours") {
    val options = new Configuration(conf)
    options.set("fs.probe.impl", classOf[ProbeFileSystem].getName)
    options.set("fs.probe.impl.disable.cache", "true")
    options.set("fs.probe.token", "secret of this table")
    val probed =
      OverlayPath(Chain(2, Vector("t1")), new Path("probe", null, table.toUri.getPath)).toPath
    val overlay = probed.getFileSystem(options)
    assert(overlay.listStatus(new Path(probed, "_delta_log")).length == 3)
    assert(ProbeFileSystem.token == "secret of this table")
    assert(ProbeFileSystem.open == 1)
    overlay.close()
    assert(ProbeFileSystem.open == 0)
  }
}

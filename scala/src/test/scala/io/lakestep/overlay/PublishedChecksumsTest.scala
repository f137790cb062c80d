package io.lakestep.overlay

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path => JPath}

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.delta.DeltaLog
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.lakestep.PublishedChecksums
import io.lakestep.{Clock, Json, NeedsSpark}
import io.lakestep.log.{CommitMark, LogFileName, MarkKind}
import io.lakestep.storage.MemoryStore

/** A checksum is of the commit that stands in its slot, also when that changes while it is put. */
@NeedsSpark
class PublishedChecksumsTest extends AnyFunSuite with OverlaySession {

  private val mark = CommitMark("timeline", 1, "t1", 0, 1, 1, MarkKind.Publish)

  private def marked(commit: String): String = {
    val (first, rest) = commit.splitAt(commit.indexOf('\n'))
    val info = Json.parse(first)
    info.withObject("/commitInfo").set(CommitMark.Field, mark.encode)
    info.toString + rest
  }

  for (isReplaced <- Seq(false, true))
    test(s"a checksum stays just when its commit does; replaced: $isReplaced") {
      val table = newTable()
      for (i <- 0L to 1L)
        spark.range(i, i + 1).write.format("delta").mode("append").save(table.toString)
      val log = DeltaLog.forTable(spark, table)
      def file(name: String) = new Path(log.logPath, name)
      val (commit, checksum) = (file(LogFileName.commitName(1)), file(f"${1}%020d.crc"))
      val theirs = Files.readString(JPath.of(commit.toUri))
      val store = new MemoryStore(Clock.system)
      store.overwrite(commit.toUri.toString, marked(theirs).getBytes(UTF_8))
      var puts = Seq.empty[String]
      store.interceptPut = (path, put) => {
        puts = puts :+ path
        if (isReplaced) store.overwrite(commit.toUri.toString, theirs.getBytes(UTF_8))
        put()
      }
      new PublishedChecksums(spark, log, store, None, mark.transaction).write(Seq(1))
      assert(puts == Seq(checksum.toUri.toString))
      assert(store.exists(checksum.toUri.toString) != isReplaced)
    }
}

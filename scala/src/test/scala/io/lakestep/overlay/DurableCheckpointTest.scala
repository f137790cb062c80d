package io.lakestep.overlay

import java.io.File

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.lakestep.{DurableCheckpoint, LogCleanup}
import io.lakestep.NeedsSpark
import io.lakestep.log.LogFileName
import org.scalatest.funsuite.AnyFunSuite

/** A checkpoint is durable before the commits go that it stands for. */
@NeedsSpark
class DurableCheckpointTest extends AnyFunSuite with OverlaySession {

  for (policy <- Seq("classic", "v2"))
    test(s"the files of a checkpoint ($policy) are kept before the log is cleaned up") {
      val table = newTable()
      spark.sql(
        s"CREATE TABLE delta.`$table` (id BIGINT) USING delta" +
          s" TBLPROPERTIES ('delta.checkpointPolicy' = '$policy')"
      )
      (1L to 3L).foreach { i =>
        spark.range(i, i + 1).write.format("delta").mode("append").save(table.toString)
      }
      val log = DeltaLog.forTable(spark, table)
      def commit(version: Long) =
        new File(log.logPath.toUri.getPath, LogFileName.commitName(version))
      val longAgo = System.currentTimeMillis - 40L * 24 * 3600 * 1000
      (0L to 3L).foreach(v => assert(commit(v).setLastModified(longAgo + v)))
      var kept = Seq.empty[Path]
      DeltaLog.clearCache()
      val anew = DeltaLog.forTable(spark, table)
      DurableCheckpoint.write(
        spark,
        anew,
        anew.update(),
        files => {
          assert((0L to 3L).forall(commit(_).exists))
          assert(files.forall(f => new File(f.toUri.getPath).length > 0))
          kept = files
        }
      )(LogCleanup(anew, anew.update(), LogCleanup.Needs(None, () => None)))
      assert(kept.exists(_.getName.startsWith("00000000000000000003.checkpoint")))
      assert(kept.exists(_.getParent.getName == "_sidecars") == (policy == "v2"))
      assert(!commit(0).exists)
      assert(rows(table).size == 3)
    }
}

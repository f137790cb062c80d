package io.lakestep.storage

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import io.lakestep.Errors

/**
 * HDFS: the name node renames under its lock, and refuses when the name is taken. The rename is in
 * its journal before it answers; the content has been forced to the data nodes before.
 *
 * Source: `DistributedFileSystem.rename`, `FSDirRenameOp`; Delta's HDFSLogStore relies on the same.
 */
final class HdfsStore(configuration: Configuration) extends RenameStore(configuration) {
  override protected def admit(fs: FileSystem, target: Path, path: String): Unit = ()
}

private[storage] object HdfsStore {

  /**
   * Refuses a name service of which clients read from observers, which lag behind the active name
   * node, unless every read asks the active one first how far it is.
   *
   * Condition: LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT.
   */
  def checkReads(configuration: Configuration, path: String): Unit = {
    val service = Option(new Path(path).toUri.getAuthority)
      .orElse(Option(FileSystem.getDefaultUri(configuration).getAuthority)).getOrElse("")
    val provider = configuration.get(s"dfs.client.failover.proxy.provider.$service", "")
    val period = s"dfs.client.failover.observer.auto-msync-period.$service"
    if (provider.contains("ObserverReadProxyProvider") && configuration.getTimeDuration(
        period,
        -1L,
        java.util.concurrent.TimeUnit.MILLISECONDS
      ) != 0L)
      throw Errors(
        "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT",
        "path" -> path,
        "reason" -> s"reads from an observer name node may miss commits; set $period to 0"
      )
  }
}

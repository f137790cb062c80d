package io.lakestep.storage

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

/**
 * Azure Data Lake Storage by Hadoop's abfs, for accounts with a hierarchical namespace: there a
 * rename is one request with `If-None-Match: *`, which the service refuses when the name is taken.
 *
 * `create(path, false)` sends the same condition, but for an empty file that is filled afterwards.
 * On an account without a hierarchical namespace a rename is a copy: refused.
 *
 * Source: hadoop-azure 3.4.2, `AbfsDfsClient.getHeadersForRename`, `AbfsBlobClient.renamePath`.
 * Not tested against the service.
 */
final class AbfsStore(configuration: Configuration) extends RenameStore(configuration) {

  /** Once a process and container: the kind of account, and two renames to one name. */
  override protected def admit(fs: FileSystem, target: Path, path: String): Unit =
    probedOnce(fs.getUri.toString) {
      // abfs has ACLs exactly where the namespace is hierarchical.
      if (!explained(path)(fs.hasPathCapability(target, "fs.capability.paths.acls")))
        throw withoutPutIfAbsent(path, "the account has no hierarchical namespace")
      val probe = temporaryFor(target)
      try checkProbe(path, Seq("first", "second").map(text => put(fs, probe, text.getBytes)))
      finally
        discard(fs, probe)
    }
}

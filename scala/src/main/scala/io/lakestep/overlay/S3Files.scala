package io.lakestep.overlay

import java.util.{Collections, LinkedHashMap, Map => JMap}
import java.util.concurrent.CompletableFuture

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{
  FileStatus, FileSystem, FSDataInputStream, FSDataOutputStream, FutureDataInputStreamBuilder, Path
}
import org.apache.hadoop.fs.impl.FutureDataInputStreamBuilderImpl

import io.lakestep.storage.StoreKind

/**
 * Data files on S3, without the requests that s3a needs for files of which it knows nothing: whether
 * there is one of this name, whether that is a folder, how long it became, and once more before it is
 * read. Names of data files hold a UUID: there is one file of each, and it never changes.
 */
private[overlay] object S3Files {

  /** Whether such a file is one for this object. */
  def isOne(fs: FileSystem, file: Path): Boolean =
    StoreKind.S3.schemes(fs.getUri.getScheme) && Unique.findFirstIn(file.getName).isDefined

  private val Unique = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".r

  /** Creates it without looking; once it is closed, `created` knows it. */
  def create(
      fs: FileSystem,
      file: Path,
      bufferSize: Int,
      replication: Short,
      blockSize: Long): FSDataOutputStream = {
    val out = fs.createFile(file).overwrite(true).recursive().bufferSize(bufferSize)
      .replication(replication).blockSize(blockSize).opt("fs.s3a.create.performance", true).build()
    new FSDataOutputStream(out, null) {
      override def close(): Unit = {
        super.close()
        val now = System.currentTimeMillis()
        if (isPlain(fs))
          made.put(file, new FileStatus(getPos, false, replication.toInt, blockSize, now, file))
        ()
      }
    }
  }

  /** Encrypted by the client a file is longer than what was written. */
  private def isPlain(fs: FileSystem): Boolean =
    !fs.getConf.get("fs.s3a.encryption.algorithm", "").startsWith("CSE")

  /** The status of one that this process has created not long ago. */
  def created(file: Path): Option[FileStatus] = Option(made.get(file))

  def forget(file: Path): Unit = { made.remove(file); () }

  private val made: JMap[Path, FileStatus] =
    Collections.synchronizedMap(new LinkedHashMap[Path, FileStatus] {
      override def removeEldestEntry(eldest: JMap.Entry[Path, FileStatus]): Boolean =
        size > MostMade
    })

  private val MostMade = 10000

  /** Opens it with the status that the reader has: s3a takes none but its own. */
  def opening(fs: FileSystem, file: Path): FutureDataInputStreamBuilder =
    new FutureDataInputStreamBuilderImpl(fs, file) {
      override def build(): CompletableFuture[FSDataInputStream] = {
        val opened = fs.openFile(file)
        getOptionalKeys.asScala.foreach(key => opened.opt(key, getOptions.get(key)))
        getMandatoryKeys.asScala.foreach(key => opened.must(key, getOptions.get(key)))
        Option(getStatus).foreach(status => opened.withFileStatus(OverlayStatus.base(status)))
        opened.build()
      }
    }
}

package io.lakestep.testing

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.hdfs.MiniDFSCluster

/**
 * HDFS for drivers in processes of their own: prints its URI, and ends with its standard input.
 *
 * The argument is the folder of its files. Everybody may make folders below `/`.
 */
object MiniHdfs {

  def main(arguments: Array[String]): Unit = {
    val conf = new Configuration
    conf.set("hdfs.minidfs.basedir", arguments.head)
    val cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build()
    cluster.getFileSystem.setPermission(new Path("/"), new FsPermission("777"))
    println(s"HDFS ${cluster.getURI}")
    while (System.in.read() >= 0) {}
    cluster.shutdown()
  }
}

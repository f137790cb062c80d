package io.lakestep.overlay

import java.io.{ByteArrayInputStream, EOFException}

import org.apache.hadoop.fs.{PositionedReadable, Seekable}

/** A small file that is already in memory, as a stream that Hadoop accepts. */
private[overlay] final class InMemoryFile(bytes: Array[Byte])
    extends ByteArrayInputStream(bytes)
    with Seekable
    with PositionedReadable {

  override def seek(position: Long): Unit = {
    if (position < 0 || position > count) throw new EOFException(s"Position $position of $count")
    pos = position.toInt
  }

  override def getPos: Long = pos.toLong

  override def seekToNewSource(position: Long): Boolean = false

  override def read(position: Long, buffer: Array[Byte], offset: Int, length: Int): Int =
    if (position >= count) -1
    else {
      val size = math.min(length.toLong, count - position).toInt
      System.arraycopy(buf, position.toInt, buffer, offset, size)
      size
    }

  override def readFully(position: Long, buffer: Array[Byte], offset: Int, length: Int): Unit =
    if (position < 0 || position + length > count)
      throw new EOFException(s"Position $position of $count")
    else System.arraycopy(buf, position.toInt, buffer, offset, length)

  override def readFully(position: Long, buffer: Array[Byte]): Unit =
    readFully(position, buffer, 0, buffer.length)
}

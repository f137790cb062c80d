package io.lakestep.transaction

/** The files of a transaction that compaction has written, and those that it has written anew. Thread-safe. */
private[transaction] final class CompactedFiles {
  private var written = Vector.empty[String]
  private var old = Vector.empty[String]
  private var published = Set.empty[String]

  /** COMMIT begins to publish, perhaps once more. */
  def begin(): Unit = synchronized {
    old = Vector.empty
    published = Set.empty
  }

  def made(files: Vector[String]): Unit = synchronized { written = written ++ files }

  def replaced(files: Vector[String], by: Vector[String]): Unit = synchronized {
    old = old ++ files
    published = published ++ by
  }

  /** All that it has written. */
  def all: Vector[String] = synchronized(written)

  /** What no commit names once the transaction is published. */
  def unnamed: Vector[String] = synchronized((written ++ old).filterNot(published))
}

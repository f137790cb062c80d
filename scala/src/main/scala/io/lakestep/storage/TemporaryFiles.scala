package io.lakestep.storage

/**
 * Where the temporary files of stores stand: for a file of a Delta log in `_delta_log/_lakestep/tmp`,
 * where nobody takes them for commits; beside every other file in `tmp`.
 */
private[lakestep] object TemporaryFiles {

  /** The folder of a table's log. */
  val LogFolder = "_delta_log"

  /** The folder of Lakestep's own files in it, which every Delta client passes over. */
  val OwnFolder = "_lakestep"

  val Folder = "tmp"

  /**
   * @param parents the folders above a file, from the nearest one on
   * @param child the folder of this name in a folder
   */
  def folderFor[A](parents: Iterator[A], name: A => String)(child: (A, String) => A): A = {
    val above = parents.toVector
    above.find(name(_) == LogFolder).map(child(_, OwnFolder)).fold(child(above.head, Folder))(
      child(_, Folder)
    )
  }
}

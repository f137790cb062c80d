package io.lakestep.simulation

/** A second path of every table, as a symbolic link or a mount would give it. */
object Alias {
  private val Prefix = "/alias"

  def of(table: String): String = Prefix + table

  /** The path under which the store has the file. */
  def real(path: String): String =
    if (path.startsWith(s"$Prefix/")) path.drop(Prefix.length) else path
}

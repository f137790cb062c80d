package io.lakestep

import java.util.UUID

/** Makes names that nobody else makes; tests replay by handing in their own. */
trait Ids {

  /** 32 lower-case hexadecimal digits, never the same twice, anywhere. */
  def nextHex(): String
}

object Ids {

  /** Random ones. */
  val random: Ids = () => UUID.randomUUID().toString.replace("-", "")
}

package io.lakestep.storage

import java.io.ByteArrayOutputStream
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Path, Paths}

import io.lakestep.Errors

/** Reads the text of a local path exactly: `%` escapes count in a `file:` URI and nowhere else. */
private[storage] object LocalPath {

  /**
   * The file that the text names. In a URI `+` is a plus sign, and characters that a strict URI
   * would escape (spaces, non-ASCII) stand for themselves.
   *
   * Condition: LAKESTEP_STORE_PATH_INVALID.
   */
  def apply(text: String): Path = {
    val plain = StoreKind.schemeOf(text) match {
      case Some("file") => decode(text, withoutAuthority(text, text.drop("file:".length)))
      case _ => text
    }
    if (!plain.startsWith("/")) throw invalid(text, "it is not absolute")
    Paths.get(plain)
  }

  private def withoutAuthority(text: String, rest: String): String =
    if (!rest.startsWith("//")) rest
    else {
      val slash = rest.indexOf('/', 2)
      val authority = if (slash < 0) rest.drop(2) else rest.substring(2, slash)
      if (slash < 0 || !(authority.isEmpty || authority == "localhost"))
        throw invalid(text, "it names another host")
      rest.substring(slash)
    }

  private def decode(text: String, escaped: String): String =
    if (escaped.indexOf('%') < 0) escaped
    else {
      val bytes = new ByteArrayOutputStream(escaped.length)
      val source = escaped.getBytes(UTF_8)
      var at = 0
      while (at < source.length) {
        if (source(at) == '%') {
          if (at + 2 >= source.length) throw invalid(text, "it ends inside a % escape")
          val high = Character.digit(source(at + 1), 16)
          val low = Character.digit(source(at + 2), 16)
          if (high < 0 || low < 0) throw invalid(text, "it has a % without two hexadecimal digits")
          bytes.write(high * 16 + low)
          at += 3
        } else {
          bytes.write(source(at).toInt)
          at += 1
        }
      }
      bytes.toString(UTF_8)
    }

  private def invalid(text: String, reason: String) =
    Errors("LAKESTEP_STORE_PATH_INVALID", "path" -> text, "reason" -> reason)
}

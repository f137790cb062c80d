package io.lakestep.timeline

import io.lakestep.Errors

/** What a user says about a transaction. Nothing depends on it. */
final case class Labels(comment: Option[String] = None, tags: Map[String, String] = Map.empty)

object Labels {

  /** Every client reads every entry. */
  val MaxCharacters = 4096

  val none: Labels = Labels()

  /** Conditions: LAKESTEP_TAG_TWICE, LAKESTEP_LABELS_TOO_LONG. */
  def apply(comment: Option[String], tags: Seq[(String, String)]): Labels = {
    tags.map(_._1).diff(tags.map(_._1).distinct)
      .headOption.foreach(key => throw Errors("LAKESTEP_TAG_TWICE", "tag" -> key))
    val length = comment.fold(0)(_.length) + tags.map { case (k, v) => k.length + v.length }.sum
    if (length > MaxCharacters)
      throw Errors(
        "LAKESTEP_LABELS_TOO_LONG",
        "length" -> length.toString,
        "most" -> MaxCharacters.toString
      )
    Labels(comment, tags.toMap)
  }
}

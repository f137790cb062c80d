package io.lakestep.timeline

import java.util.Locale

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json
import io.lakestep.log.TableRef

/** A name as a statement gives it: of a table or view, or of a schema alone. */
final case class NamedIn(schema: Option[String], name: Option[String])

/**
 * A name of a metastore, in the metastore's own letter case.
 *
 * @param metastore the id that is stored in it
 * @param name of a table or view, nothing for the schema itself
 */
final case class NameKey(metastore: String, schema: String, name: Option[String]) {

  /** Whether a change of this name and one of `other` cannot both stand. */
  def meets(other: NameKey): Boolean =
    metastore == other.metastore && schema == other.schema &&
      (name == other.name || name.isEmpty || other.name.isEmpty)

  def isInside(other: NameKey): Boolean = other.name.isEmpty && name.isDefined && meets(other)

  /** Whether it is the name that a statement gives, or one in the schema that it gives, or that schema. */
  def isNamedBy(parts: NamedIn, current: String): Boolean =
    schema.equalsIgnoreCase(parts.schema.getOrElse(current)) &&
      (parts.name.isEmpty || name.forall(n => parts.name.exists(_.equalsIgnoreCase(n))))

  override def toString: String = (schema +: name.toSeq).map(part => s"`$part`").mkString(".")
}

/**
 * What a name stands for.
 *
 * @param kind `table`, `view` or `schema`
 * @param path where a table or the tables of a schema lie
 * @param definition as the metastore has it; see `names.Definition`
 */
final case class NamedObject(kind: String, path: Option[TableRef], definition: ObjectNode) {

  /** Equal for what is the same table, whatever its properties are; for a view its text tells. */
  lazy val identity: String = kind match {
    case NamedObject.View => s"$kind ${Json.blake3(Json.canonical(definition))}"
    case _ => s"$kind ${path.fold("")(_.uri)}"
  }

  /** A table whose data are the metastore's to delete. */
  def isManaged: Boolean =
    kind == NamedObject.Table && definition.path(NamedObject.Type).asText == NamedObject.Managed

  /** The same, but that the data are nobody's to delete. */
  def asExternal: NamedObject =
    if (isManaged) copy(definition = definition.deepCopy().put(NamedObject.Type, "EXTERNAL"))
    else this

  /** Whether nothing tells that another one was made at the same place. */
  def isAsOld(other: NamedObject): Boolean = {
    def made(named: NamedObject) = Option(named.definition.get(NamedObject.Created)).map(_.asLong)
    made(this).forall(one => made(other).forall(_ == one))
  }
}

object NamedObject {
  val Table = "table"
  val View = "view"
  val Schema = "schema"

  /** Field of a definition of a table, and one of its values. */
  val Type = "type"
  val Managed = "MANAGED"

  /** Field of a definition: when the metastore made a table, in seconds. */
  val Created = "created"

  def areSame(one: Option[NamedObject], other: Option[NamedObject]): Boolean =
    one.map(_.identity) == other.map(_.identity)
}

/**
 * That the data of a dropped table may be deleted: no transaction gives it a name again, or writes it.
 *
 * @param key the name that it had before the entry that dropped it
 * @param head the newest version in its log, -1 for none
 */
final case class Purge(key: NameKey, path: TableRef, head: Long)

/** What a transaction has made of a name; `None` is: it stands for nothing. */
final case class NameChange(key: NameKey, before: Option[NamedObject], after: Option[NamedObject]) {

  /** Whether what has the name is dropped, and not altered. */
  def drops: Boolean = before.exists(b => !after.exists(_.kind == b.kind))

  /** CREATE, DROP or ALTER, and of what. */
  def verb: String = (before, after) match {
    case (None, Some(made)) => s"CREATE ${made.kind.toUpperCase(Locale.ROOT)}"
    case (Some(gone), None) => s"DROP ${gone.kind.toUpperCase(Locale.ROOT)}"
    case (_, Some(now)) => s"ALTER ${now.kind.toUpperCase(Locale.ROOT)}"
    case _ => "NONE"
  }
}

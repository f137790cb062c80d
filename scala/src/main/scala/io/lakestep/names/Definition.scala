package io.lakestep.names

import java.net.URI

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogStorageFormat, CatalogTable, CatalogTableType
}
import org.apache.spark.sql.types.{DataType, StructType}

import io.lakestep.Json
import io.lakestep.log.TableRef
import io.lakestep.timeline.NamedObject

/**
 * Tables, views and schemas of a Spark catalog, as an entry holds them. What a metastore adds by itself
 * (other times, statistics, the version of Spark) is left out.
 */
private[lakestep] object Definition {

  /** The property of a schema that holds the id of its metastore, and is no part of what it is. */
  val IdProperty = "lakestep.metastore"

  def of(table: CatalogTable): NamedObject = {
    val isView = table.tableType == CatalogTableType.VIEW
    val node = Json.obj().put(NamedObject.Type, table.tableType.name)
    table.storage.locationUri.filterNot(_ => isView).foreach(l => node.put("location", l.toString))
    table.provider.foreach(node.put("provider", _))
    node.put("schema", table.schema.json)
    if (table.partitionColumnNames.nonEmpty) {
      val columns = node.putArray("partitionColumns")
      table.partitionColumnNames.foreach(columns.add(_))
    }
    if (!isView) node.put(NamedObject.Created, table.createTime / 1000)
    put(node, "storageProperties", table.storage.properties)
    put(node, "properties", table.properties.filterNot(p => Volatile(p._1)))
    table.viewText.foreach(node.put("viewText", _))
    table.viewOriginalText.foreach(node.put("viewOriginalText", _))
    table.comment.foreach(node.put("comment", _))
    table.collation.foreach(node.put("collation", _))
    NamedObject(
      if (isView) NamedObject.View else NamedObject.Table,
      table.storage.locationUri.filterNot(_ => isView).map(ref),
      node
    )
  }

  def of(schema: CatalogDatabase): NamedObject = {
    val node = Json.obj().put("location", schema.locationUri.toString)
    node.put("comment", schema.description)
    put(node, "properties", schema.properties - IdProperty)
    NamedObject(NamedObject.Schema, Some(ref(schema.locationUri)), node)
  }

  def table(name: TableIdentifier, named: NamedObject): CatalogTable = {
    val node = named.definition
    CatalogTable(
      identifier = name,
      tableType = CatalogTableType.tableTypes.find(_.name == node.get(NamedObject.Type).asText)
        .getOrElse(throw new IllegalArgumentException(node.toString)),
      storage = CatalogStorageFormat.empty.copy(
        locationUri = text(node, "location").map(new URI(_)),
        properties = map(node, "storageProperties")
      ),
      schema = DataType.fromJson(node.get("schema").asText).asInstanceOf[StructType],
      provider = text(node, "provider"),
      createTime =
        Option(node.get(NamedObject.Created)).fold(System.currentTimeMillis)(_.asLong * 1000),
      partitionColumnNames = Option(node.get("partitionColumns")).fold(Seq.empty[String]) {
        _.elements.asScala.map(_.asText).toSeq
      },
      properties = map(node, "properties"),
      viewText = text(node, "viewText"),
      comment = text(node, "comment"),
      collation = text(node, "collation"),
      viewOriginalText = text(node, "viewOriginalText"),
      tracksPartitionsInCatalog = named.kind == NamedObject.Table
    )
  }

  def schema(name: String, named: NamedObject): CatalogDatabase = CatalogDatabase(
    name,
    text(named.definition, "comment").getOrElse(""),
    new URI(named.definition.get("location").asText),
    map(named.definition, "properties")
  )

  private def ref(location: URI) = TableRef(new Path(location).toUri.toString)

  /** Of Hive's own. */
  private val Volatile = Set("transient_lastDdlTime", "last_modified_by", "last_modified_time")

  private def put(node: ObjectNode, field: String, values: Map[String, String]): Unit =
    if (values.nonEmpty) {
      val all = Json.obj()
      values.toVector.sorted.foreach { case (key, value) => all.put(key, value) }
      node.set[JsonNode](field, all)
      ()
    }

  private def text(node: ObjectNode, field: String): Option[String] =
    Option(node.get(field)).map(_.asText)

  private def map(node: ObjectNode, field: String): Map[String, String] =
    Option(node.get(field)).fold(Map.empty[String, String]) {
      _.properties.asScala.map(e => e.getKey -> e.getValue.asText).toMap
    }
}

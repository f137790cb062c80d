import java.io.File
import java.net.URLClassLoader

import scala.collection.mutable

import org.objectweb.asm.{
  ClassReader, ClassVisitor, FieldVisitor, Handle, Label, MethodVisitor, Opcodes, Type
}
import sbt._

/**
 * Every class, method and field of Spark and Delta that compiled classes name, or override: what
 * `RuntimeContract` looks for on another patch release than the one that they were compiled with.
 */
object Linkage {

  private val Others = Seq("org/apache/spark/", "io/delta/")
  private val Own = Seq("io/lakestep/", "org/apache/spark/sql/delta/lakestep/")

  private def isOther(name: String) = Others.exists(name.startsWith) && !Own.exists(name.startsWith)

  /** Lines of four columns: class, member, descriptor, one of our classes that needs it. */
  def of(classes: File, classpath: Seq[File]): Seq[String] = {
    val loader = new URLClassLoader((classes +: classpath).map(_.toURI.toURL).toArray, null)
    val known = mutable.Map.empty[String, Option[Declared]]
    def declared(name: String): Option[Declared] = known.getOrElseUpdate(
      name,
      Option(loader.getResourceAsStream(s"$name.class")).map { in =>
        val found = new Declared
        try new ClassReader(in).accept(found, ClassReader.SKIP_CODE)
        finally in.close()
        found
      }
    )

    /** The nearest class of Spark or Delta in whose hierarchy a member of ours is declared. */
    def holder(name: String, member: String): Option[String] = declared(name).flatMap { d =>
      if (isOther(name)) Some(name).filter(has(_, member))
      else d.supers.iterator.flatMap(holder(_, member)).toStream.headOption
    }
    def has(name: String, member: String): Boolean =
      declared(name).exists(d => d.members(member) || d.supers.exists(has(_, member)))

    val rows = mutable.TreeMap.empty[(String, String, String), String]
    for (file <- (classes ** "*.class").get.sortBy(_.getPath)) {
      val reader = new ClassReader(IO.readBytes(file))
      val user = reader.getClassName.replace('/', '.').takeWhile(_ != '$')
      def note(owner: String, member: String, descriptor: String): Unit = {
        val name =
          if (owner.startsWith("[")) Type.getType(owner).getElementType.getInternalName else owner
        val at =
          if (isOther(name)) Some(name)
          else if (!Own.exists(name.startsWith) || member.isEmpty) None
          else if (declared(name).exists(_.members(member + descriptor))) None
          else holder(name, member + descriptor)
        at.foreach(o => rows.getOrElseUpdate((o.replace('/', '.'), member, descriptor), user))
      }
      reader.accept(new Uses(note), 0)
      // What it overrides.
      for {
        own <- declared(reader.getClassName).toSeq
        member <- own.methods
        above <- own.supers.flatMap(holder(_, member)).distinct
        (name, descriptor) = member.splitAt(member.indexOf('('))
      } note(above, name, descriptor)
    }
    rows.toSeq.map { case ((owner, member, descriptor), user) =>
      Seq(owner, member, descriptor, user).mkString("\t")
    }
  }

  private final class Declared extends ClassVisitor(Opcodes.ASM9) {
    var supers = Seq.empty[String]
    val members = mutable.Set.empty[String]
    val methods = mutable.Set.empty[String]

    override def visit(
        version: Int,
        access: Int,
        name: String,
        signature: String,
        above: String,
        interfaces: Array[String]): Unit = supers = Option(above).toSeq ++ interfaces

    override def visitMethod(
        access: Int,
        name: String,
        descriptor: String,
        signature: String,
        exceptions: Array[String]): MethodVisitor = {
      members += name + descriptor
      val isInherited = (access & (Opcodes.ACC_STATIC | Opcodes.ACC_PRIVATE)) == 0
      if (isInherited && !name.startsWith("<")) methods += name + descriptor
      null
    }

    override def visitField(
        access: Int,
        name: String,
        descriptor: String,
        signature: String,
        value: Object): FieldVisitor = {
      members += name + descriptor
      null
    }
  }

  private final class Uses(note: (String, String, String) => Unit)
      extends ClassVisitor(Opcodes.ASM9) {

    override def visit(
        version: Int,
        access: Int,
        name: String,
        signature: String,
        above: String,
        interfaces: Array[String]): Unit =
      (Option(above).toSeq ++ interfaces).foreach(note(_, "", ""))

    override def visitMethod(
        access: Int,
        name: String,
        descriptor: String,
        signature: String,
        exceptions: Array[String]): MethodVisitor = new MethodVisitor(Opcodes.ASM9) {

      override def visitMethodInsn(
          opcode: Int,
          owner: String,
          name: String,
          descriptor: String,
          isInterface: Boolean): Unit = note(owner, name, descriptor)

      override def visitFieldInsn(
          opcode: Int,
          owner: String,
          name: String,
          descriptor: String): Unit = note(owner, name, descriptor)

      override def visitTypeInsn(opcode: Int, name: String): Unit = note(name, "", "")

      override def visitInvokeDynamicInsn(
          name: String,
          descriptor: String,
          bootstrap: Handle,
          arguments: Object*): Unit = arguments.foreach {
        case h: Handle => note(h.getOwner, h.getName, h.getDesc)
        case _ =>
      }
    }
  }
}

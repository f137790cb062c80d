package io.lakestep;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.FieldVisitor;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * Whether this JAR fits the Spark and the Delta beside it.
 *
 * <p>Patch releases of the lines that it was built for are accepted as long as they have everything
 * that it relies on:
 *
 * <ul>
 *   <li>{@code lakestep-contract.tsv}: what is looked up by name, each with what breaks without it;
 *       looked for at every start.
 *   <li>{@code lakestep-linkage.tsv}: every class, method and field of Spark and Delta that the code of
 *       this JAR names, written when it is built; looked for where a version is not the one that it was
 *       built with.
 * </ul>
 *
 * <p>Plain Java 8 that looks everything else up by name, so that it links on every Spark and JVM. Class
 * files are read and not loaded: what they rely on themselves need not be there.
 */
public final class RuntimeContract {

  private static final String CONTRACT = "lakestep-contract.tsv";
  private static final String LINKAGE = "lakestep-linkage.tsv";
  private static final Pattern DELTA_JAR = Pattern.compile("delta-spark_(\\d+\\.\\d+)_[^/]*\\.jar");

  private static volatile boolean isChecked = false;

  private RuntimeContract() {}

  /**
   * Returns if everything is there. Called wherever Spark, Hadoop or Delta load a class of ours by its
   * name; the first call of a process does the work.
   *
   * @throws UnsupportedRuntimeException LAKESTEP_UNSUPPORTED_RUNTIME for versions, LAKESTEP_RUNTIME_CHANGED
   *     for something that is missing
   */
  public static void check() {
    if (!isChecked) {
      check(version("org.apache.spark.package$", "SPARK_VERSION"), version("io.delta.package$", "VERSION"));
      checkLineOfDelta();
      isChecked = true;
    }
  }

  /** A Delta of the same version may be for another line of Spark, which only the name of its JAR says. */
  private static void checkLineOfDelta() {
    URL found = RuntimeContract.class.getClassLoader().getResource("io/delta/package$.class");
    Matcher name = DELTA_JAR.matcher(String.valueOf(found));
    String line = line(build().getProperty("spark"));
    if (name.find() && !name.group(1).equals(line)) {
      throw unsupported("Delta for Spark " + name.group(1), build().getProperty("delta"));
    }
  }

  /** As {@link #check()} for these versions; null for a component that is not there. */
  static void check(String spark, String delta) {
    Properties build = build();
    if (!isPatchOf(build.getProperty("spark"), spark)) throw unsupported("Spark", spark);
    if (!isPatchOf(build.getProperty("delta"), delta)) throw unsupported("Delta", delta);
    for (String[] row : missing(CONTRACT)) throw changed(shown(row), row[3], null);
    boolean isBuiltWith =
        build.getProperty("spark").equals(spark) && build.getProperty("delta").equals(delta);
    if (!isBuiltWith) {
      for (String[] row : missing(LINKAGE)) throw changed(shown(row), "what " + row[3] + " does", null);
    }
  }

  /** The rows of a list that are not there. */
  static List<String[]> missing(String list) {
    ClassFiles classes = new ClassFiles(RuntimeContract.class.getClassLoader());
    List<String[]> missing = new ArrayList<>();
    for (String[] row : rows(list)) {
      if (!classes.has(row[0], row[1], row[2])) missing.add(row);
    }
    return missing;
  }

  /** The same first two numbers. */
  private static boolean isPatchOf(String built, String found) {
    return found != null && line(built).equals(line(found));
  }

  static String line(String version) {
    String[] parts = version.split("\\.");
    return parts.length < 2 ? version : parts[0] + "." + parts[1];
  }

  private static String version(String holder, String name) {
    try {
      Class<?> found = Class.forName(holder, true, RuntimeContract.class.getClassLoader());
      return String.valueOf(found.getMethod(name).invoke(found.getField("MODULE$").get(null)));
    } catch (ReflectiveOperationException | LinkageError none) {
      return null;
    }
  }

  /** `version`, `spark` and `delta` that this JAR was built as, and with. */
  static Properties build() {
    Properties properties = new Properties();
    try (InputStream in = resource("lakestep-build.properties")) {
      properties.load(in);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    return properties;
  }

  private static UnsupportedRuntimeException unsupported(String component, String found) {
    Map<String, String> parameters = new LinkedHashMap<>();
    parameters.put("component", component);
    parameters.put("found", found == null ? "none" : found);
    parameters.put("version", build().getProperty("version"));
    parameters.put("spark", line(build().getProperty("spark")) + ".x");
    parameters.put("delta", line(build().getProperty("delta")) + ".x");
    parameters.put("lines", build().getProperty("lines"));
    return error("LAKESTEP_UNSUPPORTED_RUNTIME", parameters, null);
  }

  static UnsupportedRuntimeException changed(String missing, String breaks, Throwable cause) {
    Map<String, String> parameters = new LinkedHashMap<>();
    parameters.put("missing", missing);
    parameters.put("breaks", breaks);
    parameters.put("version", build().getProperty("version"));
    parameters.put("spark", build().getProperty("spark"));
    parameters.put("delta", build().getProperty("delta"));
    return error("LAKESTEP_RUNTIME_CHANGED", parameters, cause);
  }

  static RuntimeException unchecked(Throwable cause) {
    if (cause instanceof RuntimeException) return (RuntimeException) cause;
    if (cause instanceof Error) throw (Error) cause;
    return new RuntimeException(cause);
  }

  /** By the same texts as every other error; Spark's own reader of them is another in each version. */
  private static UnsupportedRuntimeException error(
      String condition, Map<String, String> parameters, Throwable cause) {
    JsonNode entry;
    try (InputStream in = resource("lakestep-error-conditions.json")) {
      entry = new ObjectMapper().readTree(in).get(condition);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    List<String> lines = new ArrayList<>();
    entry.get("message").forEach(line -> lines.add(line.asText()));
    String text = String.join("\n", lines);
    for (Map.Entry<String, String> parameter : parameters.entrySet()) {
      text = text.replace("<" + parameter.getKey() + ">", parameter.getValue());
    }
    return new UnsupportedRuntimeException(
        condition, entry.get("sqlState").asText(), text, parameters, cause);
  }

  private static String shown(String[] row) {
    return row[1].isEmpty() ? row[0] : row[0] + "." + row[1] + row[2];
  }

  /** Class, member, descriptor, and what needs it; without a member the class itself. */
  static List<String[]> rows(String resource) {
    List<String[]> rows = new ArrayList<>();
    try (BufferedReader in =
        new BufferedReader(new InputStreamReader(resource(resource), StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        if (!line.isEmpty() && !line.startsWith("#")) rows.add(line.split("\t", -1));
      }
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    return rows;
  }

  private static InputStream resource(String name) {
    return RuntimeContract.class.getClassLoader().getResourceAsStream(name);
  }

  /** What class files on the class path declare, or inherit. */
  private static final class ClassFiles {

    private final ClassLoader loader;
    private final Map<String, Declared> known = new HashMap<>();

    ClassFiles(ClassLoader loader) {
      this.loader = loader;
    }

    /** A member of any descriptor where it is empty; a class where the member is empty. */
    boolean has(String className, String member, String descriptor) {
      Declared found = declared(className.replace('.', '/'));
      if (found == null) return false;
      if (member.isEmpty() || found.has(member, descriptor)) return true;
      return found.supers.stream().anyMatch(above -> has(above, member, descriptor));
    }

    private Declared declared(String internalName) {
      if (!known.containsKey(internalName)) known.put(internalName, read(internalName));
      return known.get(internalName);
    }

    private Declared read(String internalName) {
      try (InputStream in = loader.getResourceAsStream(internalName + ".class")) {
        if (in == null) return null;
        Declared declared = new Declared();
        int skip = ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES;
        new ClassReader(in).accept(declared, skip);
        return declared;
      } catch (IOException failure) {
        throw new UncheckedIOException(failure);
      }
    }
  }

  private static final class Declared extends ClassVisitor {

    final List<String> supers = new ArrayList<>();
    private final Set<String> members = new TreeSet<>();

    Declared() {
      super(Opcodes.ASM9);
    }

    boolean has(String member, String descriptor) {
      return members.contains(descriptor.isEmpty() ? member : member + descriptor);
    }

    @Override
    public void visit(
        int version, int access, String name, String signature, String above, String[] interfaces) {
      if (above != null) supers.add(above);
      supers.addAll(Arrays.asList(interfaces));
    }

    @Override
    public MethodVisitor visitMethod(
        int access, String name, String descriptor, String signature, String[] exceptions) {
      members.add(name);
      members.add(name + descriptor);
      return null;
    }

    @Override
    public FieldVisitor visitField(
        int access, String name, String descriptor, String signature, Object value) {
      members.add(name);
      members.add(name + descriptor);
      return null;
    }
  }
}

package io.lakestep;

import java.lang.reflect.InvocationTargetException;
import org.apache.spark.sql.SparkSessionExtensions;
import scala.Function1;
import scala.runtime.BoxedUnit;

/**
 * {@code spark.sql.extensions=io.lakestep.LakestepExtensions} is all that a session needs: Delta's
 * extension comes along, and the catalog, file system and log stores are set where the user has not
 * set them.
 *
 * <p>Spark starts a session without an extension that cannot be linked, after a warning that nobody
 * reads. So this class links on every Spark, and throws a condition of its own where Lakestep does not
 * fit. The hooks themselves are {@code io.lakestep.api.SessionHooks}.
 */
public final class LakestepExtensions implements Function1<SparkSessionExtensions, BoxedUnit> {

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    RuntimeContract.check();
    try {
      Class.forName("io.lakestep.api.SessionHooks")
          .getMethod("inject", SparkSessionExtensions.class)
          .invoke(null, extensions);
    } catch (InvocationTargetException failure) {
      Throwable cause = failure.getCause();
      if (cause instanceof LinkageError || cause instanceof ClassCastException) {
        throw RuntimeContract.changed(cause.toString(), "no session can start", cause);
      }
      throw RuntimeContract.unchecked(cause);
    } catch (ReflectiveOperationException | LinkageError failure) {
      throw RuntimeContract.changed(failure.toString(), "no session can start", failure);
    }
    return BoxedUnit.UNIT;
  }
}

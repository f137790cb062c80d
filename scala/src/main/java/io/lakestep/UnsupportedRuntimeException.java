package io.lakestep;

import java.util.Collections;
import java.util.Map;
import org.apache.spark.SparkThrowable;

/** Spark or Delta are not those that this JAR works with. Links on every Spark from 3.2 on. */
public final class UnsupportedRuntimeException extends RuntimeException implements SparkThrowable {

  private final String condition;
  private final String sqlState;
  private final Map<String, String> parameters;

  UnsupportedRuntimeException(
      String condition,
      String sqlState,
      String message,
      Map<String, String> parameters,
      Throwable cause) {
    super("[" + condition + "] " + message + " SQLSTATE: " + sqlState, cause);
    this.condition = condition;
    this.sqlState = sqlState;
    this.parameters = Collections.unmodifiableMap(parameters);
  }

  // Without @Override: not every Spark has each of them.

  public String getCondition() {
    return condition;
  }

  public String getErrorClass() {
    return condition;
  }

  public String getSqlState() {
    return sqlState;
  }

  public Map<String, String> getMessageParameters() {
    return parameters;
  }
}

package io.lakestep.sql

/** Rows about the database: what SHOW TIMELINE and its like print, and what table functions give to queries. */
package object listing

-- The nightly load of a shop, ported from a warehouse. It is one transaction.
--   sales (id, customer, day, amount)    customers (id, name, city)    prices (item, price)
--   landing_sales, landing_customers, landing_prices, corrections: what came in during the day
--   rejected (reason, rows): what was not taken    loads (id, sales, rejected): a row a night

BEGIN ATOMIC
  DECLARE orphans BIGINT DEFAULT 0;

  -- 1. Customers: new ones, and those who have moved.
  MERGE INTO customers t
  USING landing_customers s ON t.id = s.id
  WHEN MATCHED AND (t.name <> s.name OR t.city <> s.city) THEN
    UPDATE SET name = s.name, city = s.city
  WHEN NOT MATCHED THEN
    INSERT (id, name, city) VALUES (s.id, s.name, s.city);

  -- 2. Stage the sales: of each the last word, and whether its customer is known.
  CREATE OR REPLACE TEMPORARY VIEW last_sales AS
    SELECT id, customer, day, amount
    FROM landing_sales
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY loaded_at DESC) = 1;

  CREATE TABLE staging_sales USING delta AS
    SELECT s.*, c.id IS NULL AS is_orphan
    FROM last_sales s
    LEFT JOIN customers c ON c.id = s.customer;

  -- 3. Those without a customer are rejected, the others are taken.
  SET orphans = (SELECT count(*) FROM staging_sales WHERE is_orphan);
  IF orphans > 0 THEN
    INSERT INTO rejected VALUES ('no such customer', orphans);
    DELETE FROM staging_sales WHERE is_orphan;
  END IF;

  MERGE INTO sales t
  USING staging_sales s ON t.id = s.id
  WHEN MATCHED THEN
    UPDATE SET customer = s.customer, day = s.day, amount = s.amount
  WHEN NOT MATCHED THEN
    INSERT (id, customer, day, amount) VALUES (s.id, s.customer, s.day, s.amount);

  CREATE TABLE IF NOT EXISTS loads (
    id BIGINT,
    sales BIGINT,
    rejected BIGINT
  ) USING delta;
  INSERT INTO loads
    SELECT (SELECT count(*) FROM loads) + 1, count(*), orphans
    FROM staging_sales;

  -- 4. Corrections: if one makes a sale negative, none is taken.
  SAVEPOINT before_corrections;
  MERGE INTO sales t
  USING corrections s ON t.id = s.id
  WHEN MATCHED THEN
    UPDATE SET amount = t.amount + s.delta;
  IF (SELECT min(amount) FROM sales) < 0 THEN
    ROLLBACK TO before_corrections;
    INSERT INTO rejected SELECT 'corrections', count(*) FROM corrections;
  END IF;

  -- 5. Prices: a new table takes the place of the old one.
  CREATE TABLE prices_new (item STRING, price DECIMAL(9, 2)) USING delta COMMENT 'of today';
  INSERT INTO prices_new
    SELECT item, max(price) FROM landing_prices GROUP BY item;
  ALTER TABLE prices RENAME TO prices_old;
  ALTER TABLE prices_new RENAME TO prices;
  DROP TABLE prices_old;

  -- 6. What reports read.
  CREATE OR REPLACE VIEW sales_by_city AS
    SELECT c.city, sum(s.amount) AS amount
    FROM sales s JOIN customers c ON c.id = s.customer
    GROUP BY c.city;

  -- 7. Clean up. A check that fails takes all of it back.
  TRUNCATE TABLE landing_sales;
  TRUNCATE TABLE landing_customers;
  TRUNCATE TABLE landing_prices;
  DROP TABLE staging_sales;
  SELECT assert_true(count(*) = 0, 'an item without a price') FROM prices WHERE price IS NULL;
END;

CREATE STREAM moves (
  person STRING NOT NULL,
  place  STRING NOT NULL,
  at     TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at
);

CREATE TABLE lives PRIMARY KEY (person) AS
SELECT person, place, at FROM moves;

CREATE MATERIALIZED VIEW headcount AS
SELECT place, count(*) AS people FROM lives GROUP BY place;

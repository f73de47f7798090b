CREATE STREAM readings (
  machine     STRING NOT NULL,
  temperature DOUBLE,
  vibration   DOUBLE,
  rpm         DOUBLE,
  at          TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 5 MINUTES
);

CREATE STREAM scored AS
SELECT machine, failure_risk(temperature, vibration, rpm) AS risk, at FROM readings;

CREATE MATERIALIZED VIEW risk_per_machine AS
SELECT machine,
       count(risk)          AS readings,
       avg(risk)            AS risk,
       max(risk)            AS highest,
       count_if(risk > 0.5) AS risky
FROM scored
GROUP BY machine, window(at, '1 hour');

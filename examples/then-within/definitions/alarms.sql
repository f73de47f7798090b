CREATE STREAM alarms (
  device STRING NOT NULL,
  alarm  STRING NOT NULL,
  at     TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 5 MINUTES
);

CREATE MATERIALIZED VIEW power_then_link AS
SELECT device,
       count_if(alarm = 'power')                          AS power,
       followed(alarm = 'power', alarm = 'link_lost', at) AS then_link_lost
FROM alarms
WHERE alarm IN ('power', 'link_lost')
GROUP BY device, window(at, '1 hour')
HAVING power > 0;
